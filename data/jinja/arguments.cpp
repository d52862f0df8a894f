#include "tapegrad/data/jinja/internal/arguments.h"

#include <algorithm>
#include <utility>

namespace tapegrad::data::jinja {
namespace {

class FunctionObject : public Object {
 public:
  FunctionObject(std::string_view name, Function function, Value self)
      : name_(name), function_(function), self_(std::move(self)) {
    extent.cover(self_);
  }
  std::string_view type() const override {
    return self_.is_none() ? "function" : "builtin_function_or_method";
  }
  String repr() const override { return formatted("<function {}>", name_); }
  Value call(Run& run, const Arguments& arguments) override {
    return invoke(run, function_, self_, arguments);
  }

 private:
  std::string_view name_;
  Function function_;
  Value self_;
};

// A number that float has without a fraction is no int: Python converts nothing here.
[[noreturn]] void fail_type(std::string_view function, const char* expected, const Value& value) {
  if (const Undefined* undefined = value.undefined()) raise(*undefined);
  raise("{}() expects {}, not {}", function, expected, type_name(value));
}

}  // namespace

Parameters::Parameters(const Arguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names, std::size_t required)
    : function_(function), values_(names.size()) {
  if (arguments.positional.size() > names.size()) {
    raise("{}() takes {} arguments but {} were given", function, names.size(),
          arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) raise("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& place = values_[static_cast<std::size_t>(at - names.begin())];
    if (place != nullptr) raise("{}() got multiple values for argument '{}'", function, name);
    place = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      raise("{}() missing a required argument: '{}'", function, names.begin()[i]);
    }
  }
}

const Value& Parameters::operator[](std::size_t i) const {
  static const Value kNone;
  return values_[i] == nullptr ? kNone : *values_[i];
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  if (values_[i] == nullptr) return otherwise;
  const auto number = integer_of(*values_[i]);
  if (!number) fail_type(function_, "an int", *values_[i]);
  return *number;
}

bool Parameters::flag(std::size_t i, bool otherwise) const {
  return values_[i] == nullptr ? otherwise : truth(*values_[i]);
}

std::string_view Parameters::text(std::size_t i, std::string_view otherwise) const {
  if (values_[i] == nullptr) return otherwise;
  const String* text = values_[i]->text();
  if (text == nullptr) fail_type(function_, "a str", *values_[i]);
  return *text;
}

namespace {
std::size_t width_of(const Value& value) {
  if (const String* text = value.text()) return text->size() / 256;
  if (const Sequence* items = value.sequence()) return items->items.size() / 16;
  const Dict* dict = value.dict();
  return dict == nullptr ? 0 : dict->members.size() / 16;
}
}  // namespace

Value invoke(Run& run, Function function, const Value& self, const Arguments& arguments) {
  std::size_t width = 1 + width_of(self) + arguments.positional.size() + arguments.named.size();
  for (const Value& argument : arguments.positional) width += width_of(argument);
  for (const auto& [name, argument] : arguments.named) width += width_of(argument);
  run.step(width);
  return function(run, self, arguments);
}

Value function_value(std::string_view name, Function function, Value self) {
  return Value(ObjectRef(make_counted<FunctionObject>(name, function, std::move(self))));
}

const NamedFunction* find_in(std::span<const NamedFunction> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const NamedFunction& one) { return one.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Function find_filter(std::string_view name) {
  for (const auto& table :
       {text_filters(), item_filters(), selection_filters(), number_filters()}) {
    if (const NamedFunction* filter = find_in(table, name)) return filter->function;
  }
  return nullptr;
}

Function find_test(std::string_view name) {
  const NamedFunction* test = find_in(value_tests(), name);
  return test == nullptr ? nullptr : test->function;
}

}  // namespace tapegrad::data::jinja
