#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/fine_tuning.sh [-b BUILD] [-n PAIRS] [-s STEPS] FOLDER TEXT
# Fine-tunes the model in FOLDER (Hugging Face's layout, with a tokenizer) on TEXT, in f32, with sequences
# of 256 tokens, four at a time: by train-gpt and by transformers' Trainer, in turns. Prints the medians
# of a step's time and of the peak of resident memory, and their ratios. What is on the machine besides
# makes the figures wrong.
set -euo pipefail
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
build=build pairs=3 steps=8
while getopts b:n:s: option; do
  case $option in
    b) build=$OPTARG ;;
    n) pairs=$OPTARG ;;
    s) steps=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -eq 2 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
folder=$(realpath "$1") text=$(realpath "$2")
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
if ! "${clients[@]}" python3 -c 'import accelerate, transformers' 2>/dev/null; then
  echo "skipped: Python's packages transformers and accelerate are not installed"
  exit 0
fi
cmake --build "$build" --target programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

middle() { sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

# Prints "MS MB": the median of a step's milliseconds but for the first two, and the peak.
ours() {
  /usr/bin/time -f '%M' -o "$work/peak" "$build/bin/train-gpt" --init-from "$folder" --corpus "$text" \
    --out-dir "$work/run" --overwrite --dtype f32 --batch-size 4 --block-size 256 --dropout 0 --max-iters "$steps" \
    --learning-rate 1e-4 --log-interval 1 --eval-interval 1000000 --eval-iters 1 --final-eval none \
    --no-sample >"$work/log"
  grep '^iter' "$work/log" | sed -nE 's/.*, ([0-9.]+) ms.*/\1/p' | tail -n +3 | middle |
    awk -v kb="$(tail -1 "$work/peak")" '{ print $1, kb / 1024 }'
}
theirs() {
  "${clients[@]}" python3 "$here/trainer.py" "$folder" "$text" --steps "$steps" 2>/dev/null |
    sed -nE 's/.*: ([0-9.]+) ms\/step .* peak ([0-9]+) MB.*/\1 \2/p'
}

echo "f32, $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(date +%F)"
a=() b=()
for _ in $(seq "$pairs"); do
  a+=("$(ours)")
  b+=("$(theirs)")
  echo "train-gpt ${a[-1]}, Trainer ${b[-1]} (ms, MB)"
done
column() { printf '%s\n' "${@:2}" | cut -d' ' -f"$1" | middle; }
awk -v ms="$(column 1 "${a[@]}")" -v mb="$(column 2 "${a[@]}")" -v peer_ms="$(column 1 "${b[@]}")" \
    -v peer_mb="$(column 2 "${b[@]}")" \
    'BEGIN { printf "a step: %.0f ms, Trainer %.0f ms: %.2f times as fast; memory: %.0f MB, Trainer %.0f MB: %.2f\n",
             ms, peer_ms, peer_ms / ms, mb, peer_mb, mb / peer_mb }'
