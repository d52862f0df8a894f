#include <algorithm>
#include <optional>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/run.h"

// The methods of dict, and the lookup of all methods. Those that would change a list or dict are
// unsafe.

namespace tapegrad::data::jinja {
namespace {

Value view_of(const Value& self, SequenceKind kind) {
  Values items;
  for (const auto& [key, value] : self.dict()->members) {
    items.push_back(kind == SequenceKind::keys     ? key
                    : kind == SequenceKind::values ? value
                                                   : tuple_of({key, value}));
  }
  return Value(make_counted<const Sequence>(kind, std::move(items)));
}
Value dict_items(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "items", {});
  return view_of(self, SequenceKind::items);
}
Value dict_keys(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "keys", {});
  return view_of(self, SequenceKind::keys);
}
Value dict_values(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "values", {});
  return view_of(self, SequenceKind::values);
}
Value dict_get(Run&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) raise("dict.get() takes no keyword arguments");
  const Parameters given(arguments, "get", {"key", "default"}, 1);
  const Value* found = self.dict()->find(given[0]);
  return found == nullptr ? given[1] : *found;
}
constexpr NamedFunction kDictMethods[] = {
    {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear",  "pop",  "reverse",
                                             "insert", "remove", "sort", "extend"};
template <std::size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value unsafe_change(const Value& value, std::string_view name) {
  return Value::undefined(
      described("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value)));
}

}  // namespace

std::span<const NamedFunction> dict_methods() { return kDictMethods; }

std::optional<Value> method_of(const Value& value, std::string_view name) {
  const Sequence* items = value.sequence();
  const bool list = items != nullptr && items->kind == SequenceKind::list;
  const bool changes = value.dict() != nullptr ? is_one_of(kDictChanges, name)
                                               : list && is_one_of(kListChanges, name);
  if (changes) return unsafe_change(value, name);
  std::span<const NamedFunction> methods;
  if (value.is_text()) methods = text_methods();
  if (value.dict() != nullptr) methods = kDictMethods;
  // The name of the table outlives the value.
  const NamedFunction* method = find_in(methods, name);
  if (method == nullptr) return std::nullopt;
  return function_value(method->name, method->function, value);
}

}  // namespace tapegrad::data::jinja
