#!/usr/bin/env bash
# usage: scripts/quickstart.sh [OPTION_OF_TRAIN_GPT…]
# Builds what training and sampling need, trains a small GPT on tiny shakespeare, in some two minutes, prints
# what it writes, and builds the other commands. Options change the run: scripts/quickstart.sh --max-iters 100
set -euo pipefail
cd "$(dirname "$0")/.."

if ! mkdir -p build 2>/dev/null || [ ! -w build ]; then
  cat >&2 <<END
$PWD cannot be written to. Build elsewhere, and train in a folder of yours:
  cmake -S $(printf %q "$PWD") -B ~/tapegrad-build -DCMAKE_BUILD_TYPE=Release
  cmake --build ~/tapegrad-build --parallel $(nproc) --target programs
  ~/tapegrad-build/bin/train-gpt --preset char-fast
END
  exit 1
fi
scripts/packages.sh
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release >/dev/null
program=build/bin/tapegrad
rest=(cmake --build build --parallel "$(nproc)" --target programs)

if [ -e $program ] && [ "$(date -r $program +%Y)" != 2000 ]; then  # the whole one: see cmake/place.cmake
  echo "Building the programs…"
  "${rest[@]}"
  exec $program train --preset char-fast "$@"
fi
echo "Building what training and sampling need…"
cmake --build build --parallel "$(nproc)" --target first_program

# However this ends, there is a program.
leave() {
  cmake -DFROM=build/first/tapegrad -DTO=$program -P cmake/place.cmake
  echo "Not all commands are built yet: train and sample are. To go on: ${rest[*]}" >&2
  exit "$1"
}
$program train --preset char-fast "$@" || leave $?
echo "
Building the other commands: chat, serve, watch and more. This may be interrupted; train and sample work already."
trap 'leave 130' INT
"${rest[@]}" || leave $?
