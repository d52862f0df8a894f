#!/usr/bin/env bash
# usage: tests/json_schema/run.sh BUILD_FOLDER [TOKENIZER]
# Makes up 1000 JSON schemas and a text of random tokens under the mask of each, and 200 calls of
# functions, and lets ajv judge the texts and the arguments. TOKENIZER is a folder of Hugging Face's
# [GPT-2's]. It needs node 18 or newer and, once,
#   npm ci --prefix tests/json_schema
# Without them, it says so and ends with 77, which ctest counts as skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] && [ $# -le 2 ] && [ -d "$1" ] || { sed -n 2,8p "$0" >&2; exit 2; }

skip() { echo "skipped: $*"; exit 77; }

command -v node >/dev/null || skip "there is no node"
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || skip "node $(node --version) is older than 18"
[ -d "$here/node_modules/ajv" ] || skip "npm's modules are missing: npm ci --prefix tests/json_schema"

"$1/bin/schema_answers" 1000 200 "${@:2}" | node "$here/validate.mjs" 1200
