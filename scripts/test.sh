#!/usr/bin/env bash
# All tests. Runs on after a failure; exit code 0 only if everything passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/phases.sh

# The core needs no ROS: its tests come first and would fail first.
phase 'cargo test: the core' cargo test --locked --no-default-features
# The kernels are compiled for every chip; what needs a GPU says so and is skipped without one.
phase 'set-up of nvcc' scripts/cuda.sh
phase 'cargo test: the CUDA backend' cargo test --locked --no-default-features --features cuda \
  --lib --test backends
needed_phase 'set-up' scripts/setup.sh --tests
needed_phase 'build' scripts/build.sh
# With the build's own profile and folder: r2r is compiled once for both.
phase 'cargo test: the ROS edge' scripts/with_ros.sh \
  sh build/robocache_ros/cargo.sh test --release --lib --bins
phase 'pytest: the Python package' scripts/with_ros.sh \
  env SENSOR_SIM="$PWD/install/robocache_ros/lib/robocache_ros/sensor_sim" pytest -q python/tests
phase 'pytest: ROS processes' scripts/with_ros.sh pytest -q tests/ros
summary
