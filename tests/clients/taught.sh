#!/usr/bin/env bash
# usage: tests/clients/taught.sh BUILD_FOLDER [RUN]
# Teaches a model to call functions as docs/serving.md does, or takes the RUN of an earlier time. Then examples/tool_agent.py, the
# AI SDK and openai's library (npm ci --prefix tests/clients) ask it 200 questions each: 95 % must end with the right result.
set -euo pipefail
[ $# -ge 1 ] && [ $# -le 2 ] && [ -d "$1" ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
examples=$(cd "$here/../../examples" && pwd)
tapegrad=$1/bin/tapegrad
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
run=${2:-$work/calls}
if [ $# -eq 1 ]; then
  python3 "$examples/tool_chats.py" "$work"
  "$tapegrad" train --chat "$work/chats.jsonl" --tokenizer "$work/tokens" --preset llama-char --qk-norm --tied --ngrams 3 \
    --optimizer muon --learning-rate 6e-3 --min-lr 0 --block-size 640 --batch-size 8 --max-iters 1000 --out-dir "$run"
fi
"$tapegrad" serve "$run" --port 0 --log none >"$work/out" &
server=$!
until grep -q 'serving: ' "$work/out"; do kill -0 "$server"; sleep 0.1; done
url=$(sed -n 's|^serving: \(http://[^/]*\)/.*|\1|p' "$work/out")
python3 "$examples/tool_agent.py" "$url" | tee "$work/tries"
awk '/tries end/ { exit $1 < 0.95 * $3 }' "$work/tries"
if [ -d "$here/node_modules/openai" ]; then
  python3 "$examples/tool_agent.py" --questions 200 | node "$here/taught_client.mjs" "$url" "$(basename "$run")"
else
  echo "left out: npm ci --prefix tests/clients"
fi
