#pragma once

#include <optional>
#include <string>

#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// The options of a run whose schedule, and whose number of steps if it goes by the clock, are
// decided. Nothing changes them after this.
struct ResolvedOptions {
  TrainOptions options;
  std::string minutes, minutes_reason;  // as in RunHeader; empty unless steps were measured
};

// Nothing if a signal interrupts the measuring. lr_decay_iters and warmup_iters are fixed, so that
// a run that is resumed with more steps keeps its schedule. Errors as of train().
std::optional<const ResolvedOptions> resolved(TrainOptions options, const Task& task,
                                              const RunFolder& folder);

}  // namespace tapegrad::run
