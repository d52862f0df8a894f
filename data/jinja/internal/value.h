#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "tapegrad/data/jinja/internal/counted.h"
#include "tapegrad/data/jinja/internal/template_error.h"

namespace tapegrad::data::jinja {

// The values of templates are Python's, since templates were written against Python: None, bool,
// int (of 64 bits), float, str, list, tuple, dict, and objects that are called or asked for
// attributes. Nothing changes once it is made, but for namespaces and what an iterator still has to
// give.

class Value;
struct Sequence;
struct Dict;
class Object;

// The value of a name that nothing was given to. Almost every use is an error with this message,
// which is as short as an error's.
struct Undefined {
  String message;
  bool is_name = false;  // a variable that nobody has set, no missing member or item
};
[[noreturn]] inline void raise(const Undefined& undefined) {
  throw TemplateError(undefined.message, 0, undefined.is_name);
}

// A text that {{ x|safe }} has made is markup: what is added to it is escaped.
struct Text : String {
  Text(String text, bool markup_) : String(std::move(text)), markup(markup_) {}
  bool markup;
};
using TextRef = std::shared_ptr<const Text>;
using SequenceRef = std::shared_ptr<const Sequence>;
using DictRef = std::shared_ptr<const Dict>;
using ObjectRef = std::shared_ptr<Object>;
using UndefinedRef = std::shared_ptr<const Undefined>;

class Value {
 public:
  Value() = default;  // None
  explicit Value(bool value) : held_(value) {}
  explicit Value(std::int64_t value) : held_(value) {}
  explicit Value(double value) : held_(value) {}
  explicit Value(String text, bool markup = false)
      : held_(make_counted<const Text>(std::move(text), markup)) {}
  explicit Value(std::string_view text) : Value(String(text)) {}
  explicit Value(const char* text) : Value(String(text)) {}
  explicit Value(SequenceRef items) : held_(std::move(items)) {}
  explicit Value(DictRef dict) : held_(std::move(dict)) {}
  explicit Value(ObjectRef object) : held_(std::move(object)) {}
  static Value undefined(std::string_view message, bool is_name = false);

  bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_undefined() const { return std::holds_alternative<UndefinedRef>(held_); }
  bool is_markup() const { return is_text() && std::get<TextRef>(held_)->markup; }
  bool is_text() const { return std::holds_alternative<TextRef>(held_); }
  // Null, or what is of this type alone: a bool is no int here.
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&held_); }
  const double* real() const { return std::get_if<double>(&held_); }
  const String* text() const { return pointee<TextRef>(); }
  const Sequence* sequence() const { return pointee<SequenceRef>(); }
  const Dict* dict() const { return pointee<DictRef>(); }
  Object* object() const {
    const auto* ref = std::get_if<ObjectRef>(&held_);
    return ref == nullptr ? nullptr : ref->get();
  }
  const Undefined* undefined() const { return pointee<UndefinedRef>(); }
  SequenceRef sequence_ref() const { return std::get<SequenceRef>(held_); }
  DictRef dict_ref() const { return std::get<DictRef>(held_); }

  // How deeply lists, dicts and objects are nested in it; 0 for what holds nothing.
  int depth() const;
  // How many values it is made of, each as often as it is held, and how long texts are: the work of
  // comparing it with another one.
  std::size_t weight() const;
  // Python's `is`, with equal numbers and texts taken for the same.
  bool same(const Value& other) const;

 private:
  explicit Value(UndefinedRef undefined) : held_(std::move(undefined)) {}
  template <class Ref>
  typename Ref::element_type* pointee() const {
    const auto* ref = std::get_if<Ref>(&held_);
    return ref == nullptr ? nullptr : ref->get();
  }

  std::variant<std::monostate, bool, std::int64_t, double, TextRef, SequenceRef, DictRef, ObjectRef,
               UndefinedRef>
      held_;
};

inline std::size_t text_weight(std::string_view text) { return 1 + text.size() / 64; }

using Values = Vector<Value>;

// Deeper or heavier values are an error: whatever walks through a value calls itself for its parts,
// and comes to one that is held twice two times.
inline constexpr int kMostDepth = 100;
inline constexpr std::size_t kMostWeight = 10'000'000;
struct Extent {
  int depth = 1;
  std::size_t weight = 1;
  void cover(const Value& part);
};

enum class SequenceKind { list, tuple, range, keys, values, items, iterator };

struct Sequence {
  Sequence(SequenceKind kind, Values items);

  SequenceKind kind;
  Values items;
  Extent extent = {};
  mutable bool spent = false;  // of an iterator: it gives its items once
};
Value list_of(Values items);
Value tuple_of(Values items);
Value iterator_of(Values items);

struct Dict {
  Vector<std::pair<Value, Value>> members;  // in the order in which they came
  Extent extent = {};

  // They take steps by the number of members and the weight of the key.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the member of an equal key, in its place.
  void set(Value key, Value value);
};

// The arguments of a call.
struct Arguments {
  Values positional = {};
  Vector<std::pair<String, Value>> named = {};
};

class Run;

// A namespace, a macro, a loop, a method with what it belongs to.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type() const = 0;  // Python's name of it
  virtual String repr() const { return formatted("<{}>", type()); }
  virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
  virtual Value call(Run& run, const Arguments& arguments);
  virtual void release() {}  // lets go of values that may hold the object itself
  Extent extent = {};  // of what it holds as a method does; namespaces and scopes are not counted
};

std::string_view type_name(const Value& value);  // "str", "NoneType"
// As an Undefined's message names what it was looked for in: "dict object", "None".
String owner_name(const Value& value);

// Python's truth, ==, and hash(), of which only the refusal is needed: error for a list or dict.
bool truth(const Value& value);
bool equal(const Value& a, const Value& b);  // takes steps by what it compares
void check_hashable(const Value& value);
// Numbers, bool included. An int that a double does not hold is rounded.
std::optional<std::int64_t> integer_of(const Value& value);
std::optional<double> real_of(const Value& value);

}  // namespace tapegrad::data::jinja
