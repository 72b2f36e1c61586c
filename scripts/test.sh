#!/usr/bin/env bash
# Runs all tests. Goes on after a failure; exit code 0 only if all tests pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
. scripts/phases.sh
. scripts/ros_phase.sh

# Phases of a run share the bound of flaky tests: tests/flaky.py.
ROBOCACHE_VERDICTS=$(mktemp -d)
export ROBOCACHE_VERDICTS
trap 'rm -rf "$ROBOCACHE_VERDICTS"' EXIT
scripts/isolated.sh --check

# Cargo compiles and downloads before its tests run, because they have no network.
# Tests that need neither ROS nor nvcc come first, as a newcomer runs them.
phase 'cargo test: compile' cargo test --locked --no-run
phase 'cargo test' scripts/isolated.sh python3 scripts/cargo_test.py cargo test --locked
# The rest runs on the build that ships: with CUDA, and with kernels for every chip.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'set-up' scripts/setup.sh --tests
limit_s=3600 needed_phase 'build' scripts/build.sh
# With the profile and the folder of the build, so that r2r and the kernels are compiled once. Tests of the CUDA backend
# need a GPU: benches/gpu.sh runs them.
# The Python package has no tests here. Without it, crates would have other features than in the build, and cargo would
# compile most of them again.
node=(sh build/robocache_ros/cargo.sh test --release -p robocache -p robocache_rcl -p robocache_python)
phase 'cargo test: the node: compile' scripts/with_ros.sh "${node[@]}" --no-run
phase 'cargo test: the node' scripts/isolated.sh scripts/with_ros.sh python3 scripts/cargo_test.py "${node[@]}"
# In the environment of the build: with another one, cargo would compile the kernels again.
phase 'instructions of pushes and ticks' scripts/with_ros.sh scripts/instructions.sh
phase 'set-up of a browser' scripts/browser.sh
phase 'downloads for the tests of the wheel' scripts/with_ros.sh scripts/wheel.sh --fetch
# A file's tests share what they set up, so they stay together.
phase 'pytest: the Python package' scripts/with_ros.sh \
  env SENSOR_SIM="$PWD/install/robocache_ros/lib/robocache_ros/sensor_sim" \
  pytest -q "${workers[@]}" --dist=loadfile --durations=5 tests/python
# Published data are no part of the repository: a folder has them.
[ -z "${ROBOCACHE_REAL_DATA:-}" ] || phase 'pytest: published data' scripts/test_real.sh
ros_phase
summary
