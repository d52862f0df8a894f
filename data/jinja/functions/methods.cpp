#include <algorithm>
#include <cmath>
#include <optional>

#include "tapegrad/data/jinja/arguments.h"
#include "tapegrad/data/jinja/run.h"

// The methods of dict, list, tuple and numbers. Those that would change a list or dict are unsafe.

namespace tapegrad::data::jinja {
namespace {

Value view_of(Run& run, const Value& self, SequenceKind kind) {
  Values items;
  for (const auto& [key, value] : self.dict()->members) {
    items.push_back(kind == SequenceKind::keys     ? key
                    : kind == SequenceKind::values ? value
                                                   : tuple_of({key, value}));
  }
  run.will_make(items.size() * sizeof(Value));
  return Value(std::make_shared<const Sequence>(kind, std::move(items)));
}
Value dict_items(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "items", {});
  return view_of(run, self, SequenceKind::items);
}
Value dict_keys(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "keys", {});
  return view_of(run, self, SequenceKind::keys);
}
Value dict_values(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "values", {});
  return view_of(run, self, SequenceKind::values);
}
Value dict_get(Run&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) raise("dict.get() takes no keyword arguments");
  const Parameters given(arguments, "get", {"key", "default"}, 1);
  const Value* found = self.dict()->find(given[0]);
  return found == nullptr ? given[1] : *found;
}
Value copy(Run&, const Value& self, const Arguments&) { return self; }

Value item_count(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {"value"}, 1);
  const Values& items = self.sequence()->items;
  run.step(items.size());
  return Value(std::int64_t{std::count_if(
      items.begin(), items.end(), [&](const Value& item) { return equal(item, given[0]); })});
}
Value item_index(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "index", {"value"}, 1);
  const Values& items = self.sequence()->items;
  run.step(items.size());
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Value& item) { return equal(item, given[0]); });
  if (found == items.end()) raise("list.index(x): x not in list");
  return Value(std::int64_t{found - items.begin()});
}

Value is_integer(Run&, const Value& self, const Arguments&) {
  const double number = *real_of(self);
  return Value(std::isfinite(number) && number == std::floor(number));
}
Value bit_length(Run&, const Value& self, const Arguments&) {
  std::int64_t bits = 0;
  const std::int64_t number = *integer_of(self);
  auto rest = static_cast<std::uint64_t>(number);
  if (number < 0) rest = 0 - rest;
  for (; rest != 0; rest >>= 1) ++bits;
  return Value(bits);
}

constexpr NamedFunction kDictMethods[] = {{"items", dict_items},
                                          {"keys", dict_keys},
                                          {"values", dict_values},
                                          {"get", dict_get},
                                          {"copy", copy}};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr NamedFunction kListMethods[] = {
    {"count", item_count}, {"index", item_index}, {"copy", copy}};
constexpr std::string_view kListChanges[] = {"append", "clear",  "pop",  "reverse",
                                             "insert", "remove", "sort", "extend"};
constexpr NamedFunction kNumberMethods[] = {{"is_integer", is_integer}, {"bit_length", bit_length}};

template <std::size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value unsafe_change(const Value& value, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value)));
}

}  // namespace

std::optional<Value> method_of(const Value& value, std::string_view name) {
  Function method = nullptr;
  std::string_view known;  // of the table, which outlives the value
  const auto look = [&](std::span<const NamedFunction> table) {
    for (const NamedFunction& one : table) {
      if (one.name == name) {
        method = one.function;
        known = one.name;
      }
    }
  };
  if (value.is_text()) {
    look(text_methods());
    look(cut_methods());
  } else if (value.dict() != nullptr) {
    if (is_one_of(kDictChanges, name)) return unsafe_change(value, name);
    look(kDictMethods);
  } else if (const Sequence* items = value.sequence()) {
    if (items->kind == SequenceKind::list && is_one_of(kListChanges, name)) {
      return unsafe_change(value, name);
    }
    if (items->kind == SequenceKind::group && (name == "grouper" || name == "list")) {
      return items->items[name == "grouper" ? 0 : 1];
    }
    const bool tuple = items->kind != SequenceKind::list;
    if (items->kind <= SequenceKind::range && !(tuple && name == "copy")) look(kListMethods);
  } else if (real_of(value)) {
    const bool real = value.real() != nullptr;
    if (name == "real" || (!real && name == "numerator")) return value;
    if (name == "imag") return real ? Value(0.0) : Value(std::int64_t{0});
    if (!(real && name == "bit_length")) look(kNumberMethods);
  }
  if (method == nullptr) return std::nullopt;
  return function_value(known, method, value);
}

}  // namespace tapegrad::data::jinja
