#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/chat_masks.sh [-b BUILD] [-t] TOKENIZER…
# Of each folder with tokenizer.json and a chat template: compares the tokens of 1,000 conversations, and which of them are
# answers, with those of transformers, by the template as it is and with {% generation %} marks in it; and the loss of a small
# model's answers, packed here and one by one there. -t: the conversations have tools, calls and results, for templates that show
# them. CLIENTS is put before each command of Python: see setup.sh.
set -euo pipefail
build=build
tools=()
while getopts b:t option; do
  case $option in b) build=$OPTARG ;; t) tools=(--tools) ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
compare=("${clients[@]}" python3 "$here/compare_chat_masks.py")
if ! "${clients[@]}" python3 -c 'import torch, transformers' 2>/dev/null; then
  echo "skipped: Python's packages torch and transformers are not installed"
  exit 0
fi
cmake --build "$build" --target chat_masks programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${compare[@]}" make "$work/chats.jsonl" "${tools[@]}"
failed=0
for folder; do
  model=$work/$(basename "$folder")
  "${compare[@]}" mark "$(realpath "$folder")" "$model-marked"
  for made in "$(realpath "$folder")" "$model-marked"; do
    "$build/bin/chat_masks" "$made" "$work/chats.jsonl" >"$work/lines"
    "${compare[@]}" judge "$made" "$work/chats.jsonl" "$work/lines" || failed=1
  done
  "${compare[@]}" tiny "$model-marked" "$model"
  "$build/bin/tapegrad" evaluate "$model" --chat "$work/chats.jsonl" --block-size 8192 --batch-size 1 --json >"$work/evaluation"
  "${compare[@]}" loss "$model" "$work/chats.jsonl" "$work/lines" "$work/evaluation" || failed=1
done
exit $failed
