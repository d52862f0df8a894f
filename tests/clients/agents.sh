#!/usr/bin/env bash
# usage: [OPENCODE=COMMAND] [CN=COMMAND] tests/clients/agents.sh BUILD_FOLDER
# Lets agents that speak to a chat ask `tapegrad serve` for an answer: opencode (npm's opencode-ai) and Continue's cn
# (@continuedev/cli). They must show what they were sent. Then the model must call their tool: they run a command, and
# send back what it printed. Each gets a home of its own. One that is not installed is left out, with a word.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
opencode=${OPENCODE:-$(command -v opencode || echo "$here/node_modules/.bin/opencode")}
cn=${CN:-$(command -v cn || echo "$here/node_modules/.bin/cn")}
. "$here/tiny_chat.sh"
serve_tiny_chat "$1" 131072 --log json --log-texts
mkdir "$work/home" "$work/folder"
git init -q "$work/folder"

# configure URL      for both
configure() {
  cat >"$work/folder/opencode.json" <<JSON
{"provider": {"tapegrad": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "$1/v1", "apiKey": "right-key"},
  "models": {"tiny-chat": {"limit": {"context": 131072, "output": 400}}}}},
 "model": "tapegrad/tiny-chat", "autoupdate": false, "share": "disabled"}
JSON
  cat >"$work/home/cn.yaml" <<YAML
name: tapegrad
version: 0.0.1
schema: v1
models:
  - name: tiny-chat
    provider: openai
    model: tiny-chat
    apiBase: $1/v1
    apiKey: right-key
    roles: [chat]
    capabilities: [tool_use]
    defaultCompletionOptions: {maxTokens: 400, contextLength: 131072}
YAML
}

# ask PROMPT COMMAND…      sets shown, a file
ask() {
  shown=$work/shown
  (cd "$work/folder" && HOME=$work/home XDG_CONFIG_HOME=$work/home/.config XDG_DATA_HOME=$work/home/.local \
    timeout 300 "${@:2}" "$1" </dev/null >"$shown" 2>"$work/errors") || { cat "$shown" "$work/errors"; exit 1; }
}

# try NAME TOOL COMMAND…      TOOL is the call of its tool, as JSON
try() {
  local records
  configure "$url"
  records=$(wc -l <"$work/log")
  ask "say hi" "${@:3}"
  python3 "$here/agent_answers.py" "$1" "$work/log" "$records" "$shown"
  # The model's text is random: that it calls a tool, and with which arguments, is asked of the server on the way to it.
  python3 "$here/forced_calls.py" "$url" "$2" >"$work/between" &
  between=$!
  trap 'kill "$between" "$server"; rm -rf "$work"' EXIT
  until [ -s "$work/between" ]; do kill -0 "$between"; sleep 0.1; done
  configure "$(cat "$work/between")"
  records=$(wc -l <"$work/log")
  ask "how many are 6 times 7?" "${@:3}"
  python3 "$here/agent_answers.py" "$1" "$work/log" "$records" "$shown" "6 times 7 is 42"
  kill "$between"
  trap 'kill "$server"; rm -rf "$work"' EXIT
  : >"$work/between"
}

# What is run is the command below, whatever the model says.
say='echo 6 times 7 is $((6 * 7))'
if command -v "$opencode" >/dev/null; then
  try "opencode $("$opencode" --version)" "{\"name\": \"bash\", \"arguments\": {\"command\": \"$say\"}}" "$opencode" run --auto
else
  echo "left out: npm install --prefix FOLDER opencode-ai; OPENCODE=FOLDER/node_modules/.bin/opencode"
fi
if command -v "$cn" >/dev/null; then
  try "cn $("$cn" --version)" "{\"name\": \"Bash\", \"arguments\": {\"command\": \"$say\"}}" "$cn" --config "$work/home/cn.yaml" --auto -p
else
  echo "left out: npm install --prefix FOLDER @continuedev/cli; CN=FOLDER/node_modules/.bin/cn"
fi
