#pragma once

#include "tapegrad/run/train/train.h"

namespace tapegrad::run {

// Checks before the first step of a call.

// Error if the run to resume has a model with another config. Its parameters fit, or they would not
// have been loaded.
void check_model(const Task& task, const RunFolder& folder);
// Error if processes start with other options, weights, batches, or library for products:
// otherwise, they would go apart without a word.
void check_same_start(const Task& task, const Config& config, const Progress& progress,
                      const optim::GradientSync& sync, Processes& processes);

}  // namespace tapegrad::run
