#!/usr/bin/env bash
# usage: [CODEX=COMMAND] tests/clients/codex.sh BUILD_FOLDER
# Lets codex (npm's @openai/codex) ask `tapegrad serve` for an answer, and compares what it shows with what it was sent.
# Then the model must call two of its tools: codex runs a command, and sends back what it printed. It gets a home of its
# own. Skipped, with a word, where it is not installed.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
codex=${CODEX:-$(command -v codex || echo "$here/node_modules/.bin/codex")}
if ! command -v "$codex" >/dev/null; then
  echo "skipped: codex is not installed (npm install --prefix FOLDER @openai/codex; CODEX=FOLDER/node_modules/.bin/codex)"
  exit 0
fi
. "$here/tiny_chat.sh"
serve_tiny_chat "$1" 65536 --log json --log-texts
mkdir "$work/home" "$work/folder"

# ask URL PROMPT [OPTION…]
ask() {
  cat >"$work/home/config.toml" <<TOML
model = "tiny-chat"
model_provider = "tapegrad"
[model_providers.tapegrad]
name = "tapegrad"
base_url = "$1/v1"
wire_api = "responses"
env_key = "TAPEGRAD_KEY"
request_max_retries = 0
stream_max_retries = 0
TOML
  (cd "$work/folder" && HOME=$work/home CODEX_HOME=$work/home TAPEGRAD_KEY=right-key timeout 300 "$codex" exec \
    --skip-git-repo-check --output-last-message "$work/shown" "${@:3}" "$2" </dev/null >"$work/codex" 2>&1) ||
    { cat "$work/codex"; exit 1; }
}

ask "$url" "say hi"
# The model's text is random: that it calls a tool, and with which arguments, is asked of the server on the way to it.
python3 "$here/forced_calls.py" "$url" '{"name": "exec_command", "arguments": {"cmd": "echo 6 times 7 is $((6 * 7))"}}' \
  '{"namespace": "multi_agent_v1", "name": "close_agent", "arguments": {"target": "nobody"}}' >"$work/between" &
between=$!
trap 'kill "$between" "$server"; rm -rf "$work"' EXIT
until [ -s "$work/between" ]; do kill -0 "$between"; sleep 0.1; done
# What is run is the command above, whatever the model says.
ask "$(cat "$work/between")" "how many are 6 times 7?" --dangerously-bypass-approvals-and-sandbox
python3 - "$work/log" "$work/shown" <<'PYTHON'
import json
import sys

records = [json.loads(line) for line in open(sys.argv[1])]
records = [record for record in records if record.get("path") == "/v1/responses"]
for record in records:
    assert record["status"] == 200, (record["status"], record.get("answer", "")[-400:])


def output_of(record):
    events = [json.loads(line[6:]) for line in record["answer"].split("\n") if line.startswith("data: ")]
    assert events[-1]["type"] == "response.completed", events[-1]["type"]
    return events[-1]["response"]["output"]


assert len(records) == 4, len(records)
hi, command, close, last = records
print(f"codex: its tools are read, a prompt of {hi['prompt_tokens']} tokens")
run, = output_of(command)
assert (run["type"], run["name"]) == ("function_call", "exec_command"), run
closed, = output_of(close)
assert (closed["namespace"], closed["name"]) == ("multi_agent_v1", "close_agent"), closed
items = json.loads(last["request"])["input"]
outputs = {item["call_id"]: json.dumps(item["output"]) for item in items if item["type"] == "function_call_output"}
assert "6 times 7 is 42" in outputs[run["call_id"]], outputs
assert "unsupported call" not in outputs[closed["call_id"]], outputs
print("codex: it runs a command that the model calls, and finds a tool in a namespace")
sent = output_of(last)[0]["content"][0]["text"]
shown = open(sys.argv[2], newline="").read()  # a carriage return is a part of it
assert shown.strip() == sent.strip(), (shown, sent)
print(f"codex: an answer of {last['completion_tokens']} tokens is shown as it was sent")
PYTHON
"$codex" --version
