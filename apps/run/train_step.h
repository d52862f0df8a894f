#pragma once

#include "tapegrad/optim/adamw.h"
#include "tapegrad/run/train.h"

namespace tapegrad::run {

// One step of the optimiser, with the learning rate `lr`: the mean gradient of as many batches as
// the options accumulate, clipped, goes into `adamw`, unless the options skip outliers and the step
// is one. What that needs to know of earlier steps is in `progress`.
Report::Step make_step(const Task& task, const OptimizerOptions& options, double lr,
                       optim::AdamW& adamw, Progress& progress);

}  // namespace tapegrad::run
