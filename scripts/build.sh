#!/usr/bin/env bash
# Sets up what is missing and builds all of it, release, into build/ and install/: with CUDA where an
# nvcc is found, or a GPU, for which it is then installed (scripts/cuda.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
. .ros/env.sh
# In the environment of the build, so that what is found here is found there.
scripts/cuda.sh prepare
# colcon configures again only when CMake's arguments change: after a change of the sourced ROS the
# old configuration would go on naming the old one. This repository's own install is no change.
mkdir -p build
prefixes=$(tr : '\n' <<<"$AMENT_PREFIX_PATH" | grep -vF "$PWD/install" | tr '\n' :)
underlay="${VIRTUAL_ENV:-} $prefixes"
if [ "$(cat build/underlay 2>/dev/null)" != "$underlay" ]; then
  rm -f build/robocache_ros/CMakeCache.txt
  echo "$underlay" >build/underlay
fi
colcon --log-base build/log build --base-paths . --build-base build --install-base install \
  --event-handlers console_direct+ --cmake-args --no-warn-unused-cli
