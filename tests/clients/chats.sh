#!/usr/bin/env bash
# usage: [CLIENTS="COMMAND …"] tests/clients/chats.sh [-b BUILD] [-n COUNT] TEMPLATE.jinja|TOKENIZER_FOLDER…
# Renders COUNT (1,000) made-up conversations with each chat template, by tapegrad and by transformers, and compares
# texts, the parts that {% generation %} marks, and errors. Templates are others' works and not part of this project:
# those of llama.cpp's models/templates, for example. CLIENTS as in run.sh.
set -euo pipefail
build=build
count=1000
while getopts b:n: option; do
  case $option in b) build=$OPTARG ;; n) count=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
read -ra clients <<<"${CLIENTS:-}"
here=$(cd "$(dirname "$0")" && pwd)
if ! "${clients[@]}" python3 -c 'import jinja2, transformers' 2>/dev/null; then
  echo "skipped: Python's packages jinja2 and transformers are not installed"
  exit 0
fi
cmake --build "$build" --target render_chats >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compare() { "${clients[@]}" python3 "$here/compare_chats.py" "$@"; }
compare make "$work/cases" --count "$count"
judged=()
for template; do
  if [ -d "$template" ]; then
    compare extract "$(realpath "$template")" "$work/$(basename "$template").jinja"
    template=$work/$(basename "$template").jinja
  fi
  results=$work/${#judged[@]}.jsonl
  "$build/bin/render_chats" "$template" "$work/cases" "$results" | sed "s/^/$(basename "$template"): /"
  judged+=("$(realpath "$template")" "$results")
done
compare judge "$work/cases" "${judged[@]}"  # all at once: to load transformers takes longer than a template
