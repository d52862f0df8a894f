#include "tapegrad/optim/optimizer_list.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/error.h"

namespace tapegrad::optim {

using Row = std::unique_ptr<OptimizerEntry>();

// Each is in the optimiser's own file. The first one is the default.
Row adamw_row, sgd_row;

namespace {

Row* const kRows[] = {adamw_row, sgd_row};

}  // namespace

std::span<const std::string_view> names_of(OptimizerId) {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (Row* const row : kRows) list.push_back(row()->name());
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

OptimizerSettings::OptimizerSettings() {
  for (Row* const row : kRows) entries_.push_back(row());
}

OptimizerSettings::OptimizerSettings(const OptimizerSettings& other) {
  for (const auto& entry : other.entries_) entries_.push_back(entry->clone());
}

OptimizerSettings& OptimizerSettings::operator=(const OptimizerSettings& other) {
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i]->assign(*other.entries_[i]);
  return *this;
}

OptimizerSettings::~OptimizerSettings() = default;

OptimizerSettings& OptimizerSettings::set(std::string_view option, double value) {
  for (const auto& entry : entries_) {
    for (const OptionMember& member : entry->members()) {
      if (member.name != option) continue;
      std::visit([&](auto* to) { *to = static_cast<std::decay_t<decltype(*to)>>(value); },
                 member.value);
      return *this;
    }
  }
  fail("no optimiser has an option '{}'", option);
}

std::shared_ptr<const Optimizer> OptimizerSettings::make(OptimizerId id) const {
  OptimizerEntry& entry = *entries_[static_cast<std::size_t>(id)];
  for (const OptionMember& member : entry.members()) {
    std::visit([&](const auto* value) { check_rule(member.name, *value, member.rule); },
               member.value);
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

std::string OptimizerSettings::help_of(const OptimizerEntry& entry, const OptionMember& member) {
  return fmt::format("{}: {}", entry.name(), member.help);
}

}  // namespace tapegrad::optim
