#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// The results of an evaluation.
struct Losses {
  double train = 0, val = 0;
  // Shares of the validation part from 0 to 1, by the names that they have in metrics.jsonl.
  std::vector<std::pair<std::string, double>> val_shares = {};
  // Other numbers of the validation part, in the same way.
  std::vector<std::pair<std::string, double>> val_numbers = {};
};

// The most numbers that a task may have beside its loss: see Objective.
inline constexpr std::size_t kMostMetrics = 4;

// Seconds of the parts of a step, over all its batches. `other`: passing over the batches of other
// processes and waiting for these, statistics, all that is beside the parts.
struct StepTimes {
  double forward = 0, backward = 0, norm = 0, update = 0, other = 0;
  double parts() const { return forward + backward + norm + update; }
  double total() const { return parts() + other; }
};

}  // namespace tapegrad::run
