#pragma once

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/apps/train/plan/plan.h"

namespace tapegrad::gpt {

// The command line of train-gpt.
const cli::TrainingProgram<Options, Facts, Plan>& training();
using ParsedCall = cli::ParsedCall<Options, Facts, Plan>;

// Its main().
int train(const cli::Call& call);

}  // namespace tapegrad::gpt
