#include <algorithm>
#include <optional>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/operators.h"
#include "tapegrad/data/jinja/internal/python_text.h"

// Jinja's filters of lists and dicts.

namespace tapegrad::data::jinja {
namespace {

Value first(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "first", {});
  const SequenceRef items = items_of(self);
  return items->items.empty() ? Value::undefined("No first item, sequence was empty.")
                              : items->items.front();
}

Value last(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "last", {});
  const Sequence* sequence = self.sequence();
  if (sequence != nullptr && sequence->kind == SequenceKind::iterator) {
    raise("'generator' object is not reversible");
  }
  const SequenceRef items = items_of(self);
  return items->items.empty() ? Value::undefined("No last item, sequence was empty.")
                              : items->items.back();
}

Value length(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "length", {});
  if (const String* text = self.text()) {
    return Value(static_cast<std::int64_t>(character_count(*text)));
  }
  if (const Dict* dict = self.dict()) return Value(static_cast<std::int64_t>(dict->members.size()));
  if (self.is_undefined()) return Value(std::int64_t{0});
  const Sequence* items = self.sequence();
  if (items == nullptr || items->kind == SequenceKind::iterator) {
    raise("object of type '{}' has no len()", type_name(self));
  }
  return Value(static_cast<std::int64_t>(items->items.size()));
}

Value to_list(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "list", {});
  return list_of(items_of(self)->items);
}

// The key that sort and dictsort compare: without regard to case unless it is asked for.
Value compared(const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? Value(lower(*value.text())) : value;
}

struct Keyed {
  Value key, item;
};
// Merge sort by less(), which throws where there is no order; equal keys stay in order.
void sort_by_key(Run& run, Vector<Keyed>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(run, b.key, a.key) : less(run, a.key, b.key);
  });
}

Value items_only(Vector<Keyed> keyed) {
  Values items;
  for (Keyed& one : keyed) items.push_back(std::move(one.item));
  return list_of(std::move(items));
}

Value sort(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  Vector<Keyed> keyed;
  const String* names = given[2].text();
  if (names != nullptr && names->find(',') != names->npos) {
    raise("sort by several attributes is not supported");
  }
  const SequenceRef items = items_of(self);
  for (const Value& item : items->items) {
    keyed.push_back({compared(attribute_path(run, item, given[2]), given.flag(1, false)), item});
  }
  sort_by_key(run, keyed, given.flag(0, false));
  return items_only(std::move(keyed));
}

Value dict_sort(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "dictsort", {"case_sensitive"});
  if (self.dict() == nullptr) attribute_of(self, "items");  // fails for what is undefined
  if (self.dict() == nullptr) raise("'{}' object has no attribute 'items'", type_name(self));
  Vector<Keyed> keyed;
  for (const auto& [key, value] : self.dict()->members) {
    keyed.push_back({compared(key, given.flag(0, false)), tuple_of({key, value})});
  }
  sort_by_key(run, keyed, false);
  return items_only(std::move(keyed));
}

Value extreme(Run& run, const Value& self, const Arguments& arguments, bool greatest) {
  const Parameters given(arguments, greatest ? "max" : "min", {"case_sensitive", "attribute"});
  const SequenceRef items = items_of(self);
  if (items->items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items->items) {
    Value key = compared(attribute_path(run, item, given[1]), given.flag(0, false));
    if (best == nullptr || (greatest ? less(run, best_key, key) : less(run, key, best_key))) {
      best = &item;
      best_key = std::move(key);
    }
  }
  return *best;
}
Value least(Run& run, const Value& self, const Arguments& arguments) {
  return extreme(run, self, arguments, false);
}
Value greatest(Run& run, const Value& self, const Arguments& arguments) {
  return extreme(run, self, arguments, true);
}

Value item_pairs(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "items", {});
  if (self.is_undefined()) return iterator_of({});
  if (self.dict() == nullptr) raise("Can only get item pairs from a mapping.");
  Values pairs;
  for (const auto& [key, value] : self.dict()->members) pairs.push_back(tuple_of({key, value}));
  return iterator_of(std::move(pairs));
}

Value or_default(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "default", {"default_value", "boolean"});
  const bool missing = self.is_undefined() || (given.flag(1, false) && !truth(self));
  if (!missing) return self;
  return given.has(0) ? given[0] : Value("");
}

constexpr NamedFunction kItemFilters[] = {
    {"first", first},  {"last", last},        {"length", length},      {"count", length},
    {"list", to_list}, {"sort", sort},        {"dictsort", dict_sort}, {"min", least},
    {"max", greatest}, {"items", item_pairs}, {"default", or_default}, {"d", or_default}};

}  // namespace

Value attribute_path(Run& run, const Value& value, const Value& path) {
  if (path.is_none()) return value;
  const String* names = path.text();
  if (names == nullptr) return item_of(run, value, path);
  count_reading(*names);
  Value found = value;
  std::string_view rest = *names;
  for (bool more = true; more;) {
    run.step();
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, dot);
    const bool digits = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    const auto index = digits ? number_of<std::int64_t>(name) : std::nullopt;
    found = item_of(run, found, index ? Value(*index) : Value(name));
    more = dot < rest.size();
    if (more) rest.remove_prefix(dot + 1);
  }
  return found;
}

std::span<const NamedFunction> item_filters() { return kItemFilters; }

}  // namespace tapegrad::data::jinja
