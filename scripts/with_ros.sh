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
if [ -e "$repo/install/local_setup.bash" ]; then
  . "$repo/install/local_setup.bash"
fi
exec "$@"
