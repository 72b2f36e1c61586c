#!/usr/bin/env bash
# Runs the tests with real ROS processes: `scripts/test_ros.sh [ARGUMENT of pytest...]`.
#
# ROBOCACHE_RMW is the middleware: fastrtps (the default) or cyclonedds. ROBOCACHE_ROS is the ROS: jazzy (the
# default) or kilted. With arguments, pytest runs once with them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
repo=$PWD
export ROBOCACHE_PROFILE=dev ROBOCACHE_RMW=${ROBOCACHE_RMW:-fastrtps}
. scripts/ros_folders.sh
. scripts/phases.sh
. scripts/test_phases.sh

share_verdicts
needed_phase 'set-up' scripts/setup.sh --tests
limit_s=3600 needed_phase 'build' scripts/build.sh
case $ROBOCACHE_RMW in
  fastrtps) ;;
  cyclonedds) needed_phase 'set-up of CycloneDDS' scripts/cyclonedds.sh ;;
  *)
    echo "ROBOCACHE_RMW: expected fastrtps or cyclonedds, found $ROBOCACHE_RMW" >&2
    exit 1
    ;;
esac
if [ $# -gt 0 ]; then
  scripts/isolated.sh scripts/with_ros.sh pytest "$@"
  exit
fi
ros_phase
summary
