#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tapegrad/autograd/apply.h"

namespace tapegrad {

// The parts of a tape. Internal: only the tape, apply and the gradient checker look in here.

// Grows as soon as one of the tensors is written to.
inline std::uint64_t sum_of_versions(Inputs tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.defined() ? t.version() : 0;
  return sum;
}

// One op as it was run, shared by all the tapes that recorded it.
struct Step {
  struct Slot {
    std::uint64_t id = 0;  // 0: undefined
    Shape shape;
    DType dtype = DType::f32;
  };
  void add_input(const Tensor& t) {
    inputs.push_back({});
    describe(t, inputs.back());
  }
  void add_output(const Tensor& t) {
    outputs.push_back({});
    describe(t, outputs.back());
  }

  std::string_view name;
  InlineVector<Slot, 3> inputs;
  InlineVector<Slot, 1> outputs;
  Saved saved;
  VjpMany vjp;
  AddVjp add;  // or none
  // To run the op again: the forward of cheap steps and on checkable tapes, the inputs on checkable
  // tapes.
  ForwardMany forward;
  std::vector<Tensor> input_tensors;
  // To write the op to a graph of ONNX; on checkable tapes, else null.
  struct ForOnnx {
    OnnxRow row;
    std::vector<Tensor> outputs;
    std::uint64_t versions;  // sum_of_versions() of inputs and outputs when the op had run
  };
  std::unique_ptr<ForOnnx> onnx;

 private:
  static void describe(const Tensor& t, Slot& slot) {
    if (!t.defined()) return;
    slot.id = t.id();
    slot.shape = t.shape();
    slot.dtype = t.dtype();
  }
};

// The ids of a tape's results, ascending. A new result is nearly always the newest tensor.
class ResultIds {
 public:
  void insert(std::uint64_t id) {
    if (ids_.empty() || id > ids_.back()) return ids_.push_back(id);
    const auto place = std::lower_bound(ids_.begin(), ids_.end(), id);
    if (*place != id) ids_.insert(place, id);
  }
  std::size_t size() const { return ids_.size(); }
  // From 0 on; size() if the id is not there.
  std::size_t place_of(std::uint64_t id) const {
    const auto place = std::lower_bound(ids_.begin(), ids_.end(), id);
    return place != ids_.end() && *place == id ? static_cast<std::size_t>(place - ids_.begin())
                                               : ids_.size();
  }
  bool contains(std::uint64_t id) const { return place_of(id) < ids_.size(); }

 private:
  std::vector<std::uint64_t> ids_;
};

struct TapeRecord {
  TapeOptions options;
  bool running = false;                      // backward
  bool spent = false;                        // has run backward and freed what was saved
  std::vector<std::shared_ptr<Step>> steps;  // oldest first; freed steps are null
  std::vector<Needs> needs;  // of each step: which inputs' gradients this tape wants
  ResultIds results;
  std::unordered_map<std::uint64_t, std::shared_ptr<Recomputation>>
      recomputations;  // of results of cheap steps
  // The tracked tensors that ops used and that are not results of recorded ops.
  std::unordered_map<std::uint64_t, Tensor> leaves;

  bool tracks(const Tensor& t) const {
    return t.defined() && (t.requires_grad() || has_used(t.id()));
  }
  // True for the ids of results and of the tracked tensors that made them.
  bool has_used(std::uint64_t id) const {
    return results.contains(id) || leaves.find(id) != leaves.end();
  }
  Needs needs_of(Inputs inputs) const;
  // The recomputation for t as it is now, or null.
  std::shared_ptr<Recomputation> recomputation_of(const Tensor& t) const;
  // `recomputation` makes the step's output; it may be null.
  void add(const std::shared_ptr<Step>& step, Inputs inputs, const Needs& needs,
           const std::shared_ptr<Recomputation>& recomputation);
};

// A thread's live tapes, oldest first; those before `first_active` are paused. Null: ended.
struct LiveTapes {
  std::vector<TapeRecord*> tapes;
  std::size_t first_active = 0;
  RunningCheckpoint* running_checkpoint = nullptr;  // the checkpoint that runs, if one does

  // Calls see(tape) with each tape that would record an op that runs now.
  template <class See>
  void for_each_recording(const See& see) const {
    for (std::size_t i = first_active; i < tapes.size(); ++i) {
      if (tapes[i] != nullptr && !tapes[i]->running && !tapes[i]->spent) see(*tapes[i]);
    }
  }
  bool is_recording() const {
    bool some = false;
    for_each_recording([&](const TapeRecord&) { some = true; });
    return some;
  }
  // True if gradients must be added up with ops. A checkpoint that runs again calls the ops that it
  // called when a tape recorded them.
  bool somebody_records() const { return running_checkpoint != nullptr || is_recording(); }
};
LiveTapes& live_tapes();

// The names of the ops that have run in this process, in any thread.
void note_op(std::string_view name);
std::vector<std::string> ops_that_ran();

}  // namespace tapegrad
