#pragma once

#include <functional>

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/apps/train/plan/plan.h"

namespace tapegrad::gpt {

// The command line of train-gpt.
const cli::TrainingProgram<Options, Facts, Plan>& training();
using ParsedCall = cli::ParsedCall<Options, Facts, Plan>;

// Its main().
int train(const cli::Call& call);
// The same in a program that has joined its processes: returns the exit code, prints no error, and
// leaves exceptions to the caller. `opened` gets the folder of the run before anything is written.
int train_with(const cli::Call& call, Processes& processes,
               const std::function<void(run::RunFolder&)>& opened = {});

}  // namespace tapegrad::gpt
