#!/usr/bin/env bash
# Counts instructions (benches/instructions.py) with the release build. If there is no valgrind, and this is root, it
# installs Debian's. If that is not possible, it says so and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v valgrind >/dev/null; then
  { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } ||
    { echo 'expected valgrind, found none: apt install valgrind' >&2; exit 1; }
  install=(timeout 120 apt-get -qq -y --no-install-recommends install valgrind)
  export DEBIAN_FRONTEND=noninteractive
  "${install[@]}" >/dev/null 2>&1 || { timeout 60 apt-get -qq update && "${install[@]}"; } >/dev/null
fi
# cargo.sh adds the packages of the build, so that crates have the same features and are not compiled again.
sh build/robocache_ros/cargo.sh build --release -q -p robocache_core --example push_and_tick
exec python3 benches/instructions.py build/robocache_ros/cargo/release/examples/push_and_tick "$@"
