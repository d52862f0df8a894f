#include <memory>
#include <optional>

#include "tapegrad/data/jinja/internal/statements.h"

// {% for %}, and what a template can ask `loop`.

namespace tapegrad::data::jinja {
namespace {

// Gives the items of a loop one by one. A test is asked when its item is needed: it may read what
// the turns before have set.
class LoopObject : public Object {
 public:
  LoopObject(const Frame& frame, const For& loop, const Value& items)
      : run_(frame.run),
        frame_(loop.test ? std::make_unique<Frame>(frame) : nullptr),
        loop_(loop),
        items_(items_of(items)) {
    extent = items_->extent;
  }

  std::string_view type() const override { return "LoopContext"; }
  String repr() const override { return formatted("<LoopContext {}>", index_ + 1); }

  // Goes on to the next item; false if there is none.
  bool advance() {
    const auto next = peek();
    if (!next) return false;
    ahead_ = false;
    ++index_;
    before_ = current_;
    current_ = next;
    return true;
  }
  const Value& current() const { return items_->items[*current_]; }
  // Lets go of what may hold the loop itself.
  void leave() { frame_.reset(); }

  std::optional<Value> attribute(std::string_view name) override {
    if (name == "index") return Value(index_ + 1);
    if (name == "index0") return Value(index_);
    if (name == "first") return Value(index_ == 0);
    if (name == "last") return Value(!peek());
    if (name == "previtem") {
      return before_ && index_ > 0 ? items_->items[*before_]
                                   : Value::undefined("there is no previous item");
    }
    if (name == "nextitem") {
      const auto next = peek();
      return next ? items_->items[*next] : Value::undefined("there is no next item");
    }
    if (name == "length" && !loop_.test) {
      return Value(static_cast<std::int64_t>(items_->items.size()));
    }
    for (const std::string_view other :
         {"length", "revindex", "revindex0", "cycle", "changed", "depth", "depth0"}) {
      const char* const of = name == "length" ? " of a loop with 'if'" : "";
      if (name == other) raise("'loop.{}'{} is not supported", name, of);
    }
    return std::nullopt;
  }

 private:
  // The place of the next item that passes the test.
  std::optional<std::size_t> peek() {
    if (ahead_) return next_;
    next_ = std::nullopt;
    for (; at_ < items_->items.size() && !next_; ++at_) {
      run_.step();
      if (passes(items_->items[at_])) next_ = at_;
    }
    ahead_ = true;
    return next_;
  }
  bool passes(const Value& item) const {
    if (!loop_.test || !frame_) return true;
    const Frame inner = frame_->inside();
    loop_.target.assign(inner, item);
    return truth(loop_.test->evaluate(inner));
  }

  Run& run_;
  std::unique_ptr<Frame> frame_;  // of the test; null without one, and when the loop is left
  const For& loop_;
  SequenceRef items_;
  std::int64_t index_ = -1;
  std::size_t at_ = 0;  // the next item to test
  bool ahead_ = false;  // next_ is known
  std::optional<std::size_t> next_, current_, before_;
};

}  // namespace

Flow For::execute(const Frame& frame) const {
  const auto loop = make_counted<LoopObject>(frame, *this, items->evaluate(frame));
  const std::unique_ptr<LoopObject, void (*)(LoopObject*)> leaving(
      loop.get(), [](LoopObject* left) { left->leave(); });
  const Value loop_value{ObjectRef(loop)};
  bool finished_a_turn = false;
  while (loop->advance()) {
    frame.run.step();
    const Frame turn = frame.inside();
    turn.scope->variables.reserve(2);
    turn.scope->set("loop", loop_value);
    target.assign(turn, loop->current());
    const Flow flow = body.execute(turn);
    if (flow == Flow::leave_loop) break;
    // Jinja takes a loop of which no turn came to its end for an empty one.
    finished_a_turn = finished_a_turn || flow == Flow::next;
  }
  if (!finished_a_turn && !otherwise.statements.empty()) return otherwise.execute(frame.inside());
  return Flow::next;
}

}  // namespace tapegrad::data::jinja
