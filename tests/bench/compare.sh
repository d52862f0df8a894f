#!/usr/bin/env bash
# usage: tests/bench/compare.sh [-n PAIRS] [-d DTYPE] [CONFIGURATION…]
# Runs a training step here, in f32 or bf16, and PyTorch's, always in f32, by turns and prints
# medians and their ratios. Without a PyTorch (python3 that can import torch, or PEER="command that
# torch_step.py's arguments follow"), it prints tapegrad's alone. What is on the machine besides makes
# the figures wrong.
set -euo pipefail
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

pairs=3 dtype=f32
while getopts n:d: option; do
  case $option in
    n) pairs=$OPTARG ;;
    d) dtype=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- gpt2-b4t256 gpt2-b1t1024 gpt2-b4t64 char char-dropout char-cpu
if [ -z "${PEER:-}" ] && python3 -c 'import torch' 2>/dev/null; then
  PEER="python3 tests/bench/torch_step.py"
fi

steps_of() {  # enough for half a minute or so
  case $1 in
    char-cpu) echo 200 ;;
    gpt2-b4t64) echo 8 ;;
    *) echo 4 ;;
  esac
}
middle() { sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
ms_and_mb() { sed -nE 's/.*: ([0-9.]+) ms\/step .* peak ([0-9]+) MB.*/\1 \2/p'; }

echo "$dtype, $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(date +%F)"
printf '%-14s %10s %10s %8s %8s %8s %8s\n' "" "ms" "PyTorch" "speed" "MB" "PyTorch" "memory"
for configuration; do
  steps=$(steps_of "$configuration")
  ours=() theirs=()
  for _ in $(seq "$pairs"); do
    ours+=("$(build/bin/tapegrad bench step "$configuration" --dtype "$dtype" --steps "$steps" | ms_and_mb)")
    [ -z "${PEER:-}" ] || theirs+=("$($PEER "$configuration" --steps "$steps" | ms_and_mb)")
  done
  column() { printf '%s\n' "${@:2}" | cut -d' ' -f"$1" | middle; }
  ms=$(column 1 "${ours[@]}") mb=$(column 2 "${ours[@]}")
  if [ ${#theirs[@]} -eq 0 ]; then
    printf '%-14s %10.1f %10s %8s %8.0f\n' "$configuration" "$ms" - - "$mb"
    continue
  fi
  awk -v name="$configuration" -v ms="$ms" -v mb="$mb" \
      -v peer_ms="$(column 1 "${theirs[@]}")" -v peer_mb="$(column 2 "${theirs[@]}")" \
      'BEGIN { printf "%-14s %10.1f %10.1f %7.2fx %8.0f %8.0f %7.2fx\n", name, ms, peer_ms,
                      peer_ms / ms, mb, peer_mb, mb / peer_mb }'
done
