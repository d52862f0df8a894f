#!/usr/bin/env bash
# usage: tests/clients/setup.sh FOLDER [COMMAND…]
# Puts the programs that the other scripts here compare with into FOLDER, as packages of Debian sid (2 GB):
# transformers, tokenizers, accelerate, gguf, llama.cpp. A second time, it does nothing. With a COMMAND, runs it
# in that system, with this system's other folders (/home, /tmp and so on) at the same paths, and without a
# network. So the scripts find the programs if CLIENTS="tests/clients/setup.sh FOLDER" is set.
# Needs root, and for the first part debootstrap and Debian's mirror.
set -euo pipefail

packages=(python3-torch python3-transformers python3-tokenizers python3-safetensors python3-gguf python3-accelerate
  llama.cpp llama.cpp-tools libggml0-backend-blas libopenblas0-pthread)

fail() {
  echo "setup.sh: $1" >&2
  exit 1
}

# Installs Debian sid and the packages in folder $1, with the mirror and the proxy of this system's apt.
install_clients() {
  local root=$1 mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p)
  eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
  http_proxy=${http_proxy:-} debootstrap --variant=minbase --force-check-gpg --include=ca-certificates \
    sid "$root" "${mirror:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
    fail "debootstrap says $(tail -n 1 "$root.log")"
  apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99host"
  mount_system "$root"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    chroot "$root" sh -c 'apt-get update && apt-get install -y --no-install-recommends "$@" && apt-get clean' \
    sh "${packages[@]}" >>"$root.log" 2>&1 || fail "the packages could not be installed: see $root.log"
  touch "$root/.clients"
}

mount_system() {
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
}

# All folders at the top but those that a system has of its own.
mount_folders() {
  local root=$1 folder
  for folder in /*/; do
    folder=${folder%/}
    case $folder in
      /bin | /boot | /dev | /etc | /lib* | /lost+found | /proc | /run | /sbin | /sys | /usr | /var) continue ;;
    esac
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
  done
}

# Mounts are those of this process alone: they end with it, however it ends.
case ${1:-} in
  --install)
    install_clients "$2"
    exit
    ;;
  --run)
    root=$2
    shift 2
    mount_system "$root"
    mount_folders "$root"
    exec env HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin HF_HUB_OFFLINE=1 PYTHONNOUSERSITE=1 \
      chroot "$root" sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
    ;;
esac
[ $# -gt 0 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || fail "only root can install a system in a folder, and run a program there"
unshare --mount true 2>/dev/null || fail "this system allows no mounts"
mkdir -p "$1"
root=$(realpath "$1")
shift
if [ ! -e "$root/.clients" ]; then
  [ -z "$(ls -A "$root")" ] || fail "$root is not empty, and has no system that is complete: choose another folder"
  command -v debootstrap >/dev/null || fail "debootstrap is not installed"
  unshare --mount "$0" --install "$root"
fi
if [ $# -gt 0 ]; then exec unshare --mount --net "$0" --run "$root" "$@"; fi
echo "installed: export CLIENTS=\"$0 $root\", then tests/clients/run.sh, llama_cpp.sh or fine_tuning.sh"
