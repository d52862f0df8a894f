#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/gpt/gpt_program.h"

namespace tapegrad {
namespace {

int run(const cli::Call& call) {
  gpt::Training program;
  return cli::train_main(program, call);
}

const cli::Command kCommand("train", cli::CommandGroup::train, "train a GPT on text", run,
                            "train-gpt");

}  // namespace
}  // namespace tapegrad
