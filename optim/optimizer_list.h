#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/option_schema.h"
#include "tapegrad/optim/optimizer.h"

namespace tapegrad::optim {

// The optimisers that --optimizer names, as data: each file in optimizers/ has a row.

// An optimiser of the list; OptimizerId{} is the first one.
enum class OptimizerId : std::size_t {};
std::span<const std::string_view> names_of(OptimizerId);
// Error, naming those there are, for any other name.
OptimizerId optimizer_named(std::string_view name);

// One member of an optimiser's options, as its table describes it.
struct OptionMember {
  std::string_view name;
  Member at;
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

// The rows of a described struct; it must outlive them, and so must its texts.
std::vector<OptionMember> members_of(OptionSchema options);

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
  std::vector<OptionMember> members() override { return members_of(options_); }
  std::shared_ptr<const Optimizer> make() const override { return std::make_shared<T>(options_); }

 private:
  typename T::Options options_ = {};
};

// One row of each file optimizers/NAME.cpp, NAME_row(): made by CMake, see cmake/rows.cmake. The
// first one is the default.
std::vector<std::unique_ptr<OptimizerEntry>> optimizer_rows();

// The options of all optimisers of the list. In tables, the names of options are unique.
class OptimizerSettings {
 public:
  OptimizerSettings();  // the defaults
  OptimizerSettings(const OptimizerSettings& other);
  // In place: a command line holds the addresses of members.
  OptimizerSettings& operator=(const OptimizerSettings& other);
  ~OptimizerSettings();

  // Sets the option of that name, such as "beta2"; a switch is on if the value is not 0. Error if
  // no optimiser has it, or if it is of another type.
  OptimizerSettings& set(std::string_view option, double value);
  // Error as OptimizerEntry::make.
  std::shared_ptr<const Optimizer> make(OptimizerId id) const;
  // The names of its options.
  std::vector<std::string_view> options_of(OptimizerId id) const;

  // The rows of a table, those of all optimisers. Help begins with the optimiser's name, and files
  // may lack them: they can be older than an optimiser.
  void describe(OptionTable& t);

 private:
  std::vector<std::unique_ptr<OptimizerEntry>> entries_;
};

}  // namespace tapegrad::optim
