#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

using Grads = std::vector<Tensor>;

struct TapeOptions {
  // Keeps every op's inputs, forward, results and row, so that check_gradients can run it again and
  // export_onnx write it.
  bool checkable = false;
  // The first result of a recorded op, or gradient in backward, that is NaN or infinite is an Error
  // that names the op, the element, and the parameter that was used last. Results of where and
  // masked_fill may be infinite, for a mask of −∞ is meant; the next op's may not.
  bool check_finite = false;
  // Names for parameters in that Error, such as nn::Params::parameters().
  std::span<const std::pair<std::string, Tensor>> names = {};
};

struct BackwardOptions {
  // The gradient to start from, one per root, each of its root's shape; may be left out for
  // scalars.
  std::vector<Tensor> seeds = {};
  // Keeps the tape for another backward. Otherwise what was saved is freed on the way.
  bool keep = false;
  // Takes each parameter's gradient as soon as it is complete, while backward() goes on. Then
  // nothing is added to grad(). A gradient may share its data with others, or with a seed.
  std::function<void(const Tensor& parameter, Tensor gradient)> take = {};
};

struct TapeRecord;        // a tape's record; internal, see step.h
class RunningCheckpoint;  // a running checkpoint; internal, see recomputation.h

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
  // True if an op on t would be recorded.
  bool tracks(const Tensor& t) const;

  // Adds d(root)/d(parameter) to the grad() of each parameter that the root depends on. Errors: a
  // root that this tape does not track, a seed that is missing or of another shape, a second
  // backward without `keep` in the first, or while the first one runs.
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

  // How many ops were recorded.
  std::size_t size() const;
  // Bytes of the tensors that this tape keeps for backward, each counted once.
  std::size_t saved_bytes() const;
  // For the gradient checker.
  const TapeRecord& record() const { return *record_; }

 private:
  std::unique_ptr<TapeRecord> record_;
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
  RunningCheckpoint* checkpoint_before_;
};

}  // namespace tapegrad
