#include "tapegrad/data/jinja/internal/value.h"

#include <algorithm>

namespace tapegrad::data::jinja {
namespace {

bool equal_items(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind) return false;
  if (a.kind == SequenceKind::iterator || a.kind == SequenceKind::values) return false;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
}

bool equal_members(const Dict& a, const Dict& b) {
  if (a.members.size() != b.members.size()) return false;
  return std::all_of(a.members.begin(), a.members.end(), [&](const auto& member) {
    const Value* other = b.find(member.first);
    return other != nullptr && equal(member.second, *other);
  });
}

std::string_view name_of(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::list:
      return "list";
    case SequenceKind::tuple:
      return "tuple";
    case SequenceKind::range:
      return "range";
    case SequenceKind::keys:
      return "dict_keys";
    case SequenceKind::values:
      return "dict_values";
    case SequenceKind::items:
      return "dict_items";
    case SequenceKind::iterator:
      return "generator";
  }
  return "";
}

}  // namespace

void Extent::cover(const Value& part) {
  depth = std::max(depth, part.depth() + 1);
  weight += part.weight();
  if (depth > kMostDepth) raise("values are nested more than {} deep", kMostDepth);
  if (weight > kMostWeight) raise("a value has more than {} parts", kMostWeight);
}

Value Value::undefined(std::string_view message, bool is_name) {
  return Value(make_counted<const Undefined>(Undefined{String(cut_text(message)), is_name}));
}

int Value::depth() const {
  if (const Sequence* items = sequence()) return items->extent.depth;
  if (const Dict* members = dict()) return members->extent.depth;
  if (const Object* held = object()) return held->extent.depth;
  return 0;
}

std::size_t Value::weight() const {
  if (const Sequence* items = sequence()) return items->extent.weight;
  if (const Dict* members = dict()) return members->extent.weight;
  if (const Object* held = object()) return held->extent.weight;
  const String* held_text = text();
  return held_text == nullptr ? 1 : text_weight(*held_text);
}

bool Value::same(const Value& other) const {
  if (held_.index() != other.held_.index()) return false;
  if (sequence() != nullptr) return sequence() == other.sequence();
  if (dict() != nullptr) return dict() == other.dict();
  if (object() != nullptr) return object() == other.object();
  if (is_undefined()) return undefined() == other.undefined();
  return equal(*this, other);
}

Sequence::Sequence(SequenceKind kind_, Values items_) : kind(kind_), items(std::move(items_)) {
  for (const Value& item : items) extent.cover(item);
}

Value list_of(Values items) {
  return Value(make_counted<const Sequence>(SequenceKind::list, std::move(items)));
}
Value tuple_of(Values items) {
  return Value(make_counted<const Sequence>(SequenceKind::tuple, std::move(items)));
}
Value iterator_of(Values items) {
  return Value(make_counted<const Sequence>(SequenceKind::iterator, std::move(items)));
}

const Value* Dict::find(const Value& key) const {
  if (const String* text = key.text()) return find(std::string_view(*text));
  check_hashable(key);
  for (const auto& [name, value] : members) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  count_steps(members.size() * text_weight(key) / 8);
  for (const auto& [name, value] : members) {
    const String* text = name.text();
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const Value* found = find(key);
  if (found == nullptr) {
    extent.cover(key);
    extent.cover(value);
    members.emplace_back(std::move(key), std::move(value));
    return;
  }
  extent.weight -= found->weight();
  extent.cover(value);
  std::find_if(members.begin(), members.end(), [&](const auto& member) {
    return &member.second == found;
  })->second = std::move(value);
}

Value Object::call(Run&, const Arguments&) { raise("'{}' object is not callable", type()); }

std::string_view type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.boolean() != nullptr) return "bool";
  if (value.integer() != nullptr) return "int";
  if (value.real() != nullptr) return "float";
  if (value.is_text()) return "str";
  if (value.dict() != nullptr) return "dict";
  if (const Sequence* items = value.sequence()) return name_of(items->kind);
  if (const Object* object = value.object()) return object->type();
  return "Undefined";
}

String owner_name(const Value& value) {
  if (value.is_none()) return "None";
  const std::string_view type = type_name(value);
  if (type == "Namespace") return "jinja2.utils.Namespace object";
  const bool of_runtime = type == "LoopContext" || type == "Macro";
  if (of_runtime) return formatted("jinja2.runtime.{} object", type);
  return formatted("{} object", type);
}

bool truth(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (const bool* held = value.boolean()) return *held;
  if (const std::int64_t* number = value.integer()) return *number != 0;
  if (const double* number = value.real()) return *number != 0;
  if (const String* text = value.text()) return !text->empty();
  if (const Sequence* items = value.sequence()) {
    return items->kind == SequenceKind::iterator || !items->items.empty();
  }
  if (const Dict* dict = value.dict()) return !dict->members.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  count_steps(1);
  const auto x = integer_of(a), y = integer_of(b);
  if (x && y) return *x == *y;
  const auto u = real_of(a), v = real_of(b);
  if (u || v) return u && v && *u == *v;
  if (a.is_text() || b.is_text()) {
    if (!a.is_text() || !b.is_text() || a.text()->size() != b.text()->size()) return false;
    count_steps(a.text()->size() / 64);
    return *a.text() == *b.text();
  }
  if (a.sequence() && b.sequence()) return equal_items(*a.sequence(), *b.sequence());
  if (a.dict() && b.dict()) return equal_members(*a.dict(), *b.dict());
  if (a.object() || b.object()) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

void check_hashable(const Value& value) {
  const Sequence* items = value.sequence();
  const bool list = items != nullptr && items->kind == SequenceKind::list;
  if (list || value.dict() != nullptr) raise("unhashable type: '{}'", type_name(value));
  if (items == nullptr || items->kind == SequenceKind::iterator) return;
  count_steps(items->items.size());
  for (const Value& item : items->items) check_hashable(item);
}

std::optional<std::int64_t> integer_of(const Value& value) {
  if (const bool* held = value.boolean()) return *held ? 1 : 0;
  if (const std::int64_t* number = value.integer()) return *number;
  return std::nullopt;
}

std::optional<double> real_of(const Value& value) {
  if (const double* number = value.real()) return *number;
  if (const auto number = integer_of(value)) return static_cast<double>(*number);
  return std::nullopt;
}

}  // namespace tapegrad::data::jinja
