#include "tapegrad/data/jinja/internal/run.h"

#include <algorithm>
#include <utility>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/python_text.h"
#include "tapegrad/data/jinja/internal/scope.h"

namespace tapegrad::data::jinja {
namespace {

// Names that every Python object has, and that a template may not use.
bool is_internal(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

// A key as a message quotes it.
String shown(std::string_view name) { return repr_text(cut_text(name)); }

Value unsafe(const Value& value, std::string_view name) {
  return Value::undefined(described("access to attribute {} of {} object is unsafe.", shown(name),
                                    repr_text(type_name(value))));
}
Value no_attribute(const Value& value, std::string_view name) {
  return Value::undefined(
      described("{} has no attribute {}", repr_text(owner_name(value)), shown(name)));
}

// Python's value.name.
std::optional<Value> python_attribute(const Value& value, std::string_view name) {
  if (is_internal(name)) return unsafe(value, name);
  if (Object* object = value.object()) return object->attribute(name);
  return method_of(value, name);
}

// Python's value[key].
std::optional<Value> python_item(const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    const Value* found = dict->find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  auto index = integer_of(key);
  if (!index) return std::nullopt;
  const auto in_range = [&](std::size_t size) {
    if (*index < 0) *index += static_cast<std::int64_t>(size);
    return *index >= 0 && *index < static_cast<std::int64_t>(size);
  };
  if (const String* text = value.text()) {
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

constexpr std::size_t kStepsToLook = 5000;

thread_local Run* counting = nullptr;

}  // namespace

void count_steps(std::size_t steps) {
  if (counting != nullptr) counting->step(steps);
}
void count_bytes(std::size_t bytes) {
  if (counting != nullptr) counting->take_bytes(bytes);
}
void return_bytes(std::size_t bytes) noexcept {
  if (counting != nullptr) counting->return_bytes(bytes);
}

Run::Run(const RenderLimits& limits) : limits_(limits), around_(std::exchange(counting, this)) {}

Run::~Run() {
  // The oldest first: what a newer one holds of it is then empty, so nothing is destroyed in depth.
  for (const auto& scope : scopes_) scope->variables.clear();
  for (const auto& object : objects_) object->release();
  counting = around_;
}

void Run::look() {
  if (steps_ > limits_.steps) raise("the template takes more than {} steps", limits_.steps);
  if (limits_.look) limits_.look();
  next_look_ = std::min(steps_ + kStepsToLook, limits_.steps + 1);
}

void Run::take_bytes(std::size_t bytes) {
  if (bytes > limits_.memory_bytes - std::min(bytes_, limits_.memory_bytes)) {
    raise("the template makes values of more than {} bytes", limits_.memory_bytes);
  }
  bytes_ += bytes;
  unstepped_ += bytes;
  step(unstepped_ / 64);
  unstepped_ %= 64;
}

void Run::will_write(std::size_t bytes, std::size_t already) {
  if (bytes > limits_.text_bytes - std::min(already, limits_.text_bytes)) {
    raise("the template makes a text of more than {} bytes", limits_.text_bytes);
  }
  step(bytes / 64);
}

void Run::keep(ObjectRef object) { objects_.push_back(std::move(object)); }
void Run::keep(std::shared_ptr<Scope> scope) { scopes_.push_back(std::move(scope)); }

Run::Deeper::Deeper(Run& run) : run_(run) {
  if (run_.depth_ >= run_.limits_.depth) raise("maximum recursion depth exceeded");
  ++run_.depth_;
}

SequenceRef items_of(const Value& value) {
  if (const Sequence* items = value.sequence()) {
    if (items->kind != SequenceKind::iterator) return value.sequence_ref();
    if (items->spent) return make_counted<const Sequence>(SequenceKind::list, Values());
    items->spent = true;
    return value.sequence_ref();
  }
  Values items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, member] : dict->members) items.push_back(key);
  } else if (const String* text = value.text()) {
    for (const std::string_view character : characters_of(*text)) items.emplace_back(character);
  } else if (!value.is_undefined()) {
    raise("'{}' object is not iterable", type_name(value));
  }
  return make_counted<const Sequence>(SequenceKind::list, std::move(items));
}

Value attribute_of(const Value& value, std::string_view name) {
  if (value.is_undefined() && is_internal(name)) return unsafe(value, name);
  if (const Undefined* undefined = value.undefined()) raise(*undefined);
  if (const auto found = python_attribute(value, name)) return *found;
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_attribute(value, name);
}

Value item_of(Run& run, const Value& value, const Value& key) {
  if (const Undefined* undefined = value.undefined()) raise(*undefined);
  const bool hashable = key.dict() == nullptr &&
                        (key.sequence() == nullptr || key.sequence()->kind != SequenceKind::list);
  if (hashable) {
    if (const auto found = python_item(value, key)) return *found;
  }
  const String* name = key.text();
  if (name == nullptr) {
    return Value::undefined(described("{} has no element {}", owner_name(value), repr(run, key)));
  }
  if (const auto found = python_attribute(value, *name)) return *found;
  return no_attribute(value, *name);
}

Value call(Run& run, const Value& callee, const Arguments& arguments) {
  run.step();
  if (const Undefined* undefined = callee.undefined()) raise(*undefined);
  Object* object = callee.object();
  if (object == nullptr) raise("'{}' object is not callable", type_name(callee));
  return object->call(run, arguments);
}

}  // namespace tapegrad::data::jinja
