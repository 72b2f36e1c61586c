#!/usr/bin/env bash
# Checks formats and lints. Goes on after a failure; exit code 0 only if all checks pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/phases.sh

shell_syntax() {
  local file status=0
  for file in scripts/*.sh .ci/run cmake/*.sh.in; do
    bash -n "$file" || status=1
  done
  return "$status"
}

phase 'shell syntax' shell_syntax
phase 'cargo fmt' cargo fmt --all --check
phase 'clippy: the core' cargo clippy --locked --no-default-features -- -D warnings
phase 'clippy: the core with the robot, tests and benchmarks' \
  cargo clippy --locked --workspace --no-default-features --features robocache/sim,robocache/replay \
  --all-targets -- -D warnings
needed_phase 'set-up' scripts/setup.sh --tests
phase 'ruff check' scripts/with_ros.sh ruff check .
phase 'ruff format' scripts/with_ros.sh ruff format --check .
# Clippy checks the ROS edge only if the messages are built, and the CUDA backend only with an nvcc. The
# examples have neither; they were checked above.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'build' scripts/build.sh
phase 'clippy: the ROS edge, the CUDA backend' scripts/with_ros.sh \
  sh build/robocache_ros/cargo.sh clippy --release --lib --bins --tests -- -D warnings
summary
