#!/usr/bin/env bash
# usage: scripts/abi.sh [COMMIT]
# Compares what the shared libraries offer by installed headers with what they offered at COMMIT [the last version's
# tag]. It fails if something was removed or changed, and the second number of the version was not.
set -euo pipefail
[ $# -le 1 ] && [[ ${1-} != -* ]] || { sed -n 2,4p "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
before=${1:-$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null || true)}
[ -n "$before" ] || { echo "no version has a tag yet: there is nothing to compare with"; exit 0; }
number() { sed -nE 's/.*define TAPEGRAD_VERSION "([0-9]+\.[0-9]+)\..*/\1/p'; }
was=$(git show "$before:base/version.h" | number)
is=$(number <base/version.h)
[ "$was" = "$is" ] || { echo "$before is version $was, this is $is: interfaces may differ"; exit 0; }
scripts/packages.sh abigail-tools ninja-build universal-ctags

mkdir -p build-abi
rm -rf build-abi/sources build-abi/installed
mkdir build-abi/sources
git archive "$before" | tar -xm -C build-abi/sources  # newer than what another version left
build() {  # SOURCES NAME
  cmake -S "$1" -B "build-abi/$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=ON -DTAPEGRAD_NATIVE=OFF \
    -DTAPEGRAD_MPI=OFF -DTAPEGRAD_BUILD_APPS=OFF -DTAPEGRAD_BUILD_TESTS=OFF >/dev/null
  cmake --build "build-abi/$2" --parallel "$(nproc)"
  cmake --install "build-abi/$2" --prefix "$PWD/build-abi/installed/$2" >/dev/null
}
build build-abi/sources before
build . now

# Functions are compared whose qualified name an installed header has: internal headers may change.
old=build-abi/installed/before new=build-abi/installed/now
ctags -R -x --languages=C++ --langmap=C++:.h --kinds-C++=pf --_xformat='%s::%N' $old/include | sed 's/operator /operator/' |
  sort -u >build-abi/declared
for library in $(find $old -name 'libtapegrad_*.so' | sort); do
  # Weak ones come and go with the sources that use a header's template, or do not inline a function.
  nm -D --defined-only "$library" | awk '$2 !~ /[VWuw]/ { print $3 }' >build-abi/symbols
  # Without parameters and arguments of templates; before the name of a template's instance stands its return type.
  c++filt -p <build-abi/symbols | sed -E ':next s/<[^<>]*>//; t next; s/\[abi:[^]]*\]//g; s/.* //' >build-abi/names
  { echo "[abi_whitelist]"
    paste -d' ' build-abi/symbols build-abi/names |
      awk 'NR == FNR { declared[$0]; next } $2 in declared { print $1 }' build-abi/declared -; } >build-abi/compared
  echo "${library##*/}: $(($(wc -l <build-abi/compared) - 1)) functions"
  abidiff --no-added-syms --kmi-whitelist build-abi/compared --headers-dir1 $old/include --headers-dir2 $new/include \
    "$library" "${library/$old/$new}" || failed=yes
done
[ -z "${failed-}" ] || { echo "bring back what was in $was, or change the second number of the version" >&2; exit 1; }
