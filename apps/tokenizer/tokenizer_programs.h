#pragma once

#include "tapegrad/apps/cli/command.h"

namespace tapegrad::tokenizers {

// The parts of `tapegrad tokenizer`. Each reads its arguments, and returns the exit code.
int train_tokenizer(const cli::Call& call);
int show_tokenizer(const cli::Call& call);
int compare_tokenizers(const cli::Call& call);

}  // namespace tapegrad::tokenizers
