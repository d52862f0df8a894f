#!/usr/bin/env bash
# A job of Slurm that trains on all of its nodes, and goes on after a lost one:
#   sbatch --nodes 4 --cpus-per-task 32 examples/cluster/slurm.sh runs/mine --corpus my-texts/ --local-steps 50
# The first argument is the folder of the run, which all nodes must see; the others are options of tapegrad train,
# for a new run. Where the folder has a checkpoint, the job resumes it, and the options are the run's own.
# TAPEGRAD names the program [build/bin/tapegrad], LAUNCH what starts it on each node [srun with PMIx].
#SBATCH --job-name=tapegrad
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=INT@180
# --signal: the processes save a checkpoint three minutes before the time is over.
set -euo pipefail
[ $# -ge 1 ] && [[ $1 != -* ]] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
out=$1
shift

options=("$@")
if [ -e "$out/trainer.json" ] || [ -e "$out/checkpoint.ready" ]; then
  options=(--init-from resume)
elif [ -e "$out/config.json" ] && [ ! -e "$out/model.safetensors" ]; then
  options+=(--overwrite)  # a run that was lost before its first checkpoint
fi

# The step of the checkpoint; nothing if there is none. One whose files have not moved yet is the newer one.
step() {
  sed -n 's/^ *"iteration": \([0-9]*\).*/\1/p' "$out"/{checkpoint.ready/,}trainer.json 2>/dev/null | head -n 1 || true
}

# srun does not take the number of processors from the job (since Slurm 22.05). Without --kill-on-bad-exit, the
# others would wait for a killed process until they miss it.
read -ra launch <<<"${LAUNCH:-srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=${SLURM_CPUS_PER_TASK:-1}}"
before=$(step)
status=0
"${launch[@]}" "${TAPEGRAD:-build/bin/tapegrad}" train --out-dir "$out" "${options[@]}" || status=$?
after=$(step)

# A node is lost, or the time is over. Slurm requeues jobs whose nodes it misses itself, but the processes miss each
# other sooner, and end. A job without a checkpoint of a later step than it began with would fail again. The file's age
# does not tell: a run saves its first step again when it is resumed.
if [ $status -ne 0 ] && [ "${after:-0}" -gt "${before:-0}" ]; then
  echo "slurm.sh: the run ended with code $status, and goes on from its checkpoint of step $after"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
