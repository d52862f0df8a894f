#!/usr/bin/env bash
# usage: scripts/test.sh [--quick] [BUILD_FOLDER [CMAKE_OPTION…]]
# Builds everything and runs all tests. --quick: those of the engine, the layers, the optimisers and one training,
# and builds what these need.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=
if [ "${1-}" = --quick ]; then quick=yes && shift; fi
build=${1:-build}
shift || true

if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
  echo "$build cannot be written to, in $PWD. Build elsewhere: scripts/test.sh ~/tapegrad-build" >&2
  exit 1
fi
scripts/packages.sh
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release "$@" >/dev/null

# Seconds of a processor for the tests, and to build all that they need (docs/performance.md).
tests=$build target=all test_seconds=700 build_seconds=900
if [ "$quick" ]; then tests=$build/tests/quick target=engine_tests test_seconds=120 build_seconds=400; fi
minutes() { echo "about $((($1 / $(nproc) + 59) / 60)) min"; }
count=$(ctest --test-dir "$tests" --show-only | sed -n 's/^Total Tests: //p')
echo "$count tests, which take $(minutes $test_seconds). Building from nothing takes $(minutes $build_seconds) before, or twice that."
cmake --build "$build" --parallel "$(nproc)" --target $target
# One more than there are processors: some tests wait for time to pass.
ctest --test-dir "$tests" --output-on-failure --no-tests=error --parallel "$(($(nproc) + 1))"
