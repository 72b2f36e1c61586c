#!/bin/bash
# Sources ROS and robocache, and becomes the command, so that the command gets the signals of the container.
set -e
. "/opt/ros/$ROS_DISTRO/setup.bash"
. /opt/robocache/install/robocache_ros/share/robocache_ros/package.bash
# Messages that this ROS lacks. Its own come first.
interfaces=/opt/robocache/install/interfaces
export AMENT_PREFIX_PATH=$AMENT_PREFIX_PATH:$interfaces LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$interfaces/lib
for folder in "$interfaces"/lib/python3*/site-packages; do
  export PYTHONPATH=$PYTHONPATH:$folder
done
exec "$@"
