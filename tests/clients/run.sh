#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/run.sh [-b BUILD] [-t TEXT_FILE] FOLDER…
# Of each model folder in Hugging Face's layout: compares the ids that tapegrad makes with its tokenizer
# with those of Hugging Face's tokenizers, on 20,000 random strings and this project's documents; and,
# where FOLDER/../expected.safetensors has input_ids, logits, prompt and greedy, what its model computes.
# Then the way out, of these and of run folders: each model is exported, the export opened by transformers
# without a warning, and ids of all texts, logits and greedy text compared. TEXT_FILE is one more text.
# CLIENTS is put before each command of Python, where the package is in another root, for example.
set -euo pipefail
build=build
texts=()
if [ "${1:-}" = -b ]; then build=$2; shift 2; fi
if [ "${1:-}" = -t ]; then texts=("$2"); shift 2; fi
[ $# -gt 0 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
if ! "${clients[@]}" python3 -c 'import tokenizers' 2>/dev/null; then
  echo "skipped: Python's package tokenizers is not installed"
  exit 0
fi
cmake --build "$build" --target encode_texts compare_logits model_answers export >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${clients[@]}" python3 "$here/compare_tokenizers.py" make "$work/texts.json" \
  --texts "$here"/../../docs/*.md "$here"/../../docs/tutorial/zh/*.md "${texts[@]}"
failed=0
for folder; do
  grep -q '"model_type"' "$folder/config.json" || continue
  "$build/bin/encode_texts" "$folder" "$work/texts.json" >"$work/ids"
  "${clients[@]}" python3 "$here/compare_tokenizers.py" judge "$(realpath "$folder")/tokenizer.json" \
    "$work/texts.json" "$work/ids" || failed=1
  if [ -e "$folder/../expected.safetensors" ]; then
    "$build/bin/compare_logits" "$folder" "$folder/../expected.safetensors" || failed=1
  fi
done
for folder; do
  out=$work/export/$(basename "$(dirname "$(realpath "$folder")")")-$(basename "$folder")
  "$build/bin/export" --model "$folder" --format hf --out "$out" >/dev/null &&
    "$build/bin/model_answers" "$folder" "$work/texts.json" "$work/answers" &&
    "${clients[@]}" python3 "$here/compare_export.py" "$out" "$work/answers" || failed=1
done
exit $failed
