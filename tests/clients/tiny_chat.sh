# Sourced: serves a model of random weights that has a template for conversations.
# usage: serve_tiny_chat BUILD_FOLDER TOKENS [OPTION…]     sets work, a folder; server, its process; and url
serve_tiny_chat() {
  local build=$1 tokens=$2 golden
  shift 2
  golden=$(cd "$(dirname "${BASH_SOURCE[0]}")/../golden/hf_qwen2" && pwd)
  work=$(mktemp -d)
  server=
  trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
  local model=$work/tiny-chat
  mkdir "$model"
  sed "s/\"max_position_embeddings\": 24/\"max_position_embeddings\": $tokens/" "$golden/config.json" >"$model/config.json"
  cp "$golden/model.safetensors" "$golden/tokenizer.json" "$model/"
  cat >"$model/tokenizer_config.json" <<'JSON'
{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"}
JSON
  echo right-key >"$work/keys"
  : >"$work/out"
  "$build/bin/tapegrad" serve "$model" --port 0 --api-key "$work/keys" "$@" >"$work/out" 2>"$work/log" &
  server=$!
  until grep -q 'serving: ' "$work/out"; do kill -0 "$server"; sleep 0.1; done
  url=$(sed -n 's|^serving: \(http://[^/]*\)/.*|\1|p' "$work/out")
}
