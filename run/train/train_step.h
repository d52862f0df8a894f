#pragma once

#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/run/record/report.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// One step of the optimiser, with the learning rate `lr`: the mean gradient of as many batches as
// the options accumulate, clipped, goes into `sync`, unless the options skip outliers and the
// step is one. What that needs to know of earlier steps is in `progress`.
//
// Of several processes, rank r has the batches r, r + R, r + 2R …, and passes over the others as if
// it had seen them. So all of them, and one process alone, make the same step. If a signal has
// asked one of them to stop, it interrupts all.
//
// With `stats`, it also takes the means of the step's layers. They change nothing.
Report::Step make_step(const Task& task, const OptimizerOptions& options, double lr,
                       optim::GradientSync& sync, Progress& progress,
                       Processes* processes = nullptr, LayerStats* stats = nullptr);

}  // namespace tapegrad::run
