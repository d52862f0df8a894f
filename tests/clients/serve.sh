#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/serve.sh BUILD_FOLDER
# Speaks to `tapegrad serve` with OpenAI's own libraries, Python's (Debian's package python3-openai) and npm's, with LangChain
# and with the AI SDK (npm ci --prefix tests/clients). Those that are missing are left out, with a word. CLIENTS is put before
# python3, where the package is in another root, for example.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tiny_chat.sh"
serve_tiny_chat "$1" 2048 --log none
read -ra clients <<<"${CLIENTS:-}"
if "${clients[@]}" python3 -c 'import openai' 2>/dev/null; then
  "${clients[@]}" python3 - "$url" tiny-chat <"$here/openai_client.py"
else
  echo "left out: python3 has no package openai"
fi
if [ ! -d "$here/node_modules/openai" ]; then
  echo "left out: npm ci --prefix tests/clients"
  exit 0
fi
# In an agent's loop, the model must call: it is random. Two loops of each client, of a call and an answer.
call='{"name": "multiply", "arguments": {"a": 6, "b": 7}}'
for client in openai langchain ai_sdk; do
  python3 "$here/forced_calls.py" "$url" "$call" null "$call" null >"$work/between" &
  between=$!
  trap 'kill "$between" "$server"; rm -rf "$work"' EXIT
  until [ -s "$work/between" ]; do kill -0 "$between"; sleep 0.1; done
  node "$here/${client}_client.mjs" "$url" tiny-chat "$(cat "$work/between")"
  kill "$between"
  trap 'kill "$server"; rm -rf "$work"' EXIT
  : >"$work/between"
done
