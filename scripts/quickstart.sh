#!/usr/bin/env bash
<<<<<<< HEAD
# usage: scripts/quickstart.sh [OPTION_OF_TRAIN_GPT…]
# Builds tapegrad, trains a small GPT on the project's own sources for about two minutes, and prints
# what it writes. Options change the run: scripts/quickstart.sh --max-iters 100
=======
# usage: scripts/quickstart.sh
# Builds tapegrad, trains a small GPT on the project's own sources for two minutes, and prints
# what it writes.
>>>>>>> 0a07959 (--max-minutes: a run ends in time, on any machine)
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/packages.sh
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
echo "Building the programs…"
cmake --build build --parallel "$(nproc)" --target programs
exec build/bin/train-gpt --preset quickstart "$@"
