#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/serve.sh BUILD_FOLDER
# Speaks to `tapegrad serve` with OpenAI's own libraries: Python's (Debian's package python3-openai) and npm's
# (npm ci --prefix tests/clients). Each that is missing is left out, with a word. CLIENTS is put before python3,
# where the package is in another root, for example.
set -euo pipefail
[ $# -eq 1 ] && [ -d "$1" ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/../golden/hf_qwen2
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
model=$work/tiny-chat
mkdir "$model"
sed 's/"max_position_embeddings": 24/"max_position_embeddings": 512/' "$golden/config.json" >"$model/config.json"
cp "$golden/model.safetensors" "$golden/tokenizer.json" "$model/"
cat >"$model/tokenizer_config.json" <<'JSON'
{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"}
JSON
echo right-key >"$work/keys"
: >"$work/out"
"$1/bin/tapegrad" serve "$model" --port 0 --api-key "$work/keys" --log none >"$work/out" &
server=$!
until grep -q 'serving: ' "$work/out"; do kill -0 "$server"; sleep 0.1; done
url=$(sed -n 's|^serving: \(http://[^/]*\)/.*|\1|p' "$work/out")
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
