#!/usr/bin/env bash
# Sets up what is missing and builds the release into build/ and install/; with ROBOCACHE_PROFILE=dev, all that `make
# test` tests into build/dev and install/dev. It builds with CUDA if there is an nvcc. If there is only a GPU,
# scripts/cuda.sh first installs an nvcc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repo=$PWD
. scripts/ros_folders.sh

scripts/setup.sh
. "$ros_dir/env.sh"
# Runs in the environment of the build, so that both find the same nvcc.
scripts/cuda.sh prepare
if [ ! -d "$build_dir/robocache_ros" ] && [ -z "${ROBOCACHE_CUDA_ARCHS:-}" ] &&
  [ -n "$(scripts/cuda.sh features 2>/dev/null)" ]; then
  echo 'build: with CUDA, the first build also compiles the kernels for every chip, which takes minutes.' \
    'ROBOCACHE_CUDA=off leaves them out; for fewer chips: docs/gpu.md'
fi
# colcon configures again only if CMake's arguments change. If another ROS was sourced since the
# last build, the old configuration still names the old ROS, so it is removed. This repository's
# own install does not count.
mkdir -p "$build_dir"
prefixes=$(tr : '\n' <<<"$AMENT_PREFIX_PATH" | grep -vF "$PWD/install" | tr '\n' :)
underlay="${VIRTUAL_ENV:-} $prefixes"
if [ "$(cat "$build_dir/underlay" 2>/dev/null)" != "$underlay" ]; then
  rm -f "$build_dir/robocache_ros/CMakeCache.txt"
  echo "$underlay" >"$build_dir/underlay"
fi
export CARGO_TARGET_DIR=$cargo_dir
colcon --log-base "$build_dir/log" build --base-paths . --build-base "$build_dir" --install-base "$install_dir" \
  --event-handlers console_direct+ --cmake-args --no-warn-unused-cli -DROBOCACHE_PROFILE="$ROBOCACHE_PROFILE"
link_extension
