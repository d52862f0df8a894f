#pragma once

#include "tapegrad/apps/train/plan/plan.h"
#include "tapegrad/run/plan/step_forecast.h"

namespace tapegrad::gpt {

// Prints what a step of the processes of --plan takes, sends and keeps, in the way that the options
// name and in others; which way and which number of processes is fastest; and how it goes with
// their number. `estimate` is that of one process.
void print_forecast(const Plan& o, const run::StepParts& parts,
                    const run::MemoryEstimate& estimate);

}  // namespace tapegrad::gpt
