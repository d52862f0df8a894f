#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/llama_cpp.sh [-b BUILD] [-p PROMPT] [-n TOKENS] MODEL…
# Of each model (a run folder, a folder in Hugging Face's layout, a GGUF file): writes it in GGUF as f32, f16,
# bf16 and q8_0, and compares the greedy text of llama.cpp with that of sample-text for each file: PROMPT and
# TOKENS must fit the model's positions, beyond which they part. And the tensors of q8_0 with those that
# llama-quantize makes of the f32 file, byte by byte. Returns 1 if a text in f32, or a tensor, differs:
# llama.cpp rounds activations, too, where weights are not f32.
# CLIENTS is put before each command of llama.cpp's and of Python (with the package gguf).
set -euo pipefail
build=build prompt="The" tokens=24
while getopts b:p:n: option; do
  case $option in b) build=$OPTARG ;; p) prompt=$OPTARG ;; n) tokens=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
if ! "${clients[@]}" sh -c 'command -v llama-completion' >/dev/null 2>&1; then
  echo "skipped: llama.cpp is not installed"
  exit 0
fi
cmake --build "$build" --target programs >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

ours() {
  "$build/bin/sample-text" --model "$1" --prompt "$prompt" --greedy --max-new-tokens "$tokens" 2>/dev/null
}
# f32 in the cache and no flash attention: as near to the file's own numbers as llama.cpp computes. One thread,
# since its threads spin while they wait.
theirs() {
  "${clients[@]}" llama-completion -m "$1" -p "$prompt" -n "$tokens" --temp 0 -no-cnv --no-display-prompt --special \
    -t 1 -ctk f32 -ctv f32 -fa off --no-warmup --no-escape 2>"$work/log" </dev/null
}
# Both texts without the newlines behind them. llama.cpp writes bytes that are not UTF-8 as they are, and ends a
# text at more tokens than the one that the file names, such as <|im_end|>.
judge() {
  python3 - "$work/ours" "$work/theirs" "$prompt" <<'EOF'
import sys
ours, theirs = (open(path, "rb").read() for path in sys.argv[1:3])
theirs = theirs.removesuffix(b" [end of text]\n\n\n").removesuffix(b"\n\n").decode("utf-8", "replace")
ours = ours.removesuffix(b"\n").decode().removeprefix(sys.argv[3])
same = "equal" if ours == theirs else "equal, llama.cpp ends sooner" if theirs and ours.startswith(theirs) else "DIFFER"
print(f"{len(theirs.encode())} bytes of text: {same}")
if same == "DIFFER":
    print(f"  ours   {ours[:150]!r}\n  theirs {theirs[:150]!r}")
    sys.exit(1)
EOF
}

for model; do
  for type in f32 f16 bf16 q8_0; do
    "$build/bin/tapegrad" export --model "$model" --format gguf --dtype $type --out "$work/$type.gguf" >/dev/null
    ours "$work/$type.gguf" >"$work/ours"
    theirs "$work/$type.gguf" >"$work/theirs" || { tail -n 3 "$work/log" >&2; failed=1; }
    echo "$model: $type, $(stat -c %s "$work/$type.gguf") bytes"
    judge || [ $type != f32 ] || failed=1
  done
  "${clients[@]}" llama-quantize "$work/f32.gguf" "$work/theirs.gguf" Q8_0 >"$work/log" 2>&1
  "${clients[@]}" python3 - "$work/q8_0.gguf" "$work/theirs.gguf" <<'EOF' || failed=1
import sys
from gguf import GGUFReader
ours, theirs = ({t.name: t for t in GGUFReader(path).tensors} for path in sys.argv[1:])
wrong = [n for n in ours if n not in theirs or ours[n].tensor_type != theirs[n].tensor_type
         or ours[n].data.tobytes() != theirs[n].data.tobytes()]
wrong += [n for n in theirs if n not in ours]
print(f"  q8_0 against llama-quantize: {len(ours)} tensors, {len(wrong)} differ {wrong[:3] if wrong else ''}")
sys.exit(bool(wrong))
EOF
  rm -f "$work"/*.gguf
done
exit $failed
