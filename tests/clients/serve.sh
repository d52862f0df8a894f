#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/serve.sh BUILD_FOLDER
# Speaks to `tapegrad serve` with OpenAI's own libraries: Python's (Debian's package python3-openai) and npm's
# (npm ci --prefix tests/clients). Each that is missing is left out, with a word. CLIENTS is put before python3,
# where the package is in another root, for example.
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
if [ -d "$here/node_modules/openai" ]; then
  node "$here/openai_client.mjs" "$url" tiny-chat
else
  echo "left out: npm ci --prefix tests/clients"
fi
