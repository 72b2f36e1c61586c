#!/usr/bin/env bash
# Runs all tests. Goes on after a failure; exit code 0 only if all tests pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/phases.sh

# The core needs no ROS, so its tests come first.
phase 'cargo test: the core, the benchmarks' \
  cargo test --locked --workspace --no-default-features --features robocache/sim,robocache/replay
# The tests run on the build that ships: with CUDA, and with kernels for every chip.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'set-up' scripts/setup.sh --tests
needed_phase 'build' scripts/build.sh
# With the profile and the folder of the build, so that r2r and the kernels are compiled once. If
# there is no GPU, tests that need one are skipped and say so. The digests were compared on the CPU above;
# benches/gpu.sh compares them on a GPU.
phase 'cargo test: the ROS edge, the CUDA backend' scripts/with_ros.sh \
  sh build/robocache_ros/cargo.sh test --release --lib --test backends --test rcl
phase 'set-up of a browser' scripts/browser.sh
phase 'pytest: the Python package' scripts/with_ros.sh \
  env SENSOR_SIM="$PWD/install/robocache_ros/lib/robocache_ros/sensor_sim" pytest -q python/tests
phase 'pytest: ROS processes' scripts/with_ros.sh pytest -q --durations=15 tests/ros
summary
