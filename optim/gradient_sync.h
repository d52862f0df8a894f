#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/comm/processes.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/parameter_groups.h"
#include "tapegrad/optim/sharing.h"

namespace tapegrad::optim {

// The way from the gradients of a training loop to new weights: those of a step's micro-batches are
// added up, in the order of the micro-batches, and the optimiser updates the parameters by the sum.
// One process does all of that; of several, each has a share of the micro-batches and a share of
// the update. A step is
//
//   for each round of micro-batches:   sync.round(active, backward)
//   auto [norm, factor] = sync.measure_clipping(max_norm);
//   sync.step(lr, factor);
//   sync.zero_grad();
//
// Of several processes, all must make the same calls. With local steps (local_steps.h), a process
// steps by its own micro-batches: its gradients, norm and optimiser are its own, and so are the
// parameters between two meetings, which step() makes.
class GradientSync {
 public:
  // Gives `take` to a tape's backward.
  using Backward = std::function<void(const decltype(BackwardOptions::take)& take)>;

  virtual ~GradientSync() = default;

  // A micro-batch for each of the first `active` ranks, whose `backward` is called; that of others
  // is not. `active` is 1 for a single process.
  virtual void round(int active, const Backward& backward) = 0;
  // See optim::measure_clipping.
  virtual Clipping measure_clipping(double max_norm) = 0;
  // Elements [begin, begin + gradient.numel()) of the gradient of that parameter.
  struct GradientPart {
    std::size_t parameter;
    std::int64_t begin;  // a multiple of kSquareChunk (clip.h)
    Tensor gradient;
  };
  // After measure_clipping(), until zero_grad(): the sums over all micro-batches, not clipped, as
  // far as this process has them. Of several, each has other parts, and together they have all. A
  // parameter without a gradient has none.
  virtual std::vector<GradientPart> gradients() const = 0;
  // See OptimizerState::step. Afterwards every process has all new parameters, or its own ones, or
  // parts: see gather_parameters().
  virtual void step(double lr, double grad_factor, double decay_factor = 1) = 0;
  virtual void zero_grad() = 0;
  // With Shard::parameters, a process has whole parameters only where this says so: from this call
  // until the next round or step, they may be read, and written to if a round is next. All
  // processes must call it. Does nothing where parameters are always whole.
  virtual void gather_parameters() {}
  virtual std::int64_t steps() const = 0;
  // The groups of the parameters, in their order.
  virtual const ParameterGroups& groups() const = 0;

  // The same tensors, where parameters have the values that all processes agree on: with local
  // steps, those of the last meeting, and so have buffers; with averages
  // (internal/averaged_sync.h), these. They are what a model file should have.
  virtual NamedTensors agreed(NamedTensors tensors) const { return tensors; }
  // Exchanges the parameters' values with the averages, if there are any, until the next call: for
  // an evaluation of the model that a file would have. Local steps evaluate at meetings.
  virtual void swap_agreed() {}
  // Goes on from these values, as after a meeting.
  virtual void restart() {}

  // Groups that meet through files (meetings/hold_meeting.h) do so between steps, and not in them:
  // true after the last local step before a meeting. No step may follow until meet() has held it.
  virtual bool meeting_due() const { return false; }
  // (all) Hands in this group's part of a meeting that is due, and takes the steps of all meetings
  // that were held meanwhile. Where no meeting is due, it takes those that came since the last one,
  // if no local step was made. Returns what there is to say of it, for people. May be called again
  // and again until no meeting is due. Nothing is waited for.
  virtual std::string meet() { return {}; }

  // Writes what the optimiser keeps, and the tensors `beside` it, with more metadata (rank 0 alone;
  // the others send it their shares). The file does not depend on the number of processes, but with
  // local steps: then it has the state of each.
  virtual void save(const std::string& path, Metadata metadata,
                    const NamedTensors& beside) const = 0;
  // Errors as OptimizerState::load_state; the file is of local steps that were made otherwise.
  virtual void load(const TensorSource& file) = 0;
  // The name of a tensor of the state that has a value that is not finite; empty if there is none.
  virtual std::string broken_tensor() const = 0;
  // The steps that were made since the values of agreed() were.
  virtual std::int64_t steps_since_agreed() const { return 0; }
};

// For one process, or for a group. Errors: `sent` is int8 without `local`; the processes share
// parameters, and make local steps, by which each comes to have others; groups that meet through
// files have buffers, whose values they would not have in common. `buffers`, of f32, are
// tensors that the caller may change after each step(), in all processes alike. Local steps keep
// their values of the last meeting, too.
std::unique_ptr<GradientSync> make_gradient_sync(const NamedTensors& parameters,
                                                 const GroupRules& rules,
                                                 Processes* processes = nullptr,
                                                 const Sharing& sharing = {},
                                                 const NamedTensors& buffers = {});
// For groups that the caller has made, with optimisers of its own perhaps.
std::unique_ptr<GradientSync> make_gradient_sync(const NamedTensors& parameters,
                                                 const ParameterGroups& groups,
                                                 Processes* processes = nullptr,
                                                 const Sharing& sharing = {},
                                                 const NamedTensors& buffers = {});

}  // namespace tapegrad::optim
