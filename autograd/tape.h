#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

using Inputs = std::span<const Tensor>;
using Grads = std::vector<Tensor>;
// Whether the gradient of input i is asked for.
using Needs = std::vector<bool>;

struct Step;

// What a forward keeps for its vjp, and nothing else is kept. Reading a kept tensor that was
// written to in the meantime is an error that names the op.
class Saved {
 public:
  // Keeps nothing: no tape is recording.
  Saved() = default;
  Saved(std::string_view op, Needs needs) : op_(op), needs_(std::move(needs)) {}

  // Keeps t, if a tape will want it, and returns it. `needs` tells which gradients will be wanted.
  const Tensor& keep(const Tensor& t) {
    if (recording()) kept_.push_back({t, t.defined() ? t.version() : 0});
    return t;
  }
  // The i-th tensor that was kept.
  const Tensor& operator[](std::size_t i) const;
  // Says that the op's output costs little to make again from its inputs, all of which the op has
  // kept, first and in order; it has one output. Ops that keep that output then keep the way to
  // make it in place of the data: a LayerNorm's output, say, exists again only while the gradient
  // of the linear layer behind it is computed. The inputs must be as they were then, which is
  // checked.
  void set_cheap() { cheap_ = recording(); }
  bool cheap() const { return cheap_; }
  // Drops what was made again.
  void forget_made() const;
  bool recording() const { return !needs_.empty(); }
  // Whether input i's gradient will be wanted: what only it needs, need not be kept otherwise.
  bool needs(std::size_t i) const { return recording() && needs_[i]; }
  std::size_t bytes() const;

 private:
  friend class Recorder;
  struct Kept {
    mutable Tensor tensor;  // undefined until it is read, if there is a maker
    std::uint32_t version;
    std::shared_ptr<const Step> maker = nullptr;  // the cheap step whose output it is
  };
  std::string_view op_;
  Needs needs_;
  std::vector<Kept> kept_;
  bool cheap_ = false;
};

// forward: inputs → output. Runs unrecorded, so that it may use ops.
using Forward = std::function<Tensor(Inputs, Saved&)>;
// vjp: the gradient dy of the output → the gradients of the inputs, in their order, each of its
// input's shape and dtype; undefined where `needs` is false or the gradient is zero. It is written
// with ops: a live outer tape records them, and so differentiates the gradient.
using Vjp = std::function<Grads(const Tensor& dy, const Saved&, const Needs&)>;
// Adds the gradient of input 0, the only one, to what other uses of that input have left in `sum`,
// in place: it must add what the vjp returns, and record nothing. A backward that no tape records
// calls it in place of the vjp if there is such a sum.
using AddVjp = std::function<void(const Tensor& dy, const Saved&, Tensor& sum)>;
// Forward and Vjp for ops of several outputs; dys[i] is undefined if output i had no influence.
using ForwardMany = std::function<std::vector<Tensor>(Inputs, Saved&)>;
using VjpMany = std::function<Grads(Inputs dys, const Saved&, const Needs&)>;

// The one door for differentiable ops: runs `forward` and lets every live tape of this thread that
// tracks one of the inputs record the step. Inputs may be undefined (an absent bias). `name` is
// what errors, the gradient checker and reports call the op; a string literal. An op whose gradient
// is mostly zeros can do without a tensor of its own for it, if there is a sum to add it to: `add`.
Tensor apply(std::string_view name, std::initializer_list<Tensor> inputs, const Forward& forward,
             const Vjp& vjp, const AddVjp& add = {});
// The last `implicit` inputs are used by the forward through its closure, so that a gradient
// checker cannot vary them.
std::vector<Tensor> apply_many(std::string_view name, Inputs inputs, const ForwardMany& forward,
                               const VjpMany& vjp, std::size_t implicit = 0);

// One op as it was run, shared by all the tapes that recorded it.
struct Step {
  struct Slot {
    std::uint64_t id = 0;  // 0: an undefined input
    Shape shape;
    DType dtype = DType::f32;
  };
  std::string_view name;
  std::vector<Slot> inputs, outputs;
  std::size_t implicit = 0;  // how many of the inputs, the last ones, the forward does not read
  Saved saved;
  VjpMany vjp;
  AddVjp add;  // or none
  // What it takes to run the op again: the forward of cheap steps and on checkable tapes, the
  // inputs on checkable tapes.
  ForwardMany forward;
  std::vector<Tensor> input_tensors;

  // A cheap step's output: itself while it lives, or made again under the id that it had.
  Tensor output_again() const;

 private:
  friend class Recorder;
  friend class Tape;
  std::weak_ptr<Tensor::Impl> output_;  // of a cheap step
  std::uint32_t output_version_ = 0;
};

