#!/usr/bin/env bash
# usage: scripts/quickstart.sh [OPTION_OF_TRAIN_GPT…]
# Builds tapegrad, trains a small GPT on tiny shakespeare, in some two minutes, and prints what it
# writes. Options change the run: scripts/quickstart.sh --max-iters 100
set -euo pipefail
cd "$(dirname "$0")/.."

if ! mkdir -p build 2>/dev/null || [ ! -w build ]; then
  cat >&2 <<EOF
$PWD cannot be written to. Build elsewhere, and train in a folder of yours:
  cmake -S $(printf %q "$PWD") -B ~/tapegrad-build -DCMAKE_BUILD_TYPE=Release
  cmake --build ~/tapegrad-build --parallel $(nproc) --target programs
  ~/tapegrad-build/bin/train-gpt --preset char-fast
EOF
  exit 1
fi
scripts/packages.sh
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
echo "Building the programs…"
cmake --build build --parallel "$(nproc)" --target programs
exec build/bin/train-gpt --preset char-fast "$@"
