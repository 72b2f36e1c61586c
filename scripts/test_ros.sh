#!/usr/bin/env bash
# Runs the tests with real ROS processes: `scripts/test_ros.sh [ARGUMENT of pytest...]`.
#
# ROBOCACHE_RMW is the middleware: fastrtps (the default) or cyclonedds. ROBOCACHE_ROS is the ROS: jazzy (the
# default) or kilted. With arguments, pytest runs once with them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repo=$PWD
. scripts/ros_folders.sh
. scripts/phases.sh
export ROBOCACHE_RMW=${ROBOCACHE_RMW:-fastrtps}
export ROBOCACHE_BUILD=$repo/$build_dir ROBOCACHE_INSTALL=$repo/$install_dir

needed_phase 'set-up' scripts/setup.sh --tests
needed_phase 'build' scripts/build.sh
case $ROBOCACHE_RMW in
  fastrtps) ;;
  cyclonedds) needed_phase 'set-up of CycloneDDS' scripts/cyclonedds.sh ;;
  *)
    echo "ROBOCACHE_RMW: expected fastrtps or cyclonedds, found $ROBOCACHE_RMW" >&2
    exit 1
    ;;
esac
if [ $# -gt 0 ]; then
  exec scripts/with_ros.sh pytest "$@"
fi
# Most of these tests wait, each in a ROS domain of its own, so two processes share them.
phase 'pytest: ROS processes' scripts/with_ros.sh \
  pytest -q --numprocesses=2 --dist=loadgroup --durations=10 -m 'not alone' tests/ros
phase 'pytest: ROS processes that need both cores' scripts/with_ros.sh pytest -q --durations=10 -m alone tests/ros
summary
