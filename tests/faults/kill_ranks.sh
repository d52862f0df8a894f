#!/usr/bin/env bash
# usage: tests/faults/kill_ranks.sh [KILLS [BUILD_FOLDER]]
# Kills a random rank of two, three or four at a random moment, resumes the run with another number of
# ranks, and compares its end with that of a run of one process that was never stopped: all files of
# the checkpoint must have the same bytes. 50 kills by default. Prints a line for each.
set -euo pipefail
kills=${1:-50}
build=$(realpath "${2:-build}")
cd "$(dirname "$0")/../.."
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat docs/*.md > "$work/text.txt"

options=(--corpus "$work/text.txt" --preset char-cpu --n-layer 2 --n-embd 32 --n-head 2 --block-size 32
  --batch-size 4 --dropout 0.1 --max-iters 400 --warmup-iters 10 --lr-decay-iters 400 --eval-interval 20
  --eval-iters 2 --gradient-accumulation-steps 12 --final-eval none --no-sample --threads 1)
"$build/bin/train-gpt" "${options[@]}" --out-dir "$work/whole" >"$work/log"

# All that a checkpoint holds but for the seconds that were spent.
sum_of() {
  (cd "$1" && cat model.safetensors optimizer.safetensors && grep -v '"seconds"' trainer.json) | sha256sum
}
expected=$(sum_of "$work/whole")

resumed=0 ended=0 restarted=0
for ((i = 1; i <= kills; ++i)); do
  ranks=$((2 + RANDOM % 3)) victim=$((RANDOM % ranks)) run=$work/run
  after=$(printf '%d.%03d' $((RANDOM % 5)) $((RANDOM % 1000)))
  rm -rf "$run"
  mpirun -n $ranks "$build/bin/train-gpt" "${options[@]}" --out-dir "$run" >"$work/log" 2>"$work/err" &
  launcher=$!
  sleep "$after"
  # Ranks are started in order.
  pids=($(pgrep -P $launcher -x train-gpt || true))
  if [ ${#pids[@]} -gt $victim ]; then kill -KILL "${pids[$victim]}"; else ended=$((ended + 1)); fi
  if wait $launcher; then how="had ended"; else how="was killed"; fi
  again=$((1 + RANDOM % 4))
  if [ -e "$run/trainer.json" ]; then
    step=$(grep -o '"iteration": [0-9]*' "$run/trainer.json" | grep -o '[0-9]*$')
    mpirun -n $again "$build/bin/train-gpt" --init-from resume --out-dir "$run" --threads 1 --no-sample \
      --final-eval none >"$work/log" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
  else  # it was too early for a checkpoint
    step=none restarted=$((restarted + 1))
    mpirun -n $again "$build/bin/train-gpt" "${options[@]}" --out-dir "$run" --overwrite >"$work/log" 2>"$work/err"
  fi
  if [ "$(sum_of "$run")" != "$expected" ]; then
    echo "kill $i: rank $victim of $ranks after $after s (it $how), resumed by $again at step $step: OTHER BITS" >&2
    exit 1
  fi
  resumed=$((resumed + 1))
  echo "kill $i: rank $victim of $ranks after $after s (it $how), gone on with by $again from step $step: the same bits"
done
echo "$resumed of $kills runs ended with the same bits; $restarted were killed before their first checkpoint, $ended too late or too early"
