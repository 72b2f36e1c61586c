#!/usr/bin/env bash
# Runs what needs a build of its own, beside that of `make test`: of the release, the tests of the numbers and of the node,
# the counts of instructions, the wheel, a user's workspace, and the messages alone; and what a newcomer compiles, without
# CUDA. CONTRIBUTING.md says for which changes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
repo=$PWD
export ROBOCACHE_PROFILE=release
. scripts/ros_folders.sh
. scripts/phases.sh
. scripts/test_phases.sh

build_phases
cargo=$build_dir/robocache_ros/cargo.sh
phase 'instructions of pushes and ticks' scripts/with_ros.sh scripts/instructions.sh
# robocache_python has no tests of its own. Without it, crates would have other features than in the build, and cargo would
# compile most of them again.
tests=(sh "$cargo" test -p robocache_ops -p robocache_core -p robocache_data -p robocache_shared -p robocache_link -p robocache
  -p robocache_rcl -p robocache_python)
phase 'cargo test: compile' scripts/with_ros.sh "${tests[@]}" --no-run
phase 'cargo test' scripts/isolated.sh scripts/with_ros.sh python3 scripts/cargo_test.py "${tests[@]}"
phase 'downloads for the tests of the wheel' scripts/with_ros.sh scripts/wheel.sh --fetch
phase 'pytest: the Python package' scripts/with_ros.sh pytest -q "${workers[@]}" --dist=loadfile \
  tests/python/test_wheel.py tests/python/test_linkage.py tests/python/test_same_bits.py tests/python/test_pipeline.py
phase 'pytest: ROS processes' scripts/with_ros.sh pytest -q "${workers[@]}" --dist=loadgroup \
  tests/ros/test_colcon.py tests/ros/test_node.py tests/ros/test_live_equals_replay.py
phase 'clippy without CUDA' env ROBOCACHE_CUDA=off \
  scripts/with_ros.sh sh "$cargo" clippy --workspace --all-targets -- -D warnings
phase 'cargo test, as a newcomer: compile' cargo test --locked --no-run
phase 'cargo test, as a newcomer' scripts/isolated.sh python3 scripts/cargo_test.py cargo test --locked
summary
