#!/usr/bin/env bash
# usage: [CODEX=COMMAND] tests/clients/codex.sh BUILD_FOLDER
# Lets codex (npm's @openai/codex) ask `tapegrad serve` for an answer, and compares what it shows with what it was sent.
# It gets a home of its own. Skipped, with a word, where it is not installed.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
codex=${CODEX:-$(command -v codex || echo "$here/node_modules/.bin/codex")}
if ! command -v "$codex" >/dev/null; then
  echo "skipped: codex is not installed (npm install --prefix FOLDER @openai/codex; CODEX=FOLDER/node_modules/.bin/codex)"
  exit 0
fi
. "$here/tiny_chat.sh"
serve_tiny_chat "$1" 65536 --log json --log-texts
mkdir "$work/home" "$work/folder"
cat >"$work/home/config.toml" <<TOML
model = "tiny-chat"
model_provider = "tapegrad"
[model_providers.tapegrad]
name = "tapegrad"
base_url = "$url/v1"
wire_api = "responses"
env_key = "TAPEGRAD_KEY"
request_max_retries = 0
stream_max_retries = 0
TOML
cd "$work/folder"
HOME=$work/home CODEX_HOME=$work/home TAPEGRAD_KEY=right-key timeout 300 "$codex" exec --skip-git-repo-check \
  --output-last-message "$work/shown" "say hi" </dev/null >"$work/codex" 2>&1 || { cat "$work/codex"; exit 1; }
python3 - "$work/log" "$work/shown" <<'PYTHON'
import json
import sys

for line in open(sys.argv[1]):
    record = json.loads(line)
    if record.get("path") == "/v1/responses":
        break
assert record["status"] == 200, (record["status"], record.get("answer", "")[-400:])
events = [json.loads(line[6:]) for line in record["answer"].splitlines() if line.startswith("data: ")]
assert events[-1]["type"] == "response.completed", events[-1]["type"]
sent = events[-1]["response"]["output"][0]["content"][0]["text"]
shown = open(sys.argv[2], newline="").read()  # a carriage return is a part of it
assert shown.strip() == sent.strip(), (shown, sent)
print(f"codex: an answer of {record['completion_tokens']} tokens to a prompt of {record['prompt_tokens']} is shown as it was sent")
PYTHON
"$codex" --version
