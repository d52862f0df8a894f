#include "tapegrad/base/option_schema.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

template <class T>
OptionValue value_at(const void* at, bool is_optional) {
  if (!is_optional) return *static_cast<const T*>(at);
  const auto& value = *static_cast<const std::optional<T>*>(at);
  return value ? OptionValue(*value) : OptionValue();
}

template <class T>
void set_at(void* at, bool is_optional, const T& value) {
  if (is_optional) {
    *static_cast<std::optional<T>*>(at) = value;
  } else {
    *static_cast<T*>(at) = value;
  }
}

template <class T>
void reset_at(void* at) {
  static_cast<std::optional<T>*>(at)->reset();
}

template <class T>
T whole_of(const OptionValue& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) {
    check(std::in_range<T>(*number), "{} does not fit the member", *number);
    return static_cast<T>(*number);
  }
  const auto number = std::get<std::int64_t>(value);
  check(std::in_range<T>(number), "{} does not fit the member", number);
  return static_cast<T>(number);
}

template <class T>
void check_number(std::string_view name, const T& value, const Rule& rule) {
  const auto number = static_cast<double>(value);
  if (rule.below_most) {
    check(number >= rule.least && number < rule.most, "{} must be at least {} and below {}, not {}",
          name, rule.least, rule.most, value);
  } else if (std::isinf(rule.most)) {
    check(number >= rule.least, "{} must be at least {}, not {}", name, rule.least, value);
  } else {
    check(number >= rule.least && number <= rule.most, "{} must be from {} to {}, not {}", name,
          rule.least, rule.most, value);
  }
}

class RuleChecker : public OptionTable {
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    check_rule(name, member.value(), rule);
  }
};

}  // namespace

OptionValue Member::value() const {
  switch (type_) {
    case Type::boolean:
      return value_at<bool>(at_, optional_);
    case Type::whole32: {
      if (!optional_) return std::int64_t{*static_cast<const int*>(at_)};
      const auto& value = *static_cast<const std::optional<int>*>(at_);
      return value ? OptionValue(std::int64_t{*value}) : OptionValue();
    }
    case Type::whole64:
      return value_at<std::int64_t>(at_, optional_);
    case Type::unsigned64:
      return value_at<std::uint64_t>(at_, optional_);
    case Type::real:
      return value_at<double>(at_, optional_);
    case Type::text:
      return value_at<std::string>(at_, optional_);
    case Type::texts:
      return *static_cast<const std::vector<std::string>*>(at_);
    case Type::choice:
      break;
  }
  const int index = index_(at_);
  if (index < 0) return {};
  return std::string(names_[static_cast<std::size_t>(index)]);
}

void Member::set(const OptionValue& value) const {
  const bool none = std::holds_alternative<std::monostate>(value);
  check(!none || optional_, "the member needs a value");
  switch (type_) {
    case Type::boolean:
      return none ? reset_at<bool>(at_) : set_at(at_, optional_, std::get<bool>(value));
    case Type::whole32:
      return none ? reset_at<int>(at_) : set_at(at_, optional_, whole_of<int>(value));
    case Type::whole64:
      return none ? reset_at<std::int64_t>(at_)
                  : set_at(at_, optional_, whole_of<std::int64_t>(value));
    case Type::unsigned64:
      return none ? reset_at<std::uint64_t>(at_)
                  : set_at(at_, optional_, whole_of<std::uint64_t>(value));
    case Type::real:
      return none ? reset_at<double>(at_) : set_at(at_, optional_, std::get<double>(value));
    case Type::text:
      return none ? reset_at<std::string>(at_)
                  : set_at(at_, optional_, std::get<std::string>(value));
    case Type::texts:
      *static_cast<std::vector<std::string>*>(at_) = std::get<std::vector<std::string>>(value);
      return;
    case Type::choice:
      break;
  }
  if (none) return set_index_(at_, -1);
  const auto& name = std::get<std::string>(value);
  const auto found = std::find(names_.begin(), names_.end(), name);
  check(found != names_.end(), "'{}' is not one of the names", name);
  set_index_(at_, static_cast<int>(found - names_.begin()));
}

void check_rule(std::string_view name, const OptionValue& value, const Rule& rule) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) check_number(name, *i, rule);
  if (const auto* u = std::get_if<std::uint64_t>(&value)) check_number(name, *u, rule);
  if (const auto* x = std::get_if<double>(&value)) check_number(name, *x, rule);
}

void check_rules(OptionSchema config) {
  RuleChecker checker;
  config.describe(checker);
}

}  // namespace tapegrad
