"""The fusion node behind Isaac Sim: `ros2 launch robocache_ros isaac_sim.launch.py`.

It takes the arguments of robocache.launch.py. Its configuration is config/isaac_sim.yaml, and it ticks
by the simulator's clock.
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource


def generate_launch_description():
    """The node with other defaults. These come first, because the included file declares the same arguments again."""
    share = get_package_share_directory("robocache_ros")
    node = os.path.join(share, "launch", "robocache.launch.py")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "config_file",
                default_value=os.path.join(share, "config", "isaac_sim.yaml"),
                description="Configuration of streams and tensor (YAML)",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="true",
                description="Tick by /clock instead of the system's clock: true or false",
            ),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(node)),
        ]
    )
