#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/run/train/time_budget.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// What the plan of a run depends on beside its options.
struct TrainFacts {
  std::optional<std::int64_t> steps_made = {};  // of a run that is resumed
  std::optional<FittingSteps> fitting = {};     // into options.time; nothing: not measured yet
};

// The options of a run whose schedule, and whose number of steps if it goes by the clock, are
// decided. Nothing changes them after this.
struct TrainPlan {
  TrainOptions options;
  std::string minutes, minutes_reason;  // as in RunHeader; empty unless steps were measured
  std::vector<std::string> notes;       // for people: what it has that was not asked for
};

// Error if a run of max_iters steps is over before its processes meet for the first time.
void check_meetings(const OptimizerOptions& optimizer);

// lr_decay_iters and warmup_iters are fixed, so that a run that is resumed with more steps keeps
// its schedule. Pure; errors as of train(), which name `folder`.
TrainPlan resolve(const TrainOptions& options, const TrainFacts& facts,
                  const std::filesystem::path& folder);

}  // namespace tapegrad::run
