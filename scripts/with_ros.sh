#!/usr/bin/env bash
# Runs a command in the ROS environment that scripts/setup.sh made, with what `make build`
# installed on top of it: `scripts/with_ros.sh COMMAND [ARGUMENT...]`. A ROS that was sourced at
# set-up must be sourced here too.
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ ! -e "$repo/.ros/env.sh" ]; then
  echo "with_ros: run scripts/setup.sh (or make build) first" >&2
  exit 1
fi
. "$repo/.ros/env.sh"
# The package's own script: that of the whole install folder starts a Python whose path it does not
# quote, and fails in a folder with a space.
package=$repo/install/robocache_ros/share/robocache_ros/package.bash
if [ -e "$package" ]; then
  . "$package"
fi
exec "$@"
