#!/usr/bin/env bash
# Runs all tests. Goes on after a failure; exit code 0 only if all tests pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/phases.sh

# Tests that need neither ROS nor nvcc come first, as a newcomer runs them.
phase 'cargo test' cargo test --locked
# The rest runs on the build that ships: with CUDA, and with kernels for every chip.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'set-up' scripts/setup.sh --tests
needed_phase 'build' scripts/build.sh
# With the profile and the folder of the build, so that r2r and the kernels are compiled once. Tests of the CUDA backend
# need a GPU: benches/gpu.sh runs them.
# The Python package has no tests here. Without it, crates would have other features than in the build, and cargo would
# compile most of them again.
phase 'cargo test: the node' scripts/with_ros.sh sh build/robocache_ros/cargo.sh test --release \
  -p robocache -p robocache_rcl -p robocache_python
# In the environment of the build: with another one, cargo would compile the kernels again.
phase 'instructions of pushes and ticks' scripts/with_ros.sh scripts/instructions.sh
phase 'set-up of a browser' scripts/browser.sh
# Two processes, because these tests mostly wait for one program at a time. A file's tests share what they set up, so
# they stay together.
phase 'pytest: the Python package' scripts/with_ros.sh \
  env SENSOR_SIM="$PWD/install/robocache_ros/lib/robocache_ros/sensor_sim" \
  pytest -q --numprocesses=2 --dist=loadfile --durations=5 tests/python
# Most of these tests wait, each in a ROS domain of its own, so two processes share them.
phase 'pytest: ROS processes' scripts/with_ros.sh \
  pytest -q --numprocesses=2 --dist=loadgroup --durations=10 -m 'not alone' tests/ros
phase 'pytest: ROS processes that need both cores' scripts/with_ros.sh pytest -q --durations=10 -m alone tests/ros
summary
