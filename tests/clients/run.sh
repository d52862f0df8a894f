#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/run.sh [-b BUILD] FOLDER…
# Of each model folder in Hugging Face's layout: compares the ids that tapegrad makes with its tokenizer
# with those of Hugging Face's tokenizers, on 20,000 random strings and this project's documents; and,
# where FOLDER/../expected.safetensors has input_ids, logits, prompt and greedy, what its model computes.
# CLIENTS is put before each command of Python, where the package is in another root, for example.
set -euo pipefail
build=build
if [ "${1:-}" = -b ]; then build=$2; shift 2; fi
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
if ! "${clients[@]}" python3 -c 'import tokenizers' 2>/dev/null; then
  echo "skipped: Python's package tokenizers is not installed"
  exit 0
fi
cmake --build "$build" --target encode_texts compare_logits >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${clients[@]}" python3 "$here/compare_tokenizers.py" make "$work/texts.json" \
  --texts "$here"/../../docs/*.md "$here"/../../docs/tutorial/zh/*.md
failed=0
for folder; do
  "$build/bin/encode_texts" "$folder" "$work/texts.json" >"$work/ids"
  "${clients[@]}" python3 "$here/compare_tokenizers.py" judge "$(realpath "$folder")/tokenizer.json" \
    "$work/texts.json" "$work/ids" || failed=1
  if [ -e "$folder/../expected.safetensors" ]; then
    "$build/bin/compare_logits" "$folder" "$folder/../expected.safetensors" || failed=1
  fi
done
exit $failed
