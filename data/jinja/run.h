#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/jinja/value.h"

namespace tapegrad::data::jinja {

// The bounds of a template's work. A template comes with a model, from anybody.
struct Limits {
  std::size_t steps = 50'000'000;          // statements, expressions, items
  std::size_t text_bytes = 64u << 20;      // of the text
  std::size_t memory_bytes = 1024u << 20;  // of all values that are made, one after the other
  int depth = 800;                         // of macros that call macros, and of expressions
  bool strict = false;  // what is undefined is an error where it becomes text (StrictUndefined)
};

struct Scope;

// One execution of a template.
class Run {
 public:
  explicit Run(const Limits& limits) : limits_(limits) {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool strict() const { return limits_.strict; }
  // Errors when a limit is exceeded. Called before what they count is made.
  void step(std::size_t steps = 1);
  void will_make(std::size_t bytes);
  void will_write(std::size_t bytes, std::size_t already);
  // For text whose characters are taken one by one, each of which is compared with `each` others.
  void will_read(std::string_view text, std::size_t each = 1);
  // For a search, which compares all of `part` at every place of `text` at worst.
  void will_search(std::string_view text, std::string_view part);

  Value text(std::string made, bool markup = false);  // counted
  Value pair(Value first, Value second);
  Value list(Values items);
  Value iterator(Values items);

  // Keeps objects that may hold each other in a circle, and takes them apart at the end.
  void keep(ObjectRef object);
  void keep(std::shared_ptr<Scope> scope);

  class Deeper;

 private:
  Limits limits_;
  std::size_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
  std::vector<ObjectRef> objects_;
  std::vector<std::shared_ptr<Scope>> scopes_;
};

// While it lives, execution is one level deeper.
class Run::Deeper {
 public:
  explicit Deeper(Run& run);
  ~Deeper() { --run_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Run& run_;
};

// The items that a loop goes through; an iterator's are gone afterwards. Error for what has none.
SequenceRef items_of(Run& run, const Value& value);

// a.name and a[key], as Jinja looks for them: attribute or member first, then the other.
Value attribute_of(Run& run, const Value& value, std::string_view name);
Value item_of(Run& run, const Value& value, const Value& key);
// A method of a text, list, dict or number; what is unsafe for a template is undefined.
std::optional<Value> method_of(const Value& value, std::string_view name);

Value call(Run& run, const Value& callee, const Arguments& arguments);

}  // namespace tapegrad::data::jinja
