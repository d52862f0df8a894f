#include "tapegrad/apps/seq2seq/seq2seq_program.h"

int main(int argc, char** argv) {
  tapegrad::seq2seq::Training program;
  return tapegrad::cli::train_main(program, argc, argv);
}
