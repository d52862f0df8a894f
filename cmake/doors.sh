#!/bin/sh
# usage: cmake/doors.sh NM OBJECTS DOORS
# Of the object files that the file OBJECTS names, writes to DOORS an option of the linker for each function of
# tapegrad's that they call and do not have: a call of it is a call of apps/first/not_built_yet.cpp's function.
set -eu
"$1" -P "@$2" | awk '
  $1 ~ /8tapegrad/ && $2 == "U" { called[$1] }
  $1 ~ /8tapegrad/ && $2 ~ /^[A-Zu]$/ && $2 != "U" { there[$1] }
  END { for (name in called) if (!(name in there)) print "-Wl,--defsym=" name "=tapegrad_not_built_yet" }' | sort >"$3.new"
# A table of virtual functions, or a variable, is no function.
if sed 's/.*defsym=//; s/=.*//' "$3.new" | c++filt | grep -v '('; then
  echo "cmake/doors.sh: the first program needs these, which no function stands for: see tapegrad_later()" >&2
  exit 1
fi
mv "$3.new" "$3"
