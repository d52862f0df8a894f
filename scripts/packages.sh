#!/usr/bin/env bash
# usage: scripts/packages.sh [EXTRA_PACKAGE…]
# Installs what tapegrad is built with, on Debian 12, Debian 13 or Ubuntu 24.04. Asks for sudo only if
# something is missing and you are not root.
set -euo pipefail

packages=(
  g++ cmake make
  libopenblas-openmp-dev  # matrix products
  libfmt-dev              # formatting
  nlohmann-json3-dev      # JSON files
  libutf8proc-dev         # Unicode classes
  zlib1g-dev libzstd-dev  # packed corpora
  libboost-dev            # HTTP, by Beast; checksums
  libpcre2-dev            # regular expressions of tokenizers
  libedit-dev             # lines that people edit
  libprotobuf-dev protobuf-compiler  # event files for TensorBoard
  catch2                  # tests
  "$@"
)

# Products of bf16 and of most floats, on processors where that pays.
if grep -qsw avx512f /proc/cpuinfo; then packages+=(libdnnl-dev); fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "This script knows Debian's apt-get only. Please install: ${missing[*]}" >&2
  exit 1
fi
echo "Installing: ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
