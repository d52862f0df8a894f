#!/usr/bin/env bash
# usage: tests/fuzz/run.sh BUILD_FOLDER [--long SECONDS] [TARGET…]
# Runs fuzz targets, each on one processor; all of them if none is named. BUILD_FOLDER was configured
# with clang++ and -DTAPEGRAD_FUZZ=ON, and `fuzz` was built. Each target tries its seeds, then inputs
# made of them, 5,000 in all: the same ones every time, so a change breaks this or it does not.
# Prints a line of counts for each target. A finding ends the script with an error, its input is kept
# in BUILD_FOLDER/findings, and `BUILD_FOLDER/bin/fuzz_TARGET INPUT` repeats it. An input that has
# failed becomes a seed.
# --long searches for SECONDS per target, draws other inputs each time, and keeps what it has found
# out for the next time, in BUILD_FOLDER/corpus.
set -euo pipefail
[ $# -gt 0 ] || { sed -n 2,10p "$0" >&2; exit 2; }
build=$(realpath "$1")
shift
cd "$(dirname "$0")"
long=
# Inputs follow from the seed alone where neither addresses nor times steer the search.
search=(-seed=1 -runs=5000 -reload=0 -entropic=0 -use_cmp=0 -len_control=0)
fixed=()
if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
if [ "${1:-}" = --long ]; then
  search=(-seed=0 -max_total_time="$2") long=yes fixed=()
  shift 2
fi
options="${search[*]}" prefix="${fixed[*]}"  # bash exports no lists
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls seeds)

for target in "${targets[@]}"; do
  [ -x "$build/bin/fuzz_$target" ] || { echo "$build/bin/fuzz_$target is not built" >&2; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$build/findings"

fuzz() {
  local target=$1 corpus=$work/$1 log=$work/$1.log code=0
  [ -z "$long" ] || corpus=$build/corpus/$target
  mkdir -p "$corpus" "$work/in-$target"
  # In an empty folder: inputs may name files. No input may take half a gigabyte at once or one
  # in all, or a minute and a half: other programs may keep the machine busy.
  (cd "$work/in-$target" && ulimit -c 0 && exec $prefix "$build/bin/fuzz_$target" "$corpus" "$OLDPWD/seeds/$target" \
    $options -timeout=90 -rss_limit_mb=1024 -malloc_limit_mb=512 -max_len=8192 \
    -close_fd_mask=1 -print_final_stats=1 -artifact_prefix="$build/findings/$target-") \
    >"$log" 2>&1 || code=$?
  awk -v target="$target" -v code="$code" '
    /number_of_executed_units/ { n = $2 } /average_exec_per_sec/ { rate = $2 } /peak_rss_mb/ { mb = $2 }
    / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
    END { printf "%-12s %9d inputs, %6d a second, %4d MB, %5d edges, %s\n", target, n, rate, mb, cov,
          code == 0 ? "no finding" : "A FINDING" }' "$log"
  [ "$code" = 0 ] || { tail -n 40 "$log" >&2; return 1; }
}
export -f fuzz
export build work long options prefix
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'set -euo pipefail; fuzz {}'
