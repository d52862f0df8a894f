#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/seq2seq/seq2seq_program.h"

namespace tapegrad {
namespace {

int run(const cli::Call& call) {
  seq2seq::Training program;
  return cli::train_main(program, call);
}

const cli::Command kCommand("seq2seq", cli::CommandGroup::train,
                            "train an encoder-decoder on pairs of texts", run, "train-seq2seq");

}  // namespace
}  // namespace tapegrad
