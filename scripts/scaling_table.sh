#!/usr/bin/env bash
# usage: scripts/scaling_table.sh [RANKS [OPTION…]]
# Prints tables as those of docs/scaling.md, with memory: what --plan predicts for 1, 2, 4 … RANKS [1024] machines at 10 and 100 Gbit/s
# and 50 us, for models of 124 M, 1.3 B and 7 B parameters, or for the one that the options of tapegrad train choose.
# Each machine has 32 threads, of 100 GFLOP/s each, and steps on 4 sequences of 1,024 tokens. Nothing is measured, so that
# every machine prints the same. TAPEGRAD names the program [build/bin/tapegrad].
set -euo pipefail
[[ ${1-} != -* ]] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
ranks=${1:-1024}
[ $# -eq 0 ] || shift

rows() {  # RATE OPTION…: the number of ranks, and four cells for each of two ways, between which there are bars
  "${TAPEGRAD:-build/bin/tapegrad}" train --plan --ranks "$ranks" --bandwidth "$1" --latency 50us --local-steps 50 \
    --comm-dtype bf16 --gflops 3200 --threads 32 --preset gpt2-124m --dtype f32 --block-size 1024 "${@:2}" |
    awk -F '  +' -v OFS='|' '/^scaling:/ { found = 1; next } found && $2 ~ /^[0-9]+$/ { print $2, $3, $4, $5, $6, $7, $8, $9, $10 }'
}

table() {  # NAME OPTION…
  local slow fast
  slow=$(rows 10Gbit "${@:2}")
  fast=$(rows 100Gbit "${@:2}")
  printf '| %s: ranks | sent in a step | memory | at 10 Gbit/s | at 100 Gbit/s | sent at a meeting | memory | at 10 Gbit/s | at 100 Gbit/s |\n' "$1"
  echo '|---|---|---|---|---|---|---|---|---|'
  paste -d '|' <(echo "$slow") <(echo "$fast") |
    awk -F '|' '{ printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $5, $4, $13, $6, $9, $8, $17 }'
}

if [ $# -gt 0 ]; then
  table 'one model' "$@"
  exit
fi
table '124 M'
echo
table '1.3 B' --n-layer 24 --n-head 16 --n-embd 2048
echo
table '7 B' --arch llama --n-layer 32 --n-head 32 --n-embd 4096 --n-inner 11008
