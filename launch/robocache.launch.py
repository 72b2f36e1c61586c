"""Starts the fusion node: `ros2 launch robocache_ros robocache.launch.py config_file:=my.yaml`.

`ros2 launch robocache_ros robocache.launch.py --show-args` lists the arguments.
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

SHARE = get_package_share_directory("robocache_ros")
PROFILE_VARIABLE = "FASTRTPS_DEFAULT_PROFILES_FILE"

ARGUMENTS = {
    "config_file": (
        os.path.join(SHARE, "config", "robocache.yaml"),
        "Configuration of streams and tensor (YAML); `robocache check FILE` validates it",
    ),
    "backend": ("auto", "Where tensors are computed: auto, cpu or cuda"),
    "device": ("0", "Number of the GPU for the cuda backend"),
    "use_sim_time": ("false", "Tick by /clock instead of the system's clock: true or false"),
    "rate_hz": ("", "Rate of the ticks [Hz]; empty: as the configuration says"),
    "realtime_priority": (
        "",
        "Priority of the tick thread (SCHED_FIFO, 1 to 99; 0: ordinary); empty: the node's default",
    ),
    "diagnostics_period_s": (
        "",
        "Time between two messages on /diagnostics [s]; empty: the node's default",
    ),
    "digest": (
        "",
        "Whether each tensor has a digest of all of it, true or false; empty: the node's default",
    ),
    "namespace": ("", "Namespace of the node and of its relative topics"),
    "log_level": ("info", "debug, info, warn or error"),
}


def boolean(name, text):
    """Reads true or false; the ROS command line takes other spellings as text."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name}: expected true or false, found '{text}'")
    return text.lower() == "true"


def number(kind, name, text):
    """The text as an int or a float. The error names the argument."""
    try:
        return kind(text)
    except ValueError:
        what = {int: "an integer", float: "a number"}[kind]
        raise ValueError(f"{name}: expected {what}, found '{text}'") from None


def fusion_node(context):
    """The node. The text from the command line is converted to the parameters' types."""
    given = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    parameters = {
        "config_file": given["config_file"],
        "backend": given["backend"],
        "device": number(int, "device", given["device"]),
        "use_sim_time": boolean("use_sim_time", given["use_sim_time"]),
    }
    if given["digest"]:
        parameters["digest"] = boolean("digest", given["digest"])
    optional = {"rate_hz": float, "realtime_priority": int, "diagnostics_period_s": float}
    for name, kind in optional.items():
        if given[name]:
            parameters[name] = number(kind, name, given[name])
    return [
        Node(
            package="robocache_ros",
            executable="fusion_node",
            namespace=given["namespace"],
            parameters=[parameters],
            ros_arguments=["--log-level", given["log_level"]],
            output="screen",
        )
    ]


def generate_launch_description():
    """The arguments, the middleware's profile, the node."""
    # The profile holds for this node and all that is launched after it: a camera driver also needs
    # the larger shared memory. If the user has set a profile, it stays.
    profile = os.environ.get(PROFILE_VARIABLE) or os.path.join(SHARE, "config", "fastdds.xml")
    return LaunchDescription(
        [
            DeclareLaunchArgument(name, default_value=default, description=description)
            for name, (default, description) in ARGUMENTS.items()
        ]
        + [SetEnvironmentVariable(PROFILE_VARIABLE, profile), OpaqueFunction(function=fusion_node)]
    )
