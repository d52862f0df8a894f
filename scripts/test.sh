#!/usr/bin/env bash
# usage: scripts/test.sh [BUILD_FOLDER [CMAKE_OPTION…]]
# Builds everything and runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
shift || true

if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
  echo "$build cannot be written to, in $PWD. Build elsewhere: scripts/test.sh ~/tapegrad-build" >&2
  exit 1
fi
scripts/packages.sh
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release "$@" >/dev/null
cmake --build "$build" --parallel "$(nproc)"
# One more than there are processors: some tests wait for time to pass.
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(($(nproc) + 1))"
