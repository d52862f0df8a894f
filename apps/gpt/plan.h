#pragma once

#include "tapegrad/apps/gpt/gpt_options.h"

namespace tapegrad::gpt {

// train-gpt --plan: prints what a run would need, memory by kind and time, and trains nothing but a
// few steps on random tokens, by which it measures. Returns the exit code.
int print_plan(const Options& options);

}  // namespace tapegrad::gpt
