#pragma once

#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "tapegrad/autograd/internal/step.h"

namespace tapegrad {

// How tensors that were not kept are computed again: a function and its inputs. There are two uses.
// The recomputation of a cheap step runs its forward again and gives its output. The recomputation
// of a checkpoint runs a whole function again and gives what the function's ops would have kept.
// The inputs of a cheap step's recomputation are never outputs of other cheap steps, so that
// reading a kept tensor runs one op again, not a chain of them.
class Recomputation {
 public:
  using Function = std::function<std::vector<Tensor>(Inputs)>;

  // The function gets the first `count` tensors of `from`, none of which may have changed.
  Recomputation(std::string_view name, std::shared_ptr<Saved> from, std::size_t count,
                Function function)
      : name_(name), from_(std::move(from)), count_(count), function_(std::move(function)) {}

  // Says that the function's next result is t, and returns its place among the results.
  std::size_t add(const Tensor& t);
  // True if result 0 is t as it is now.
  bool makes(const Tensor& t) const;
  // The result at a place: the tensor itself if it still lives unchanged, otherwise made again
  // under the same id, by which tapes know it. It is held until forget().
  const Tensor& result(std::size_t place);
  void forget(std::size_t place) { results_[place].made = Tensor(); }
  // Runs the function again and fills all results that are not there.
  void make();
  Saved& from() { return *from_; }

 private:
  struct Result {
    Tensor::Weak original;
    std::uint64_t id;
    std::uint32_t version;
    Tensor made = {};

    bool find();  // sets `made` if the tensor is there
  };
  std::string_view name_;
  std::shared_ptr<Saved> from_;
  std::size_t count_;
  Function function_;
  std::vector<Result> results_;
};

// Calls see(tensor) with all that a step holds for backward: what it keeps, and what its
// recomputations make the rest from. A tensor may come several times.
template <class See>
void for_each_held(const Step& step, const See& see) {
  const auto each = [&](const Saved& saved) {
    for (const Saved::Kept& kept : saved.kept()) {
      if (kept.tensor.defined()) see(kept.tensor);
    }
  };
  each(step.saved);
  for (const Saved::Kept& kept : step.saved.kept()) {
    if (kept.recomputation != nullptr) each(kept.recomputation->from());
  }
}

// The ops that a checkpoint's function has run, in order, and what running it again brings back.
struct CheckpointOp {
  std::string_view name;
  Needs needs;  // empty: not recorded
  std::vector<std::size_t> remade =
      {};  // which of the tensors that it keeps are the recomputation's results
  bool hands_over_vjp = false;
  VjpMany vjp = {};  // after the function has run again, until it is used
};
using CheckpointLog = std::vector<CheckpointOp>;

// While one lives, the ops of this thread belong to a checkpoint. The first time, steps are
// recorded without what they need for backward: of tensors that are newer than the checkpoint they
// get a recomputation. When the recomputation runs the function again, the same ops come by in the
// same order, and hand over these tensors and their vjps.
class RunningCheckpoint {
 public:
  // The first time, or (without a recomputation) again.
  explicit RunningCheckpoint(std::shared_ptr<CheckpointLog> log,
                             std::shared_ptr<Recomputation> recomputation = nullptr);
  ~RunningCheckpoint() { live_tapes().running_checkpoint = nullptr; }
  RunningCheckpoint(const RunningCheckpoint&) = delete;
  RunningCheckpoint& operator=(const RunningCheckpoint&) = delete;

  // An op begins. Returns which gradients will be wanted: `needs`, or what that was the first time.
  Needs enter(std::string_view name, const Needs& needs, Inputs inputs);
  // The op has kept what it wants. `step` is what a tape has recorded of it, or null.
  void leave(Saved& saved, VjpMany& vjp, const Step* step);
  std::vector<Tensor> take_made();
  // True if the tape began after this. It may run backward before this ends, so that its steps must
  // keep everything.
  bool is_older_than(const TapeRecord* tape) const;

 private:
  std::shared_ptr<CheckpointLog> log_;
  std::shared_ptr<Recomputation> recomputation_;
  std::size_t next_ = 0;  // op of the log
  std::size_t tapes_before_;
  std::uint64_t newest_before_;
  std::unordered_set<std::uint64_t> noted_;  // inputs from outside
  std::vector<Tensor> made_;
};

}  // namespace tapegrad
