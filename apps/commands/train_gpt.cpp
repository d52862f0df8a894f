#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/train/train_command.h"

namespace tapegrad {
namespace {

const cli::Command kCommand("train", cli::CommandGroup::train, "train a GPT on text", gpt::train,
                            "train-gpt");

}  // namespace
}  // namespace tapegrad
