#include "tapegrad/apps/cli/command.h"

int main(int argc, char** argv) { return tapegrad::cli::tapegrad_main(argc, argv); }
