#!/usr/bin/env bash
# usage: network.sh [--rate 10gbit] [--latency 50us] [--mtu 9000] COMMAND…
# Runs COMMAND with Open MPI's mpirun as two processes that reach each other by a network alone, as two
# hosts would: each is in a network namespace of its own, with one end of a veth pair. --rate limits each
# direction (tc: tbf); --latency is the way from one to the other (tc: netem, which not every kernel has).
# Needs root. Nothing leaves the two namespaces, and both are gone at the end.
set -euo pipefail

rate='' latency='' mtu=''
while [ $# -gt 0 ]; do
  case $1 in
    --rate) rate=$2; shift 2 ;;
    --latency) latency=$2; shift 2 ;;
    --mtu) mtu=$2; shift 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }

here=tapegrad-$$-0 there=tapegrad-$$-1
folder=$(mktemp -d)
clean_up() {
  for namespace in "$here" "$there"; do
    ip netns pids "$namespace" 2>/dev/null | xargs -r kill -KILL || true
    ip netns delete "$namespace" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

for namespace in "$here" "$there"; do
  ip netns add "$namespace"
  ip -n "$namespace" link set lo up
done
ip -n "$here" link add veth0 type veth peer name veth0 netns "$there"
for end in "$here 10.77.0.1" "$there 10.77.0.2"; do
  read -r namespace address <<<"$end"
  ip -n "$namespace" address add "$address/24" dev veth0
  ip -n "$namespace" link set veth0 ${mtu:+mtu "$mtu"} up
  parent=root
  if [ -n "$rate" ]; then
    # A sender keeps no more in its own queue than a network card would take: then none is dropped. Packets
    # are of up to 64 kB, which a card would cut.
    ip netns exec "$namespace" sysctl -qw net.ipv4.tcp_limit_output_bytes=262144
    tc -n "$namespace" qdisc add dev veth0 root handle 1: tbf rate "$rate" burst 256kb limit 32mb
    parent='parent 1:1'
  fi
  if [ -n "$latency" ]; then
    # shellcheck disable=SC2086
    tc -n "$namespace" qdisc add dev veth0 $parent netem delay "$latency" limit 10000 2>"$folder/error" || {
      echo "network.sh: --latency needs the kernel's netem, which says: $(cat "$folder/error")" >&2
      exit 1
    }
  fi
done

# The program with which mpirun starts another host's processes, in place of ssh: agent HOST COMMAND…
cat >"$folder/agent" <<AGENT
#!/bin/sh
shift
exec ip netns exec $there unshare --uts sh -c "hostname other-host; \$*"
AGENT
chmod +x "$folder/agent"

status=0
ip netns exec "$here" mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
  --host 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$folder/agent" --mca plm rsh \
  --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include veth0 --mca oob_tcp_if_include veth0 \
  "$@" || status=$?
exit $status
