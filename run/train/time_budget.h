#pragma once

#include <optional>
#include <string>

#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// The times of a run's parts, in seconds.
struct RunCosts {
  double step, checkpoint;
  SideCosts side;
};

// The most steps that take at most `seconds`, with the evaluations and checkpoints that are due
// and the end of the run. At least 0.
std::int64_t steps_within(double seconds, const RunCosts& costs, const EvaluationOptions& options);

// So many steps fit into "2 minutes", and why: "94 steps took 3.0 s, so 2,950 steps fit into 2
// minutes, …".
struct FittingSteps {
  std::int64_t steps;
  std::string minutes, reason;
};

// Makes some steps of a new run to measure them, and decides how many options.time has time for.
// Then parameters, batches and generators are what they were, so that the run is the same as one
// that was given that number of steps. Takes the memory of the parameters once more. Nothing if a
// signal interrupts it. Error if not one step fits. Several processes measure together.
std::optional<FittingSteps> fit_steps(const Task& task, const TrainOptions& options,
                                      Processes* processes = nullptr);

}  // namespace tapegrad::run
