// Described structs as sections of a config, both ways.

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/run/folder/config.h"

namespace tapegrad::run {
namespace {

template <class T>
T expect(std::string_view name, const Value& value, std::string_view what) {
  const T* found = std::get_if<T>(&value);
  check(found != nullptr, "'{}' must be {}", name, what);
  return *found;
}

template <class T>
T whole_of(std::string_view name, const Value& value) {
  T result{};
  bool fits = false;
  if (const auto* u = std::get_if<std::uint64_t>(&value)) {
    fits = std::in_range<T>(*u);
    result = static_cast<T>(*u);
  } else if (const auto* i = std::get_if<std::int64_t>(&value)) {
    fits = std::in_range<T>(*i);
    result = static_cast<T>(*i);
  }
  check(fits, "'{}' must be a whole number from {} to {}", name, std::numeric_limits<T>::min(),
        std::numeric_limits<T>::max());
  return result;
}

double real_of(std::string_view name, const Value& value) {
  if (const auto* u = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<std::int64_t>(&value)) return static_cast<double>(*i);
  return expect<double>(name, value, "a number");
}

std::string choice_of(std::string_view name, const Member& member, const Value& value) {
  const auto text = expect<std::string>(name, value, "a text");
  const auto choices = member.names();
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    fail("'{}' must be one of {}, not {}", name, fmt::join(choices, ", "), text);
  }
  return text;
}

// A file's value as one of the member's type: in JSON, 3 may be any kind of number.
Value typed(std::string_view name, const Member& member, const Value& value) {
  if (member.is_optional() && std::holds_alternative<std::monostate>(value)) return {};
  switch (member.type()) {
    case Member::Type::boolean:
      return expect<bool>(name, value, "true or false");
    case Member::Type::whole32:
      return std::int64_t{whole_of<int>(name, value)};
    case Member::Type::whole64:
      return whole_of<std::int64_t>(name, value);
    case Member::Type::unsigned64:
      return whole_of<std::uint64_t>(name, value);
    case Member::Type::real:
      return real_of(name, value);
    case Member::Type::text:
      return expect<std::string>(name, value, "a text");
    case Member::Type::texts:
      return expect<std::vector<std::string>>(name, value, "a list of texts");
    case Member::Type::choice:
      break;
  }
  return choice_of(name, member, value);
}

// Writes the members that last longer than a call.
class Writer : public OptionTable {
 public:
  explicit Writer(Config& config) : config_(config) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    if (rule.lasting.value_or(lasting_) == Lasting::call) return;
    Section& section = config_.sections.back();
    section.values.emplace_back(std::string(name), member.value());
    if (rule.newer) section.newer.emplace_back(name);
    if (rule.lasting.value_or(lasting_) == Lasting::run) section.changeable.emplace_back(name);
  }
  bool begin_section(std::string_view name, std::string_view, Lasting lasting) override {
    lasting_ = lasting;
    if (lasting == Lasting::call) return false;
    config_.sections.push_back({std::string(name), {}});
    return true;
  }

  Config& config_;
  Lasting lasting_ = Lasting::model;
};

// Reads what a Writer has written.
class Reader : public OptionTable {
 public:
  Reader(const std::filesystem::path& path, const Config& config) : path_(path), config_(config) {}
  // Reads one section, whose struct the caller describes.
  Reader(const std::filesystem::path& path, const Config& config, const Section& section)
      : path_(path), config_(config), section_(&section) {}

  // Error, naming it, if the section has a value that no member took.
  void check_all_known() const {
    for (const auto& [name, value] : section_->values) {
      check(std::find(known_.begin(), known_.end(), name) != known_.end(),
            "{}: '{}' has a value '{}' that this program does not know", path_.string(),
            section_->name, name);
    }
  }

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    if (rule.lasting.value_or(lasting_) == Lasting::call) return;
    const Value* stored = find(name, rule.newer);
    if (stored == nullptr) return;
    try {
      set_member(name, member, *stored);
      check_rule(fmt::format("'{}'", name), member.value(), rule);
    } catch (const Error& error) {
      fail("{}: {}", path_.string(), error.what());
    }
  }
  bool begin_section(std::string_view name, std::string_view, Lasting lasting) override {
    if (lasting == Lasting::call) return false;
    lasting_ = lasting;
    section_ = config_.find(name);
    if (section_ == nullptr) {  // the file may be older than the section
      absent_ = {std::string(name), {}};
      section_ = &absent_;
    }
    known_.clear();
    return true;
  }
  void end_section() override { check_all_known(); }

  const Value* find(std::string_view name, bool may_lack) {
    known_.emplace_back(name);
    const Value* value = section_->find(name);
    check(value != nullptr || may_lack, "{}: '{}' is missing in '{}'", path_.string(), name,
          section_->name);
    return value;
  }

  const std::filesystem::path& path_;
  const Config& config_;
  const Section* section_ = nullptr;
  Section absent_;
  Lasting lasting_ = Lasting::model;
  std::vector<std::string> known_;
};

}  // namespace

void set_member(std::string_view name, const Member& member, const Value& value) {
  member.set(typed(name, member, value));
}

Config config_of(OptionSchema options, std::string_view format) {
  Config config{std::string(format), {}};
  Writer writer(config);
  options.describe(writer);
  return config;
}

Section section_of(std::string_view name, OptionSchema part) {
  Config config{{}, {{std::string(name), {}}}};
  Writer writer(config);
  part.describe(writer);
  return config.sections.front();
}

namespace {

// The changes of values that may change, or of those that may not.
std::vector<Change> changes_of(const Section& before, const Section& now, bool allowed) {
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto words = [](const Value* value) {
    const bool none = value == nullptr || std::holds_alternative<std::monostate>(*value);
    return none ? "none" : value_text(*value);
  };
  std::vector<Change> changes;
  for (const auto& [name, value] : now.values) {
    const Value* old = before.find(name);
    if (is_in(now.changeable, name) != allowed) continue;
    if (old == nullptr && is_in(now.newer, name)) continue;
    if (words(old) != words(&value)) changes.push_back({name, words(old), words(&value)});
  }
  return changes;
}

}  // namespace

std::optional<Change> first_change(const Section& before, const Section& now) {
  if (now.with_defaults) return first_change(now.with_defaults(before), now.with_defaults(now));
  const std::vector<Change> changes = changes_of(before, now, false);
  return changes.empty() ? std::nullopt : std::optional(changes.front());
}

std::vector<Change> allowed_changes(const Config& before, const Config& now) {
  std::vector<Change> all;
  for (const Section& section : now.sections) {
    const Section* old = before.find(section.name);
    if (old == nullptr) continue;
    const std::vector<Change> changes = changes_of(*old, section, true);
    all.insert(all.end(), changes.begin(), changes.end());
  }
  return all;
}

void read_options(const std::filesystem::path& path, const Config& config, OptionSchema options) {
  Reader reader(path, config);
  options.describe(reader);
}

void read_section(const std::filesystem::path& path, const Config& config, std::string_view name,
                  OptionSchema part) {
  Reader reader(path, config, config.at(name, path));
  part.describe(reader);
  reader.check_all_known();
}

}  // namespace tapegrad::run
