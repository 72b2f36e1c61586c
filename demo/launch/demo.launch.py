"""Starts a synthetic robot and the fusion node: `ros2 launch robocache_ros demo.launch.py`.

It takes the arguments of robocache.launch.py, and sim_seed.
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node


def generate_launch_description():
    """The node is first: its file declares common arguments and sets the middleware's profile."""
    share = get_package_share_directory("robocache_ros")
    node = os.path.join(share, "launch", "robocache.launch.py")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "sim_seed", default_value="0", description="Seed of the robot's content and jitter"
            ),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(node)),
            Node(
                package="robocache_ros",
                executable="sensor_sim",
                arguments=["--seed", LaunchConfiguration("sim_seed")],
                namespace=LaunchConfiguration("namespace"),
                output="screen",
            ),
        ]
    )
