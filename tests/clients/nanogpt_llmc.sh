#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/nanogpt_llmc.sh [-b BUILD] [-n NANOGPT] [-l LLM.C] MODEL…
# Exports each model for nanoGPT and for llm.c, as far as they can express it, and compares logits, greedy tokens and
# their text with those of their own code: nanoGPT's model.py in the folder NANOGPT, and llm.c's train_gpt2.c in LLM.C,
# which gcc compiles. Where one of the folders is not given, or torch or gcc is not installed, that half is skipped.
# CLIENTS is put before each command of Python: see setup.sh.
set -euo pipefail
build=build nanogpt='' llmc=''
while getopts b:n:l: option; do
  case $option in b) build=$OPTARG ;; n) nanogpt=$(realpath "$OPTARG") ;; l) llmc=$(realpath "$OPTARG") ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
if ! "${clients[@]}" python3 -c 'import torch, safetensors' 2>/dev/null; then
  echo "skipped: Python's packages torch and safetensors are not installed"
  exit 0
fi
cmake --build "$build" --target model_answers programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '[]' >"$work/texts.json"
if [ -n "$llmc" ] && command -v gcc >/dev/null; then
  gcc -O2 -w -I "$llmc" -o "$work/llmc_answers" "$here/llmc_answers.c" -lm
else
  echo "skipped: llm.c, without -l or gcc"
  llmc=''
fi
[ -n "$nanogpt" ] || echo "skipped: nanoGPT, without -n"
failed=0
# Exports the model $1 as $2, and compares with the source $3.
compare() {
  local out
  out=$work/$2/$(basename "$(dirname "$(realpath "$1")")")-$(basename "$1")
  if ! "$build/bin/tapegrad" export --model "$1" --format "${2/llmc/llm.c}" --out "$out" >/dev/null 2>"$work/error"; then
    echo "$1: not exported: $(cat "$work/error")"
  else
    "${clients[@]}" python3 "$here/compare_sources.py" "$2" "$3" "$out" "$work/answers" 2>"$work/error" ||
      { failed=1; tail -n 3 "$work/error" >&2; }
  fi
}
for model; do
  "$build/bin/model_answers" "$model" "$work/texts.json" "$work/answers"
  if [ -n "$nanogpt" ]; then compare "$model" nanogpt "$nanogpt"; fi
  if [ -n "$llmc" ]; then compare "$model" llmc "$work/llmc_answers"; fi
done
exit $failed
