#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tapegrad/data/jinja/internal/value.h"
#include "tapegrad/data/jinja/render_limits.h"

namespace tapegrad::data::jinja {

struct Scope;

// One execution of a template. While it lives, all that this thread makes of values is counted for
// it: see counted.h.
class Run {
 public:
  explicit Run(const RenderLimits& limits);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool strict() const { return limits_.strict; }
  std::size_t steps() const { return steps_; }  // that were taken
  // Errors when a limit is exceeded. Called before what they count is done or made.
  void step(std::size_t steps = 1) {
    steps_ += std::min(steps, limits_.steps + 1);
    if (steps_ >= next_look_) look();
  }
  void take_bytes(std::size_t bytes);
  void return_bytes(std::size_t bytes) noexcept { bytes_ -= std::min(bytes, bytes_); }
  void will_write(std::size_t bytes, std::size_t already);

  // Keeps objects that may hold each other in a circle, and takes them apart at the end.
  void keep(ObjectRef object);
  void keep(std::shared_ptr<Scope> scope);

  class Deeper;

 private:
  void look();

  const RenderLimits limits_;
  Run* const around_;  // what was counted for before
  std::size_t steps_ = 0, bytes_ = 0, next_look_ = 0;
  std::size_t unstepped_ = 0;  // bytes that were taken since the last step for some
  int depth_ = 0;
  Vector<ObjectRef> objects_;
  Vector<std::shared_ptr<Scope>> scopes_;
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
SequenceRef items_of(const Value& value);

// a.name and a[key], as Jinja looks for them: attribute or member first, then the other.
Value attribute_of(const Value& value, std::string_view name);
Value item_of(Run& run, const Value& value, const Value& key);
// A method of a text, list, dict or number; what is unsafe for a template is undefined.
std::optional<Value> method_of(const Value& value, std::string_view name);

Value call(Run& run, const Value& callee, const Arguments& arguments);

}  // namespace tapegrad::data::jinja
