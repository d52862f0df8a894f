#include "tapegrad/apps/gpt/gpt_program.h"

int main(int argc, char** argv) {
  return tapegrad::cli::train_main<tapegrad::gpt::Program>(argc, argv);
}
