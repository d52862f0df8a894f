#!/usr/bin/env bash
# usage: [TAPEGRAD_NODE_MODULES=FOLDER] [DTYPE=f16|q8_0] tests/clients/onnx.sh [-b BUILD] MODEL…
# Exports models and runs to ONNX, and compares each with what it answers here: logits by onnxruntime-node, with and without a
# past and behind padding, and greedy text by transformers.js; and so of runs of seq2seq. FOLDER is the node_modules that has both
# (npm install --ignore-scripts @huggingface/transformers onnxruntime-node). Where Python has the package onnx (Debian's
# python3-onnx), its checker judges the graphs, too. Without these, it is skipped.
set -euo pipefail
build=build
[ "${1:-}" != -b ] || { build=$2; shift 2; }
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
modules=${TAPEGRAD_NODE_MODULES:-$here/node_modules}
if ! command -v node >/dev/null || [ ! -d "$modules/onnxruntime-node" ] || [ ! -d "$modules/@huggingface/transformers" ]; then
  echo "skipped: onnxruntime-node and @huggingface/transformers are not installed in $modules"
  exit 0
fi
cmake --build "$build" --target model_answers programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '[]' >"$work/texts.json"
tolerance=1e-4
case ${DTYPE:=f32} in f16) tolerance=0.1 ;; q8_0) tolerance=4 ;; esac  # of 8 bits: no more than that it runs
failed=0
for model; do
  out=$work/$(basename "$(realpath "$model")")
  "$build/bin/tapegrad" export --model "$model" --format onnx --dtype "$DTYPE" --out "$out" >/dev/null
  "$build/bin/model_answers" "$model" "$work/texts.json" "$work/answers"
  client=onnx_client.mjs
  ! compgen -G "$out/onnx/encoder_model*.onnx" >/dev/null || client=onnx_pairs_client.mjs
  TAPEGRAD_NODE_MODULES=$(realpath "$modules") node "$here/$client" "$out" "$work/answers" "$tolerance" || failed=1
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import onnx' 2>/dev/null || continue
    "$python" -c 'import glob, sys, onnx; [onnx.checker.check_model(f, full_check=True) for f in glob.glob(sys.argv[1])]' \
      "$out/onnx/*.onnx" || failed=1
    break
  done
  rm -r "$out"
done
exit $failed
