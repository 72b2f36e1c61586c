#!/usr/bin/env bash
# Runs the tests that need no GPU, no PyTorch and no other build (scripts/test_release.sh), without the slow lane
# (scripts/slow.sh). Goes on after a failure; exit code 0 only if all tests pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
repo=$PWD
# With checks of arithmetic, also in the nodes that the tests start. Everything is compiled once: the node, the tests, and
# what Clippy needs of them.
export ROBOCACHE_PROFILE=dev
. scripts/ros_folders.sh
. scripts/phases.sh
. scripts/test_phases.sh

share_verdicts
# With CUDA, whose code is tested without a GPU. Tests of the CUDA backend need one: benches/gpu.sh runs them.
phase 'set-up of nvcc' scripts/cuda.sh
needed_phase 'set-up' scripts/setup.sh --tests
limit_s=3600 needed_phase 'build' scripts/build.sh
cargo_phase
python_and_ros_phase
# Published data are no part of the repository: a folder has them.
[ -z "${ROBOCACHE_REAL_DATA:-}" ] || phase 'pytest: published data' scripts/test_real.sh
summary
