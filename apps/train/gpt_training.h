#pragma once

#include "tapegrad/apps/train/gpt_options.h"

namespace tapegrad::gpt {

// The command line of train-gpt.
const cli::TrainingProgram<Options>& training();

// Its main().
int train(const cli::Call& call);

}  // namespace tapegrad::gpt
