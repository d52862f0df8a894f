#!/usr/bin/env bash
# usage: tests/browser/run.sh BUILD_FOLDER
#        tests/browser/run.sh --screenshots FOLDER BUILD_FOLDER
# Tests the pages of watch, train-gpt --serve, serve and export in headless Chromium, or writes pictures of them.
# It needs node 18 or newer, a Chromium (CHROMIUM=PATH names one) and, once,
#   npm ci --prefix tests/browser
# Without them, it says so and ends with 77, which ctest counts as skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pictures=
if [ "${1-}" = --screenshots ] && [ $# -eq 3 ]; then pictures=$(mkdir -p "$2" && cd "$2" && pwd); shift 2; fi
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n 2,7p "$0" >&2; exit 2; }
TAPEGRAD_BUILD=$(cd "$1" && pwd)

skip() { echo "skipped: $*"; exit 77; }

command -v node >/dev/null || skip "there is no node"
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || skip "node $(node --version) is older than 18"
[ -d "$here/node_modules/puppeteer-core" ] && [ -d "$here/node_modules/axe-core" ] ||
  skip "npm's modules are missing: npm ci --prefix tests/browser"
for name in "${CHROMIUM-}" chromium chromium-browser google-chrome; do
  [ -n "$name" ] && CHROMIUM=$(command -v "$name") && break
done
[ -n "$CHROMIUM" ] || skip "there is no Chromium"
export TAPEGRAD_BUILD CHROMIUM

# The page of export --format web, where it can be made.
if command -v em++ >/dev/null; then "$here/../../scripts/web.sh" "$TAPEGRAD_BUILD" >/dev/null; fi

cd "$here"
if [ -n "$pictures" ]; then exec node screenshots.mjs "$pictures"; fi
exec node --test page.test.mjs table.test.mjs lines.test.mjs access.test.mjs endurance.test.mjs talk.test.mjs web.test.mjs hostile.test.mjs
