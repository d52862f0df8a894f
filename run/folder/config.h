#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tapegrad/base/describe.h"

namespace tapegrad::run {

// The contents of a run folder's config.json: values by name, in sections. A described struct (see
// describe.h) is written as a section and read from one.

// monostate: an optional without a value, null in JSON.
using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
                           std::vector<std::string>>;
std::string text_of(const Value& value);  // as JSON: 3, true, "char", null

struct Section {
  std::string name;
  std::vector<std::pair<std::string, Value>> values;
  // Names of values that older files lack; Rule::newer.
  std::vector<std::string> newer = {};
  const Value* find(std::string_view name) const;  // null if there is none
};

struct Config {
  std::string format = {};  // the kind of model: "tapegrad-gpt"
  std::vector<Section> sections = {};
  // Adds a section, in place of one of its name.
  void set(Section section);
  const Section* find(std::string_view name) const;  // null if there is none
  // Error, naming `path`, if there is no such section.
  const Section& at(std::string_view name, const std::filesystem::path& path) const;
};

inline constexpr std::int64_t kConfigVersion = 2;

// {"format": F, "version": 2, SECTION: {NAME: VALUE, …}, …}. Errors name the file: it is missing,
// broken, of another version, or of another format than `format` (if that is not empty).
Config read_config(const std::filesystem::path& path, std::string_view format);
void write_config(const std::filesystem::path& path, const Config& config);

namespace detail {

Value value_of(bool value);
Value value_of(int value);
Value value_of(std::int64_t value);
Value value_of(std::uint64_t value);
Value value_of(double value);
Value value_of(const std::string& value);
Value value_of(const std::vector<std::string>& value);
template <NamedEnum E>
Value value_of(E value) {
  return std::string(name_of_enum(value));
}
template <class T>
Value value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Value();
}

// The typed value, or an Error such as "n_layer must be a whole number".
void read_value(std::string_view name, const Value& value, bool& to);
void read_value(std::string_view name, const Value& value, int& to);
void read_value(std::string_view name, const Value& value, std::int64_t& to);
void read_value(std::string_view name, const Value& value, std::uint64_t& to);
void read_value(std::string_view name, const Value& value, double& to);
void read_value(std::string_view name, const Value& value, std::string& to);
void read_value(std::string_view name, const Value& value, std::vector<std::string>& to);
[[noreturn]] void fail_choice(std::string_view name, const std::string& value,
                              std::span<const std::string_view> choices);
template <NamedEnum E>
void read_value(std::string_view name, const Value& value, E& to) {
  std::string text;
  read_value(name, value, text);
  const auto found = enum_of<E>(text);
  if (!found) fail_choice(name, text, names_of(E{}));
  to = *found;
}
template <class T>
void read_value(std::string_view name, const Value& value, std::optional<T>& to) {
  if (std::holds_alternative<std::monostate>(value)) {
    to.reset();
  } else {
    read_value(name, value, to.emplace());
  }
}

// Writes the members that last longer than a call.
struct Writer {
  Config& config;
  Lasting lasting = Lasting::model;
  template <class T>
  void operator()(std::string_view name, const T& value, std::string_view, const Rule& rule = {}) {
    if (rule.lasting.value_or(lasting) == Lasting::call) return;
    Section& section = config.sections.back();
    section.values.emplace_back(std::string(name), value_of(value));
    if (rule.newer) section.newer.emplace_back(name);
  }
  template <class Part>
  void section(std::string_view name, std::string_view, Lasting l, const Part& part) {
    lasting = l;
    if (l == Lasting::call) return;
    config.sections.push_back({std::string(name), {}});
    Part::describe(part, *this);
  }
};

// Reads what a Writer has written. Every member must be there, within its rule, and nothing else.
class Reader {
 public:
  Reader(const std::filesystem::path& path, const Config& config) : path_(path), config_(config) {}
  // Of one section, whose struct is described by the caller.
  Reader(const std::filesystem::path& path, const Config& config, const Section& section)
      : path_(path), config_(config), section_(&section) {}

  template <class T>
  void operator()(std::string_view name, T& value, std::string_view, const Rule& rule = {}) {
    if (rule.lasting.value_or(lasting_) == Lasting::call) return;
    const Value* stored = find(name, rule.newer);
    if (stored == nullptr) return;
    naming_file([&] {
      read_value(name, *stored, value);
      check_rule(fmt::format("'{}'", name), value, rule);
    });
  }
  template <class Part>
  void section(std::string_view name, std::string_view, Lasting lasting, Part& part) {
    if (lasting == Lasting::call) return;
    lasting_ = lasting;
    section_ = config_.find(name);
    if (section_ == nullptr) {  // the file may be older than the section
      absent_ = {std::string(name), {}};
      section_ = &absent_;
    }
    known_.clear();
    Part::describe(part, *this);
    check_all_known();
  }
  // Error, naming it, if the section has a value that no member took.
  void check_all_known() const;

 private:
  const Value* find(std::string_view name, bool may_lack);
  template <class Read>
  void naming_file(const Read& read) const {
    try {
      read();
    } catch (const Error& error) {
      fail("{}: {}", path_.string(), error.what());
    }
  }

  const std::filesystem::path& path_;
  const Config& config_;
  const Section* section_ = nullptr;
  Section absent_;
  Lasting lasting_ = Lasting::model;
  std::vector<std::string> known_;
};

}  // namespace detail

// The sections of a struct that describes sections.
template <class Options>
Config config_of(const Options& options, std::string_view format) {
  Config config{std::string(format), {}};
  detail::Writer writer{config};
  Options::describe(options, writer);
  return config;
}

// One described struct as a section.
template <class Part>
Section section_of(std::string_view name, const Part& part) {
  Config config{{}, {{std::string(name), {}}}};
  detail::Writer writer{config};
  Part::describe(part, writer);
  return config.sections.front();
}

// Sets the members that the sections have values for; `path` is for messages.
template <class Options>
void read_options(const std::filesystem::path& path, const Config& config, Options& options) {
  detail::Reader reader(path, config);
  Options::describe(options, reader);
}
template <class Part>
void read_section(const std::filesystem::path& path, const Config& config, std::string_view name,
                  Part& part) {
  detail::Reader reader(path, config, config.at(name, path));
  Part::describe(part, reader);
  reader.check_all_known();
}

}  // namespace tapegrad::run