struct TapeOptions {
  // Keeps every op's inputs and forward, so that check_gradients can run it again.
  bool checkable = false;
  // Records no steps: only notes the tensors that other live tapes track and this one's ops use.
  bool outline = false;
};

struct BackwardOptions {
  // The gradient to start from, one per root, each of its root's shape; may be left out for
  // scalars.
  std::vector<Tensor> seeds = {};
  // Keeps the tape for another backward. Otherwise what was saved is freed on the way.
  bool keep = false;
};

// Records, from its construction to its end, each op of this thread that works on a tracked tensor:
// a parameter (requires_grad), a watched tensor, or the result of a recorded op. Steps are kept in
// the order in which they ran, and backward walks them in reverse: there is no graph to sort and
// nothing recursive. Tapes nest: each live tape records by itself, and while one runs backward, the
// others record the vjps' ops, which gives derivatives of any order.
//
// A tape belongs to the thread that made it.
class Tape {
 public:
  explicit Tape(TapeOptions options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Tracks a tensor that is not a parameter.
  void watch(const Tensor& t);
  // Whether an op on t would be recorded.
  bool tracks(const Tensor& t) const;

  // Adds d(root)/d(parameter) to the grad() of each parameter that the root depends on. Errors: a
  // root that this tape does not track, a seed that is missing or of another shape, a second
  // backward without `keep` in the first.
  void backward(const Tensor& root, const BackwardOptions& options = {}) {
    backward(std::vector<Tensor>{root}, options);
  }
  void backward(const std::vector<Tensor>& roots, const BackwardOptions& options = {});
  // The gradients of the roots' sum with respect to each of `wrt` (parameters, watched tensors or
  // results), without touching any grad(). Undefined for one that the roots do not depend on.
  Grads gradient(const Tensor& root, const std::vector<Tensor>& wrt,
                 const BackwardOptions& options = {}) {
    return gradient(std::vector<Tensor>{root}, wrt, options);
  }
  Grads gradient(const std::vector<Tensor>& roots, const std::vector<Tensor>& wrt,
                 const BackwardOptions& options = {});

  // What was recorded, oldest first; freed steps are null.
  std::span<const std::shared_ptr<Step>> steps() const { return steps_; }
  // Which inputs of step i this tape wants the gradients of.
  const Needs& needs(std::size_t i) const { return needs_[i]; }
  // The tracked tensors that recorded ops used and that are not results of recorded ops.
  std::vector<Tensor> leaves() const;
  // Bytes of all tensors that this tape keeps for backward, each counted once per op that keeps it.
  std::size_t saved_bytes() const;

 private:
  friend class Recorder;
  using GradMap = std::unordered_map<std::uint64_t, Tensor>;

  // The tapes of this thread that would record an op that runs now, oldest first.
  static std::vector<Tape*> recording();
  // sum += term. The first term is taken as it is; a later one is added in place where nobody could
  // notice, that is, if the sum is ours alone and no tape records.
  static void accumulate(Tensor& sum, const Tensor& term);
  Needs needs_of(Inputs inputs) const;
  // The recorded cheap step that made t as it is now, or null.
  std::shared_ptr<const Step> cheap_maker(const Tensor& t) const;
  void record(const std::shared_ptr<Step>& step, Inputs inputs, const Needs& needs);
  GradMap seed(const std::vector<Tensor>& roots, const BackwardOptions& options) const;
  // Walks the steps in reverse. Gradients of results are dropped once used, but for those in
  // `wanted`.
  void walk(GradMap& grads, bool keep, const std::vector<Needs>& needs,
            const std::unordered_set<std::uint64_t>& wanted);
  // The needs of each step without those that no gradient of `wanted` goes through.
  std::vector<Needs> needs_on_the_way_to(const std::unordered_set<std::uint64_t>& wanted) const;
  void run_vjp(const Step& step, const Needs& needs, GradMap& grads,
               const std::unordered_set<std::uint64_t>& wanted);

  TapeOptions options_;
  bool running_ = false;
  bool spent_ = false;
  std::vector<std::shared_ptr<Step>> steps_;
  std::vector<Needs> needs_;  // of each step, from this tape's point of view
  std::unordered_set<std::uint64_t> results_;
  std::unordered_map<std::uint64_t, std::weak_ptr<const Step>> cheap_steps_;  // by their outputs
  std::unordered_map<std::uint64_t, Tensor> leaves_;
};

// While one lives, no tape that was live at its construction records: for a stretch of computation
// inside a recorded one that gradients should not flow through.
class TapePause {
 public:
  TapePause();
  ~TapePause();
  TapePause(const TapePause&) = delete;
  TapePause& operator=(const TapePause&) = delete;

 private:
  std::size_t paused_before_;
};

}  // namespace tapegrad
