#!/bin/bash
# Sources ROS and robocache, and becomes the command, so that the command gets the signals of the container.
set -e
. "/opt/ros/$ROS_DISTRO/setup.bash"
# Wherever the package was built.
COLCON_CURRENT_PREFIX=/opt/robocache/install/robocache_ros
. "$COLCON_CURRENT_PREFIX/share/robocache_ros/package.bash"
unset COLCON_CURRENT_PREFIX
# Messages that this ROS lacks. Its own come first.
interfaces=/opt/robocache/install/interfaces
export AMENT_PREFIX_PATH=$AMENT_PREFIX_PATH:$interfaces LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$interfaces/lib
for folder in "$interfaces"/lib/python3*/site-packages; do
  export PYTHONPATH=$PYTHONPATH:$folder
done
exec "$@"
