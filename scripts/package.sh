#!/usr/bin/env bash
# usage: scripts/package.sh [FOLDER]
# Writes Debian packages for this release of Debian, and an archive that runs on any Linux with this system's glibc or
# a newer one, to FOLDER [dist]. Libraries are compiled for three levels of x86-64, of which the system's loader takes
# the one that fits the processor: v2 (all since 2009), v3 (AVX2), v4 (AVX-512).
# DEBFULLNAME and DEBEMAIL say who maintains the packages.
set -euo pipefail
[ $# -le 1 ] && [[ ${1-} != -* ]] || { sed -n 2,6p "$0" >&2; exit 2; }
folder=$(realpath -m "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
scripts/packages.sh dpkg-dev file help2man libdnnl-dev ninja-build patchelf xz-utils

maintainer="${DEBFULLNAME:-The tapegrad authors} <${DEBEMAIL:-tapegrad@localhost}>"
build() {  # LEVEL TARGET…
  cmake -S . -B "build-package/v$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DTAPEGRAD_NATIVE=OFF \
    -DTAPEGRAD_MPI=OFF -DTAPEGRAD_BUILD_TESTS=OFF -DCMAKE_CXX_FLAGS="-march=x86-64-v$1" -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_SKIP_INSTALL_RPATH=ON -DCPACK_PACKAGE_CONTACT="$maintainer" >/dev/null
  cmake --build "build-package/v$1" --parallel "$(nproc)" --target "${@:2}"
}
install_part() { DESTDIR=$2 cmake --install "build-package/v$1" --component "$3" --strip >/dev/null; }  # LEVEL FOLDER COMPONENT
build 4 libraries
build 3 libraries
build 2 libraries static_libraries programs

base=$PWD/build-package/v2
version=$("$base/bin/tapegrad" --version | sed 's/^tapegrad \([0-9.]*\).*/\1/')
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
rm -rf "$base/man"
scripts/man_pages.sh "$base/bin/tapegrad" "$base/man"
gzip -9n "$base"/man/*
printf 'tapegrad (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of tapegrad-doc.\n\n -- %s  %s\n' \
  "$version" "$maintainer" "$(LC_ALL=C date -R -u -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$base/changelog.gz"

rm -rf "$base/glibc-hwcaps" "$base/packages" "$base/staged"
for level in 3 4; do
  install_part $level "$base/staged/v$level" libraries
  mkdir -p "$base/glibc-hwcaps/x86-64-v$level"
  mv "$base/staged/v$level/usr/lib"/*/lib*.so* "$base/glibc-hwcaps/x86-64-v$level"
done
(umask 022 && cd "$base" && cpack -B "$base/packages" >/dev/null)
mkdir -p "$folder"
mv "$base"/packages/*.deb "$folder"

# The archive: programs and libraries, and all that they load but glibc itself. What they need is looked for beside
# them; a library for a newer processor lies two folders below the others.
name=tapegrad-$version-linux-$(uname -m)
root=$folder/$name
rm -rf "$root"
install_part 2 "$base/staged" programs
install_part 2 "$base/staged" libraries
mkdir "$root"
cp -a "$base/staged/usr/bin" "$base/staged/usr/share" README.md LICENSE CHANGELOG.md "$root"
cp -a "$base/staged/usr/lib"/* "$root/lib"
openblas=$(sed -n 's/^OPENBLAS_LIBRARY:FILEPATH=//p' "$base/CMakeCache.txt").0
for library in "$openblas" $(ldd "$base/bin/tapegrad" "$openblas" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p' | sort -u); do
  case ${library##*/} in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libtapegrad_*) ;;
    *)
      cp -L "$library" "$root/lib"
      # dpkg knows some by /lib, which is /usr/lib.
      owner=$({ dpkg-query -S "$(realpath "$library")" || dpkg-query -S "${library#/usr}"; } 2>/dev/null | sed 's/:.*//;q' || true)
      [ -z "$owner" ] || cp -L "/usr/share/doc/$owner/copyright" "$root/share/doc/tapegrad/LICENSE.$owner"
      ;;
  esac
done
patchelf --set-rpath '$ORIGIN/../lib' "$root/bin/tapegrad"
for library in "$root"/lib/lib*.so.*; do [ -L "$library" ] || patchelf --set-rpath '$ORIGIN' "$library"; done
for library in "$root"/lib/glibc-hwcaps/*/lib*.so*; do [ -L "$library" ] || patchelf --set-rpath '$ORIGIN:$ORIGIN/../..' "$library"; done
tar -C "$folder" --owner=0 --group=0 --sort=name --mtime="@$SOURCE_DATE_EPOCH" -cJf "$folder/$name.tar.xz" "$name"
rm -rf "$root"
ls -l "$folder"
