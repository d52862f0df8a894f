#include "tapegrad/data/jinja/run.h"

#include <algorithm>

#include "tapegrad/data/jinja/arguments.h"
#include "tapegrad/data/jinja/characters.h"
#include "tapegrad/data/jinja/python_text.h"
#include "tapegrad/data/jinja/scope.h"

namespace tapegrad::data::jinja {
namespace {

// Names that every Python object has, and that a template may not use.
bool is_internal(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

Value unsafe(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute {} of {} object is unsafe.",
                                      repr_text(name), repr_text(type_name(value))));
}

// Python's value.name.
std::optional<Value> python_attribute(const Value& value, std::string_view name) {
  if (is_internal(name)) return unsafe(value, name);
  if (Object* object = value.object()) return object->attribute(name);
  return method_of(value, name);
}

// Python's value[key].
std::optional<Value> python_item(Run& run, const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    run.step(dict->steps_to(key.weight()));
    const Value* found = dict->find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  auto index = integer_of(key);
  if (!index) return std::nullopt;
  const auto in_range = [&](std::size_t size) {
    if (*index < 0) *index += static_cast<std::int64_t>(size);
    return *index >= 0 && *index < static_cast<std::int64_t>(size);
  };
  if (const std::string* text = value.text()) {
    run.step(text->size() / 16);
    if (!in_range(character_count(*text))) return std::nullopt;
    const std::size_t at = byte_of(*text, static_cast<std::size_t>(*index));
    return Value(
        std::string_view(*text).substr(at, byte_of(std::string_view(*text).substr(at), 1)));
  }
  const Sequence* items = value.sequence();
  const bool has_order = items != nullptr && (items->kind <= SequenceKind::range);
  if (!has_order || !in_range(items->items.size())) return std::nullopt;
  return items->items[static_cast<std::size_t>(*index)];
}

}  // namespace

Run::~Run() {
  // The oldest first: what a newer one holds of it is then empty, so nothing is destroyed in depth.
  for (const auto& scope : scopes_) scope->variables.clear();
  for (const auto& object : objects_) object->release();
}

void Run::step(std::size_t steps) {
  steps_ += std::min(steps, limits_.steps + 1);
  if (steps_ > limits_.steps) raise("the template takes more than {} steps", limits_.steps);
}

void Run::will_make(std::size_t bytes) {
  bytes_ += std::min(bytes, limits_.memory_bytes + 1);
  if (bytes_ > limits_.memory_bytes) {
    raise("the template makes values of more than {} bytes", limits_.memory_bytes);
  }
  step(bytes / 64);
}

void Run::will_write(std::size_t bytes, std::size_t already) {
  if (bytes > limits_.text_bytes - std::min(already, limits_.text_bytes)) {
    raise("the template makes a text of more than {} bytes", limits_.text_bytes);
  }
  step(bytes / 64);
}

void Run::will_read(std::string_view text, std::size_t each) { step(text.size() / 16 * each); }

void Run::will_search(std::string_view text, std::string_view part) {
  step(text.size() / 16 * (1 + part.size() / 64));
}

Value Run::text(std::string made, bool markup) {
  will_make(made.size());
  return Value(std::move(made), markup);
}
Value Run::pair(Value first, Value second) {
  will_make(sizeof(Sequence) + 2 * sizeof(Value));
  return tuple_of({std::move(first), std::move(second)});
}
Value Run::list(Values items) {
  will_make(items.size() * sizeof(Value));
  return list_of(std::move(items));
}
Value Run::iterator(Values items) {
  will_make(items.size() * sizeof(Value));
  return iterator_of(std::move(items));
}

void Run::keep(ObjectRef object) {
  will_make(256);
  objects_.push_back(std::move(object));
}
void Run::keep(std::shared_ptr<Scope> scope) {
  will_make(256);
  scopes_.push_back(std::move(scope));
}

Run::Deeper::Deeper(Run& run) : run_(run) {
  if (run_.depth_ >= run_.limits_.depth) raise("maximum recursion depth exceeded");
  ++run_.depth_;
}

SequenceRef items_of(Run& run, const Value& value) {
  if (const Sequence* items = value.sequence()) {
    if (items->kind != SequenceKind::iterator) return value.sequence_ref();
    static const SequenceRef kNothing =
        std::make_shared<const Sequence>(SequenceKind::list, Values());
    if (items->spent) return kNothing;
    items->spent = true;
    return value.sequence_ref();
  }
  Values items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, member] : dict->members) items.push_back(key);
  } else if (const std::string* text = value.text()) {
    run.will_make(text->size() * (sizeof(Text) + 2 * sizeof(Value)));
    for (const std::string_view character : characters_of(*text)) items.emplace_back(character);
  } else if (!value.is_undefined()) {
    raise("'{}' object is not iterable", type_name(value));
  }
  run.will_make(items.size() * sizeof(Value));
  return std::make_shared<const Sequence>(SequenceKind::list, std::move(items));
}

Value attribute_of(Run& run, const Value& value, std::string_view name) {
  if (value.is_undefined() && is_internal(name)) return unsafe(value, name);
  if (const Undefined* undefined = value.undefined()) raise(*undefined);
  if (const auto found = python_attribute(value, name)) return *found;
  if (const Dict* dict = value.dict()) {
    run.step(dict->steps_to(text_weight(name)));
    if (const Value* found = dict->find(name)) return *found;
  }
  return Value::undefined(
      fmt::format("{} has no attribute {}", repr_text(owner_name(value)), repr_text(name)));
}

Value item_of(Run& run, const Value& value, const Value& key) {
  if (const Undefined* undefined = value.undefined()) raise(*undefined);
  const bool hashable = key.dict() == nullptr &&
                        (key.sequence() == nullptr || key.sequence()->kind != SequenceKind::list);
  if (hashable) {
    if (const auto found = python_item(run, value, key)) return *found;
  }
  const std::string* name = key.text();
  if (name == nullptr) {
    return Value::undefined(fmt::format("{} has no element {}", owner_name(value), repr(run, key)));
  }
  if (const auto found = python_attribute(value, *name)) return *found;
  return Value::undefined(
      fmt::format("{} has no attribute {}", repr_text(owner_name(value)), repr_text(*name)));
}

Value call(Run& run, const Value& callee, const Arguments& arguments) {
  run.step();
  if (const Undefined* undefined = callee.undefined()) raise(*undefined);
  Object* object = callee.object();
  if (object == nullptr) raise("'{}' object is not callable", type_name(callee));
  return object->call(run, arguments);
}

}  // namespace tapegrad::data::jinja
