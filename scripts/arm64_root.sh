#!/usr/bin/env bash
# usage: scripts/arm64_root.sh FOLDER
# Unpacks the libraries that tapegrad needs on arm64 into FOLDER, a new one, for cmake/aarch64.cmake and qemu-aarch64. Installed,
# they would have apt bring all libraries that the machine has in common with them to the same version.
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2p "$0" >&2; exit 2; }
mkdir -p "$1"
cd "$1"
[ -z "$(ls -A)" ] || { echo "$0: $1 is not empty" >&2; exit 1; }
mkdir -p apt/lists/partial apt/archives/partial
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$PWD/apt" -o Dir::Cache="$PWD/apt"
  -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Debug::NoLocking=true)
"${apt[@]}" update
"${apt[@]}" install --download-only --yes --no-install-recommends libopenblas-openmp-dev libfmt-dev libutf8proc-dev \
  zlib1g-dev libzstd-dev libpcre2-dev libedit-dev libprotobuf-dev catch2 libstdc++6
for package in apt/archives/*.deb; do
  case ${package##*/} in
    libc6-dev_* | linux-libc-dev_*) ;;  # the compiler has them
    *) dpkg-deb --extract "$package" . ;;
  esac
done
# Links of development files name the libraries in /lib.
find . -type l -lname '/*' | while IFS= read -r link; do ln -sfn "$PWD$(readlink "$link")" "$link"; done
rm -r apt
