#pragma once

#include <cstdint>
#include <exception>
#include <optional>

#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/plan/internal/disk_room.h"

namespace tapegrad::run {

// Keeps the checkpoints of a run when they are due, and the weights that --keep names.
class Saver {
 public:
  // The folder, and all that `state` refers to, must live as long as this.
  Saver(const RunFolder& folder, const EvaluationOptions& options, const TrainState& state)
      : folder_(folder),
        steps_(options.checkpoints()),
        keep_(keep_rule(options.keep)),
        state_(state) {}

  // Error if the disk has no room for checkpoints, with so many bytes of the optimiser's state: see
  // DiskNeeds. Before the folder begins the run.
  void check_disk(double optimizer_bytes) const {
    const bool replaces = path_exists(folder_.path() / kTrainerFile);
    if (replaces && !folder_.resumes()) return;  // the old run goes first, and leaves its room
    DiskNeeds needs{.optimizer = optimizer_bytes, .keeps_best = keep_.best, .replaces = replaces};
    for (const auto& [name, tensor] : state_.params.checkpoint_tensors()) {
      needs.weights += static_cast<double>(tensor.bytes());
    }
    check_room(folder_.path(), needs, free_room(folder_.path()));
  }

  bool due() const { return steps_.due(state_.progress.iteration); }
  // The checkpoint of this step, if it is not saved yet.
  void save() {
    if (saved_ == state_.progress.iteration) return;
    folder_.save(state_, keep_);
    saved_ = state_.progress.iteration;
  }
  // The weights have changed since this step was saved: its checkpoint is to be made once more.
  void outdate() {
    if (saved_) saved_ = kOutdated;
  }
  // The weights, as those of the lowest validation loss.
  void keep_best() const { folder_.keep_best(state_.params, state_.progress.iteration, keep_); }

  // The step of the checkpoint that the run can go on from; nothing if there is none. Its file says
  // which: an error may come after it was replaced.
  std::optional<std::int64_t> complete_step() const {
    if (!saved_ && (!folder_.resumes() || folder_.back_from())) return std::nullopt;
    try {
      return checkpoint_iteration(folder_.path());
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

 private:
  static constexpr std::int64_t kOutdated = -1;

  const RunFolder& folder_;
  const StepInterval steps_;
  const KeepRule keep_;
  const TrainState state_;
  std::optional<std::int64_t> saved_;  // the step of the last checkpoint
};

}  // namespace tapegrad::run
