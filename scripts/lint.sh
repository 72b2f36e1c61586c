#!/usr/bin/env bash
# Checks formats and lints. Goes on after a failure; exit code 0 only if all checks pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/phases.sh

shell_syntax() {
  local file status=0
  for file in scripts/*.sh docker/*.sh .ci/run cmake/*.sh.in; do
    bash -n "$file" || status=1
  done
  return "$status"
}

phase 'shell syntax' shell_syntax
phase 'cargo fmt' cargo fmt --all --check
phase 'what crates import' python3 scripts/layers.py
needed_phase 'set-up' scripts/setup.sh --tests
phase 'ruff check' scripts/with_ros.sh ruff check .
phase 'ruff format' scripts/with_ros.sh ruff format --check .
phase 'hadolint' scripts/with_ros.sh hadolint Dockerfile tests/image/standin.Dockerfile
# One Clippy for everything, with every feature. It needs the messages for the node, and an nvcc for the CUDA twins. So
# the build comes first. Clippy uses its profile and folder, so that build scripts run once.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'build' scripts/build.sh
phase 'clippy' scripts/with_ros.sh sh build/robocache_ros/cargo.sh clippy --release --workspace --all-targets \
  --features robocache_bench/ros -- -D warnings
summary
