#!/usr/bin/env bash
# Runs a command in mount, network and IPC namespaces of its own: `scripts/isolated.sh COMMAND [ARGUMENT...]`.
#
# It has an empty /dev/shm and /tmp/iceoryx2, and a loopback interface that nobody else uses. So neither the files of
# killed processes nor the ports of other processes reach it. Cargo and pip are offline, because nothing outside is
# reached. The ports that Linux assigns by itself are below those of the ROS domains from 100 on.
#
# `scripts/isolated.sh --check` only says if this machine gives no namespaces. Then commands run without them, and
# tests/private_domain.py removes what killed processes left.
set -euo pipefail

inside='
mount -t tmpfs tmpfs /dev/shm
mkdir -p /tmp/iceoryx2
mount -t tmpfs -o mode=0700 tmpfs /tmp/iceoryx2
python3 -S -E -c "
import fcntl, socket, struct
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    flags, = struct.unpack_from(\"16xH\", fcntl.ioctl(probe, SIOCGIFFLAGS, struct.pack(\"16s24x\", b\"lo\")))
    fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack(\"16sH22x\", b\"lo\", flags | IFF_UP))
"
echo 16384 32000 2>/dev/null >/proc/sys/net/ipv4/ip_local_port_range || : # in some containers it cannot be set
exec "$@"'

options=()
for candidate in '' --map-root-user; do
  # shellcheck disable=SC2086 # no word or one
  if unshare --mount --net --ipc --propagation private $candidate sh -ec "$inside" sh true 2>/dev/null; then
    # shellcheck disable=SC2206 # a list
    options=(unshare --mount --net --ipc --propagation private $candidate)
    break
  fi
done
if [ "${1:-}" = --check ]; then
  [ ${#options[@]} -gt 0 ] || echo 'isolated: warning: this machine gives no namespaces (unshare), so other programs' \
    'and the files of killed processes may disturb the tests' >&2
  exit
fi
[ ${#options[@]} -gt 0 ] || exec "$@"
export CARGO_NET_OFFLINE=true PIP_NO_INDEX=1 ROBOCACHE_ISOLATED=1
exec "${options[@]}" sh -ec "$inside" sh "$@"
