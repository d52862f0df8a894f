#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/base/option_schema.h"

namespace tapegrad::run {

// The contents of a run folder's config.json: values by name, in sections. A described struct (see
// option_schema.h) is written as a section and read from one.

inline constexpr std::string_view kConfigFile = "config.json";

// monostate: an optional without a value, null in JSON.
using Value = OptionValue;
std::string value_text(const Value& value);  // as JSON: 3, true, "char", null

struct Section {
  std::string name;
  std::vector<std::pair<std::string, Value>> values;
  // Names of values that older files lack; Rule::newer.
  std::vector<std::string> newer = {};
  // Names of values that may change when a run is resumed; Lasting::run.
  std::vector<std::string> changeable = {};
  // The meaning of such a section: with a value in place of each null that has one.
  std::function<Section(const Section&)> with_defaults = {};
  const Value* find(std::string_view name) const;  // null if there is none
};

struct Config {
  std::string format = {};  // the kind of model: "tapegrad-gpt"
  std::vector<Section> sections = {};
  // Adds a section, or replaces the one of its name.
  void set(Section section);
  const Section* find(std::string_view name) const;  // null if there is none
  // Error, naming `path`, if there is no such section.
  const Section& at(std::string_view name, const std::filesystem::path& path) const;
};

inline constexpr std::int64_t kConfigVersion = 2;

// {"format": F, "version": 2, SECTION: {NAME: VALUE, …}, …}. Errors name the file: it is missing,
// broken, of another version, or of another format than `format` (if that is not empty).
Config read_config(const std::filesystem::path& path, std::string_view format);
// True if the folder's config.json says that it is of a run or a model of ours: other programs have
// files of that name.
bool has_own_config(const std::filesystem::path& folder);
void write_config(const std::filesystem::path& path, const Config& config);

// Sets a member to the value that a file has for it. Error, such as "'n_layer' must be a whole
// number", if the value is of another type.
void set_member(std::string_view name, const Member& member, const Value& value);

// The sections of a struct that describes sections, without what lasts for a call only.
Config config_of(OptionSchema options, std::string_view format);
// One described struct as a section.
Section section_of(std::string_view name, OptionSchema part);
// The same for a struct whose with_defaults() gives it with a value for each member that has one.
template <class Part>
requires requires(const Part& part) {
  { part.with_defaults() } -> std::same_as<Part>;
}
Section section_of(std::string_view name, const Part& part);

// A value that is another one when a run is resumed; both as JSON, null as "none".
struct Change {
  std::string name, before, now;
};
// All changes of values that may change, in their order.
std::vector<Change> allowed_changes(const Config& before, const Config& now);
// The first change that must not be, from one section to another, by what they stand for. `before`
// may lack what is newer.
std::optional<Change> first_change(const Section& before, const Section& now);

// Sets the members that the sections have values for; `path` is for messages. Every member must be
// there, within its rule, and nothing else.
void read_options(const std::filesystem::path& path, const Config& config, OptionSchema options);
void read_section(const std::filesystem::path& path, const Config& config, std::string_view name,
                  OptionSchema part);

template <class Part>
requires requires(const Part& part) {
  { part.with_defaults() } -> std::same_as<Part>;
}
Section section_of(std::string_view name, const Part& part) {
  Section section = section_of(name, OptionSchema(part));
  section.with_defaults = [](const Section& stored) {
    Part read;
    read_section(kConfigFile, {.sections = {stored}}, stored.name, read);
    const Part whole = read.with_defaults();
    return section_of(stored.name, OptionSchema(whole));
  };
  return section;
}

}  // namespace tapegrad::run
