#!/usr/bin/env bash
# usage: scripts/man_pages.sh PROGRAM FOLDER
# Writes the pages that `man tapegrad` and `man tapegrad-train` show to FOLDER, from what PROGRAM --help says.
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2,3p "$0" >&2; exit 2; }
program=$1 folder=$2
version=$("$program" --version | sed -E 's/^[^ ]* ([0-9.]+).*/\1/')
mkdir -p "$folder"

page() {  # NAME SUMMARY COMMAND…; help2man writes `tapegrad` where the page is of `tapegrad train`
  local help=--help
  [ $# -eq 3 ] || help="--help all"
  help2man --no-info --locale=C.UTF-8 --help-option="$help" --version-string="$version" --name="$2" "${*:3}" |
    sed "s/^\\.TH [^ ]* /.TH ${1^^} /; /^\\.SH NAME/{n;s/.* \\\\- /${1//-/\\\\-} \\\\- /}" >"$folder/$1.1"
}
page tapegrad "train GPTs on CPUs, and use them" "$program"
while IFS='|' read -r command summary other; do
  page "tapegrad-$command" "$summary" "$program" "$command"
  [ -z "$other" ] || echo ".so man1/tapegrad-$command.1" >"$folder/$other.1"
done < <("$program" --help | sed -nE '/^Examples/q; s/^  ([a-z0-9]+)  +([^[]*[^[ ])( \[(.*)\])?$/\1|\2|\4/p')
