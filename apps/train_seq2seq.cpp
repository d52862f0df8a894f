#include "tapegrad/apps/seq2seq/seq2seq_program.h"

int main(int argc, char** argv) {
  return tapegrad::cli::train_main<tapegrad::seq2seq::Program>(argc, argv);
}
