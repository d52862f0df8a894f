#pragma once

#include "tapegrad/apps/train/plan/plan.h"

namespace tapegrad::gpt {

// train-gpt --plan: prints the memory by kind and the time that a run would take. The time is
// measured with a few steps on random tokens, or computed for the machine of --gflops. Returns the
// exit code.
int print_plan(const Plan& plan);

}  // namespace tapegrad::gpt
