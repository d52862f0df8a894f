#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/jinja/internal/run.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

// Filters, tests, methods and global functions: `self` is what they are applied to.
using Function = Value (*)(Run& run, const Value& self, const Arguments& arguments);

struct NamedFunction {
  std::string_view name;
  Function function;
};

// Arguments by the names of parameters. Errors as Python's: too many, unknown, twice, missing.
class Parameters {
 public:
  Parameters(const Arguments& arguments, std::string_view function,
             std::initializer_list<std::string_view> names, std::size_t required = 0);

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](std::size_t i) const;  // None if it was not given
  const Value* find(std::size_t i) const { return values_[i]; }

  // The argument as a type of Python's, or the default if it was not given. Error for another type.
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;
  std::string_view text(std::size_t i, std::string_view otherwise = {}) const;

 private:
  std::string_view function_;
  Vector<const Value*> values_;
};

// Calls a function of a table. Each may look at all that it is given, which takes steps.
Value invoke(Run& run, Function function, const Value& self, const Arguments& arguments);

// A function as a value, with what it is a method of.
Value function_value(std::string_view name, Function function, Value self = {});

// The `attribute` of filters: "a.b.0" is item 0 of member b of member a; None is the value itself.
Value attribute_path(Run& run, const Value& value, const Value& path);

Function find_filter(std::string_view name);  // null if there is none
Function find_test(std::string_view name);
Function find_global(std::string_view name);

// The tables behind these, one for each file of filters.
std::span<const NamedFunction> text_filters();
std::span<const NamedFunction> item_filters();
std::span<const NamedFunction> selection_filters();
std::span<const NamedFunction> number_filters();
std::span<const NamedFunction> value_tests();
std::span<const NamedFunction> text_methods();
std::span<const NamedFunction> dict_methods();
std::span<const NamedFunction> global_functions();
const NamedFunction* find_in(std::span<const NamedFunction> table, std::string_view name);

}  // namespace tapegrad::data::jinja
