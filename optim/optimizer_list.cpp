#include "tapegrad/optim/optimizer_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/base/error.h"

namespace tapegrad::optim {

namespace {

class MemberList : public OptionTable {
 public:
  std::vector<OptionMember> members;

 private:
  void visit(std::string_view name, const Member& member, std::string_view help,
             const Rule& rule) override {
    members.push_back({name, member, help, rule});
  }
};

}  // namespace

std::vector<OptionMember> members_of(OptionSchema options) {
  MemberList list;
  options.describe(list);
  return list.members;
}

std::span<const std::string_view> names_of(OptimizerId) {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const auto& row : optimizer_rows()) list.push_back(row->name());
    return list;
  }();
  return names;
}

OptimizerId optimizer_named(std::string_view name) {
  const auto found = enum_of<OptimizerId>(name);
  check(found.has_value(), "'{}' is not an optimiser; there are {}", name,
        fmt::join(names_of(OptimizerId{}), ", "));
  return *found;
}

OptimizerSettings::OptimizerSettings() : entries_(optimizer_rows()) {}

OptimizerSettings::OptimizerSettings(const OptimizerSettings& other) {
  for (const auto& entry : other.entries_) entries_.push_back(entry->clone());
}

OptimizerSettings& OptimizerSettings::operator=(const OptimizerSettings& other) {
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i]->assign(*other.entries_[i]);
  return *this;
}

OptimizerSettings::~OptimizerSettings() = default;

namespace {

// A number as a value of the member's type.
OptionValue value_for(const OptionMember& member, double value) {
  switch (member.at.type()) {
    case Member::Type::boolean:
      return value != 0;
    case Member::Type::real:
      return value;
    case Member::Type::whole32:
    case Member::Type::whole64:
    case Member::Type::unsigned64: {
      constexpr double most = std::int64_t{1} << 53;  // doubles are whole numbers up to here
      check(value == std::trunc(value) && std::abs(value) <= most,
            "{} must be a whole number, not {}", member.name, value);
      return static_cast<std::int64_t>(value);
    }
    case Member::Type::text:
    case Member::Type::texts:
    case Member::Type::choice:
      break;
  }
  fail("{} is not a number, and cannot be set to {}", member.name, value);
}

}  // namespace

OptimizerSettings& OptimizerSettings::set(std::string_view option, double value) {
  for (const auto& entry : entries_) {
    for (const OptionMember& member : entry->members()) {
      if (member.name != option) continue;
      member.at.set(value_for(member, value));
      return *this;
    }
  }
  fail("no optimiser has an option '{}'", option);
}

std::shared_ptr<const Optimizer> OptimizerSettings::make(OptimizerId id) const {
  OptimizerEntry& entry = *entries_[static_cast<std::size_t>(id)];
  for (const OptionMember& member : entry.members()) {
    check_rule(member.name, member.at.value(), member.rule);
  }
  return entry.make();
}

std::vector<std::string_view> OptimizerSettings::options_of(OptimizerId id) const {
  std::vector<std::string_view> names;
  for (const OptionMember& member : entries_[static_cast<std::size_t>(id)]->members()) {
    names.push_back(member.name);
  }
  return names;
}

void OptimizerSettings::describe(OptionTable& t) {
  for (const auto& entry : entries_) {
    for (const OptionMember& member : entry->members()) {
      Rule rule = member.rule;
      rule.newer = true;
      t(member.name, member.at, fmt::format("{}: {}", entry->name(), member.help), rule);
    }
  }
}

}  // namespace tapegrad::optim
