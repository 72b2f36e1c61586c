#!/usr/bin/env bash
# All tests. Runs on after a failure; exit code 0 only if everything passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/phases.sh

# The core needs no ROS: its tests come first and would fail first.
phase 'cargo test: the core' cargo test --locked --no-default-features
# What is tested is what ships: with CUDA, its kernels compiled for every chip.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'set-up' scripts/setup.sh --tests
needed_phase 'build' scripts/build.sh
# With the build's own profile and folder: r2r and the kernels are compiled once for both. What needs
# a GPU says so and is skipped without one.
phase 'cargo test: the ROS edge, the CUDA backend' scripts/with_ros.sh \
  sh build/robocache_ros/cargo.sh test --release --lib --bins --test backends
phase 'pytest: the Python package' scripts/with_ros.sh \
  env SENSOR_SIM="$PWD/install/robocache_ros/lib/robocache_ros/sensor_sim" pytest -q python/tests
phase 'pytest: ROS processes' scripts/with_ros.sh pytest -q tests/ros
summary
