#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/base/describe.h"
#include "tapegrad/optim/optimizer.h"

namespace tapegrad::optim {

// The optimisers that --optimizer names, as data: optimizer_list.cpp has a row for each.

// An optimiser of the list; OptimizerId{} is the first one.
enum class OptimizerId : std::size_t {};
std::span<const std::string_view> names_of(OptimizerId);
// Error, naming those there are, for any other name.
OptimizerId optimizer_named(std::string_view name);

// One member of an optimiser's options, as its table describes it.
struct OptionMember {
  std::string_view name;
  std::variant<bool*, std::int64_t*, double*> value;
  std::string_view help;
  Rule rule;
};

// A row of the list: the options of an optimiser, and what makes it of them.
class OptimizerEntry {
 public:
  virtual ~OptimizerEntry() = default;
  virtual std::string_view name() const = 0;
  virtual std::unique_ptr<OptimizerEntry> clone() const = 0;
  // Takes the options of `other`, which is of the same row. Members keep their addresses.
  virtual void assign(const OptimizerEntry& other) = 0;
  virtual std::vector<OptionMember> members() = 0;
  // Error, naming the option, for values that mean nothing.
  virtual std::shared_ptr<const Optimizer> make() const = 0;
};

namespace detail {
struct MemberList {
  std::vector<OptionMember> members;
  template <class T>
  void operator()(std::string_view name, T& value, std::string_view help, const Rule& rule = {}) {
    members.push_back({name, &value, help, rule});
  }
};
}  // namespace detail

// The row of the optimiser T, which has kName, a described struct Options, and T(Options).
template <class T>
class EntryOf final : public OptimizerEntry {
 public:
  std::string_view name() const override { return T::kName; }
  std::unique_ptr<OptimizerEntry> clone() const override {
    return std::make_unique<EntryOf>(*this);
  }
  void assign(const OptimizerEntry& other) override {
    options_ = static_cast<const EntryOf&>(other).options_;
  }
  std::vector<OptionMember> members() override {
    detail::MemberList list;
    T::Options::describe(options_, list);
    return list.members;
  }
  std::shared_ptr<const Optimizer> make() const override { return std::make_shared<T>(options_); }

 private:
  typename T::Options options_ = {};
};

// The options of all optimisers of the list. In tables, the names of options are unique.
class OptimizerSettings {
 public:
  OptimizerSettings();  // the defaults
  OptimizerSettings(const OptimizerSettings& other);
  // In place: a command line holds the addresses of members.
  OptimizerSettings& operator=(const OptimizerSettings& other);
  ~OptimizerSettings();

  // Sets the option of that name, such as "beta2"; a switch is on if the value is not 0. Error if
  // no optimiser has it.
  OptimizerSettings& set(std::string_view option, double value);
  // Error as OptimizerEntry::make.
  std::shared_ptr<const Optimizer> make(OptimizerId id) const;
  // The names of its options.
  std::vector<std::string_view> options_of(OptimizerId id) const;

  // The rows of a table: for one that sets values, all of them; else those of `used` alone.
  template <class Table>
  void describe(Table& t) {
    for (const auto& entry : entries_) {
      for (const OptionMember& m : entry->members()) {
        std::visit([&](auto* value) { t(m.name, *value, help_of(*entry, m), newer(m.rule)); },
                   m.value);
      }
    }
  }
  template <class Table>
  void describe(Table& t, const std::vector<OptimizerId>& used) const {
    for (const OptimizerId id : used) {
      OptimizerEntry& entry = *entries_[static_cast<std::size_t>(id)];
      for (const OptionMember& m : entry.members()) {
        std::visit([&](const auto* value) { t(m.name, *value, help_of(entry, m), newer(m.rule)); },
                   m.value);
      }
    }
  }

 private:
  static std::string help_of(const OptimizerEntry& entry, const OptionMember& member);
  // A folder has the options of its own optimiser alone.
  static Rule newer(Rule rule) {
    rule.newer = true;
    return rule;
  }
  std::vector<std::unique_ptr<OptimizerEntry>> entries_;
};

}  // namespace tapegrad::optim
