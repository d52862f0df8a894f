#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/run.sh [-b BUILD] [-t TEXT_FILE] MODEL…
# Of each model folder in Hugging Face's layout: compares the ids that tapegrad makes with its tokenizer
# with those of Hugging Face's tokenizers, on 20,000 random strings and this project's documents; and,
# where expected.safetensors, in the folder or beside it, has input_ids, logits, prompt and greedy, what its
# model computes. Then the way out, of these and of run folders: each model is exported, the export opened by
# transformers without a warning, and ids of all texts, logits and greedy text compared. TEXT_FILE is one more
# text. `tests/clients/run.sh tests/golden/hf_*` does all of this with the models of the tests.
# CLIENTS is put before each command of Python, where the packages are in another root, for example: see setup.sh.
set -euo pipefail
build=build
texts=()
while getopts b:t: option; do
  case $option in b) build=$OPTARG ;; t) texts+=("$OPTARG") ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
if ! "${clients[@]}" python3 -c 'import tokenizers, transformers' 2>/dev/null; then
  echo "skipped: Python's packages tokenizers and transformers are not installed"
  exit 0
fi
cmake --build "$build" --target encode_texts compare_logits model_answers programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${clients[@]}" python3 "$here/compare_tokenizers.py" make "$work/texts.json" \
  --texts "$here"/../../docs/*.md "$here"/../../docs/tutorial/zh/*.md "${texts[@]}"
failed=0
for model; do
  grep -qs '"model_type"' "$model/config.json" || continue
  "$build/bin/encode_texts" "$model" "$work/texts.json" >"$work/ids"
  "${clients[@]}" python3 "$here/compare_tokenizers.py" judge "$(realpath "$model")/tokenizer.json" \
    "$work/texts.json" "$work/ids" || failed=1
  for expected in "$model/expected.safetensors" "$model/../expected.safetensors"; do
    [ -e "$expected" ] || continue
    "$build/bin/compare_logits" "$model" "$expected" || failed=1
    break
  done
done
for model; do
  # Adapters without their model, as hf_llama_lora has them, are none.
  if [ -e "$model/adapter_config.json" ]; then echo "$model: skipped, adapters alone"; continue; fi
  out=$work/export/$(basename "$(dirname "$(realpath "$model")")")-$(basename "$model")
  if ! "$build/bin/tapegrad" export --model "$model" --format hf --out "$out" >/dev/null 2>"$work/error"; then
    echo "$model: not exported: $(cat "$work/error")"
    # A refusal that is right: transformers would give a Qwen another tokenizer than its folder's.
    grep -q "reads its tokenizer as Qwen2's" "$work/error" || failed=1
    continue
  fi
  "$build/bin/model_answers" "$model" "$work/texts.json" "$work/answers" &&
    "${clients[@]}" python3 "$here/compare_export.py" "$out" "$work/answers" || failed=1
done
exit $failed
