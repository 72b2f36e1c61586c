#!/usr/bin/env bash
# Formats and lints. Runs on after a failure; exit code 0 only if all is clean.
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
phase 'cargo fmt' cargo fmt --check
phase 'clippy: the core' \
  cargo clippy --locked --no-default-features --all-targets -- -D warnings
needed_phase 'set-up' scripts/setup.sh --tests
phase 'ruff check' scripts/with_ros.sh ruff check .
phase 'ruff format' scripts/with_ros.sh ruff format --check .
# Clippy sees the ROS edge only with the messages built, and the CUDA backend only with an nvcc.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'build' scripts/build.sh
phase 'clippy: everything' scripts/with_ros.sh \
  sh build/robocache_ros/cargo.sh clippy --release --all-targets -- -D warnings
summary
