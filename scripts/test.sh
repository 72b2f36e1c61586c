#!/usr/bin/env bash
# Runs the tests that need no GPU, no PyTorch and no other build (scripts/test_release.sh), without the slow lane
# (scripts/slow.sh). Goes on after a failure; exit code 0 only if all tests pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
repo=$PWD
# With checks of arithmetic, also in the nodes that the tests start. Everything is compiled once: the node, the tests, and
# what Clippy needs of them.
export ROBOCACHE_PROFILE=dev
. scripts/ros_folders.sh
. scripts/phases.sh
. scripts/test_phases.sh

build_phases
cargo_phase
python_and_ros_phase
# Published data are no part of the repository: a folder has them.
[ -z "${ROBOCACHE_REAL_DATA:-}" ] || phase 'pytest: published data' scripts/test_real.sh
summary
