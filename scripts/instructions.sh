#!/usr/bin/env bash
# Counts instructions (benches/instructions.py) with the release build. If there is no valgrind, and this is root, it
# installs Debian's. If that is not possible, it says so and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/debian.sh valgrind
# cargo.sh adds the packages of the build, so that crates have the same features and are not compiled again.
sh build/robocache_ros/cargo.sh build -q -p robocache_core --example push_and_tick
exec python3 benches/instructions.py build/robocache_ros/cargo/release/examples/push_and_tick "$@"
