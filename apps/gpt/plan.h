#pragma once

#include "tapegrad/apps/gpt/train_options.h"

namespace tapegrad::apps {

// train-gpt --plan: prints what a run would need, memory by kind and time, and trains nothing but a
// few steps on random tokens, by which it measures. Returns the exit code.
int print_plan(const TrainOptions& options, int64_t vocab_size);

}  // namespace tapegrad::apps
