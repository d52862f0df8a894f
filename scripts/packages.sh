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
administrator() {  # says what somebody else has to run
  echo "$1 Please ask an administrator to run:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
}
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || administrator "Packages are missing, and there is no sudo."
  sudo -l env >/dev/null 2>&1 || administrator "Packages are missing, and sudo is refused."
  as_root=(sudo)
fi

echo "Installing: ${missing[*]}"
# Each server is tried once, for seconds: apt would go on for minutes where there is no network. One of several may be gone.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C RES_OPTIONS="timeout:2 attempts:2"
  apt-get -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10)
updated=$("${apt[@]}" update -q 2>&1) || true
if ! grep -q '^\(Hit\|Get\):' <<<"$updated"; then
  reason=$(grep -m 1 '^E: ' <<<"$updated" || grep -m 1 '^W: ' <<<"$updated" || echo "apt-get update failed")
  echo "No lists of packages can be fetched (${reason#[EW]: }). Packages are missing: ${missing[*]}" >&2
  exit 1
fi
"${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
