#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/seq2seq/seq2seq_program.h"

namespace tapegrad {
namespace {

const cli::Command kCommand("seq2seq", cli::CommandGroup::train,
                            "train an encoder-decoder on pairs of texts", seq2seq::train,
                            "train-seq2seq");

}  // namespace
}  // namespace tapegrad
