#!/usr/bin/env bash
# usage: scripts/arm64_run.sh ROOT COMMAND…
# Runs a command for which Linux starts programs for 64-bit ARM in qemu-aarch64, with the libraries that scripts/arm64_root.sh
# has unpacked into ROOT. A namespace of the command's own knows of qemu, so that the machine stays as it is: needs Linux 6.7.
set -euo pipefail
[ $# -gt 1 ] || { sed -n 2p "$0" >&2; exit 2; }
QEMU_LD_PREFIX=$(realpath "$1") QEMU=$(command -v qemu-aarch64)
export QEMU_LD_PREFIX QEMU
# The first 20 bytes of a program for ARM, and the bits of them that count. P: argv[0] stays as it is. The command has the
# rights of a user, as root has only its own id in a namespace.
exec unshare --map-root-user --mount sh -euc 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  printf ":aarch64:M::%s:%s:%s:P" "\x7fELF\x02\x01\x01$0" "$1" "$QEMU" >/proc/sys/fs/binfmt_misc/register; shift
  exec unshare --map-user=1000 --map-group=1000 "$@"' \
  '\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' \
  '\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff' "${@:2}"
