#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/tasks.sh [-b BUILD] MODEL…
# Of each model folder in Hugging Face's layout: scores 160 made-up items of four tasks with evaluate --task, and with
# transformers by the rules of lm-evaluation-harness. Every choice, greedy match and text must be equal, and log-likelihoods
# to 1e-4 nats. CLIENTS is put before each command of Python: see setup.sh.
set -euo pipefail
build=build
while getopts b: option; do
  case $option in b) build=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
compare=("${clients[@]}" python3 "$(cd "$(dirname "$0")" && pwd)/compare_tasks.py")
if ! "${clients[@]}" python3 -c 'import torch, transformers' 2>/dev/null; then
  echo "skipped: Python's packages torch and transformers are not installed"
  exit 0
fi
cmake --build "$build" --target programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${compare[@]}" make "$work"
failed=0
for model; do
  for task in piqa winogrande lambada_openai texts; do
    name=$task
    [ "$task" != texts ] || name=$work/texts.json
    "$build/bin/tapegrad" evaluate "$model" --task "$name" --items "$work/$task.jsonl" \
      --per-item "$work/$task.lines.jsonl" --overwrite >/dev/null
  done
  "${compare[@]}" judge "$(realpath "$model")" "$work" || failed=1
done
exit $failed
