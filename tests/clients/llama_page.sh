#!/usr/bin/env bash
# usage: [LLAMA_PAGE=FOLDER] tests/clients/llama_page.sh BUILD_FOLDER
# Opens the page that llama.cpp comes with, in Chromium, and lets it talk to `tapegrad serve` from an origin of its own. Skipped,
# with a word, where the page (Debian's llama.cpp-tools; LLAMA_PAGE where it lies elsewhere) or the browser's driver
# (npm ci --prefix tests/browser) is missing.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
export LLAMA_PAGE=${LLAMA_PAGE:-/usr/share/llama.cpp/llama-server/simplechat-legacy-ui}
[ -e "$LLAMA_PAGE/simplechat.js" ] || { echo "skipped: there is no page of llama.cpp's in $LLAMA_PAGE"; exit 0; }
[ -d "$here/../browser/node_modules" ] || { echo "skipped: npm ci --prefix tests/browser"; exit 0; }
. "$here/tiny_chat.sh"
coproc page { node "$here/llama_page.mjs"; }
client=$page_PID
read -r origin <&"${page[0]}"
serve_tiny_chat "$1" 2048 --log none --name gpt-3.5-turbo --allow-origin "$origin"
echo "$url right-key" >&"${page[1]}"
cat <&"${page[0]}"
wait "$client"
