#!/usr/bin/env bash
# Runs a command in the ROS environment of scripts/setup.sh, with what `make build` has installed for ROBOCACHE_PROFILE:
# `scripts/with_ros.sh COMMAND [ARGUMENT...]`. If a ROS was sourced at set-up, it must be sourced
# here too.
#
# ROBOCACHE_ROS and ROBOCACHE_RMW choose the ROS and the middleware: see scripts/test_ros.sh. ROBOCACHE_PROFILE chooses the
# build: scripts/ros_folders.sh. The command gets its folders as ROBOCACHE_BUILD, ROBOCACHE_INSTALL and ROBOCACHE_CARGO,
# cargo's own.
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$repo/scripts/ros_folders.sh"
if [ ! -e "$ros_dir/env.sh" ]; then
  echo "with_ros: run scripts/setup.sh (or make build) first" >&2
  exit 1
fi
. "$ros_dir/env.sh"
# The package's own script. The script of the whole install folder fails if the path has a space: it
# starts a Python without quotes around the path.
package=$repo/$install_dir/robocache_ros/share/robocache_ros/package.bash
if [ -e "$package" ]; then
  . "$package"
fi
# The Python package of the sources comes first. An install may be older, and tests would import what no longer exists.
export PYTHONPATH=$repo/python${PYTHONPATH:+:$PYTHONPATH}
link_extension
export ROBOCACHE_BUILD=$repo/$build_dir ROBOCACHE_INSTALL=$repo/$install_dir ROBOCACHE_CARGO=$cargo_dir/$cargo_out
if [ "${ROBOCACHE_RMW:-}" = cyclonedds ]; then
  . "$ros_dir/cyclonedds.env"
fi
exec "$@"
