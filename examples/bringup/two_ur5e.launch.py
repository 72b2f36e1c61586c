"""Drivers of two UR5e, two RealSense cameras and a Livox lidar, and the node behind them.

    ros2 launch ./examples/bringup/two_ur5e.launch.py left_ip:=192.168.1.101 right_ip:=192.168.1.102

**No driver has run with this file.** A test runs it against stand-ins of `launch` and of the drivers' launch files. Their
packages and arguments are those that ur_robot_driver, realsense2_camera and livox_ros_driver2 document. Start the
gripper's driver beside it.

With `namespace:=robot_a`, the node, the drivers and their topics are below /robot_a. So two robots, each with a node, are on one
machine: start the file twice.

To see in Foxglove what they send and what the node makes of it, import the layout that this writes:

    robocache check ./examples/bringup/two_ur5e.yaml --foxglove layout.json

The node comes first: its launch file gives a Fast DDS profile with room for images to all that start after it.
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node, PushRosNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = ("left", "right")
#: The arguments that have no default are those of the arms.
ARGUMENTS = {
    "left_ip": (None, "Address of the left arm"),
    "right_ip": (None, "Address of the right arm"),
    "left_serial": ("''", "Serial number of the left camera"),
    "right_serial": ("''", "Serial number of the right camera"),
    "namespace": ("", "Namespace of the node, the drivers and their topics"),
    "livox_config": ("", "The lidar's configuration (JSON)"),
    "streams": (os.path.join(HERE, "two_ur5e.yaml"), "Configuration of streams and tensor (YAML)"),
}


def source(package, file):
    """The launch file of a package."""
    path = os.path.join(get_package_share_directory(package), "launch", file)
    return PythonLaunchDescriptionSource(path)


def driver(package, file, arguments, namespace):
    """A driver's launch file in a namespace. It gets these arguments and no others.

    Launch files share their arguments. The node and the cameras both have one called `config_file`, for example.
    """
    included = IncludeLaunchDescription(source(package, file))
    actions = [PushRosNamespace(namespace), included] if namespace else [included]
    return GroupAction(actions, forwarding=False, launch_configurations=arguments)


def arm(side, namespace):
    """The driver of an arm in a namespace of its own, so joint names and topics of both may be equal."""
    arguments = {
        "ur_type": "ur5e",
        "robot_ip": LaunchConfiguration(f"{side}_ip"),
        "launch_rviz": "false",
    }
    # A group without the outer values does not have their namespace either.
    return driver("ur_robot_driver", "ur_control.launch.py", arguments, below(namespace, side))


def camera(side, namespace):
    """A RealSense with depth in the pixels of its colours. Its topics are below cameras/SIDE."""
    arguments = {
        "camera_namespace": "cameras",
        "camera_name": side,
        "serial_no": LaunchConfiguration(f"{side}_serial"),
        "align_depth.enable": "true",
    }
    return driver("realsense2_camera", "rs_launch.py", arguments, namespace)


def below(namespace, name):
    """A namespace in another one, which may be empty."""
    return f"{namespace}/{name}" if namespace else name


def robot(context):
    """The node, then the drivers."""
    namespace = LaunchConfiguration("namespace").perform(context).strip("/")
    arguments = {"config_file": LaunchConfiguration("streams"), "namespace": namespace}
    node = IncludeLaunchDescription(
        source("robocache_ros", "robocache.launch.py"), launch_arguments=arguments.items()
    )
    lidar = Node(
        package="livox_ros_driver2",
        executable="livox_ros_driver2_node",
        namespace=namespace,
        parameters=[
            {
                "xfer_format": 0,  # PointCloud2
                "frame_id": "livox_frame",
                "publish_freq": 10.0,
                "user_config_path": LaunchConfiguration("livox_config"),
            }
        ],
    )
    drivers = [make(side, namespace) for side in SIDES for make in (arm, camera)]
    return [node, *drivers, lidar]


def generate_launch_description():
    """The arguments, and what they start."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=robot)])
