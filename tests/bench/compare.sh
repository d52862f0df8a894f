#!/usr/bin/env bash
# usage: tests/bench/compare.sh [-n PAIRS] [-d DTYPE] [--as-it-comes] [CONFIGURATION…]
# Runs a training step here, in f32, bf16 or int8, and PyTorch's in f32 and in bf16, by turns, and prints medians: how much
# faster it is here than PyTorch in the better of its two, and the memory beside that one. PyTorch gets a thread for each core
# and a malloc that keeps its memory: where page faults are slow, its step takes several times as long without.
# --as-it-comes adds a column of that, in f32.
# Without a PyTorch (python3 that can import torch, or PEER="command that torch_step.py's arguments follow"), it prints
# tapegrad's alone. What is on the machine besides makes the figures wrong.
set -euo pipefail
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

pairs=3 dtype=f32 plain=
for word; do
  shift
  if [ "$word" = --as-it-comes ]; then plain=1; else set -- "$@" "$word"; fi
done
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
read -ra peer <<<"${PEER:-}"
keeps=glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:glibc.malloc.mmap_max=0
well_set=(env "OMP_NUM_THREADS=$(nproc)" "OPENBLAS_NUM_THREADS=$(nproc)" "GLIBC_TUNABLES=$keeps")

steps_of() {  # enough for half a minute or so
  case $1 in
    char-cpu) echo 200 ;;
    gpt2-b4t64) echo 8 ;;
    *) echo 4 ;;
  esac
}
middle() { sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
ms_and_mb() { sed -nE 's/.*: ([0-9.]+) ms\/step .* peak ([0-9]+) MB.*/\1 \2/p'; }
column() { printf '%s\n' "${@:2}" | cut -d' ' -f"$1" | middle; }

echo "$dtype, $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(date +%F)"
printf '%-14s %10s %12s %12s %8s %8s %8s %8s%s\n' "" "ms" "PyTorch f32" "PyTorch bf16" "speed" "MB" "PyTorch" "memory" \
  "${plain:+   f32 as it comes}"
for configuration; do
  steps=$(steps_of "$configuration")
  ours=() f32=() bf16=() as_it_comes=()
  for _ in $(seq "$pairs"); do
    ours+=("$(build/bin/tapegrad bench step "$configuration" --dtype "$dtype" --steps "$steps" | ms_and_mb)")
    [ ${#peer[@]} -gt 0 ] || continue
    step=("${peer[@]}" "$configuration" --steps "$steps")
    f32+=("$("${well_set[@]}" "${step[@]}" | ms_and_mb)")
    bf16+=("$("${well_set[@]}" "${step[@]}" --dtype bf16 | ms_and_mb)")
    [ -z "$plain" ] || as_it_comes+=("$("${step[@]}" | ms_and_mb)")
  done
  ms=$(column 1 "${ours[@]}") mb=$(column 2 "${ours[@]}")
  if [ ${#peer[@]} -eq 0 ]; then
    printf '%-14s %10.1f %12s %12s %8s %8.0f\n' "$configuration" "$ms" - - - "$mb"
    continue
  fi
  awk -v name="$configuration" -v ms="$ms" -v mb="$mb" -v f32="$(column 1 "${f32[@]}")" -v f32_mb="$(column 2 "${f32[@]}")" \
      -v bf16="$(column 1 "${bf16[@]}")" -v bf16_mb="$(column 2 "${bf16[@]}")" \
      -v plain="${plain:+$(column 1 "${as_it_comes[@]}")}" \
      'BEGIN { best = f32 < bf16 ? f32 : bf16; best_mb = f32 < bf16 ? f32_mb : bf16_mb
               printf "%-14s %10.1f %12.1f %12.1f %7.2fx %8.0f %8.0f %7.2fx", name, ms, f32, bf16, best / ms, mb, best_mb, mb / best_mb
               if (plain != "") printf " %17.1f", plain
               print "" }'
done
