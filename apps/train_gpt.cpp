#include "tapegrad/apps/gpt/gpt_program.h"

int main(int argc, char** argv) {
  tapegrad::gpt::Training program;
  return tapegrad::cli::train_main(program, argc, argv);
}
