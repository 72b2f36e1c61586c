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
PROFILE = os.path.join(SHARE, "config", "fastdds.xml")
#: Name the file of a profile. Fast DDS 2 reads the first, Fast DDS 3 the second.
PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
#: Files that Fast DDS reads by itself, if they are in the working folder.
LOCAL_PROFILES = ("DEFAULT_FASTRTPS_PROFILES.xml", "DEFAULT_FASTDDS_PROFILES.xml")

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


def is_ours(path):
    """Whether the file is robocache's own profile, unchanged."""
    try:
        with open(path, "rb") as file, open(PROFILE, "rb") as ours:
            return file.read() == ours.read()
    except OSError:
        return False


def user_has_chosen(environment, exists=os.path.exists, is_ours=is_ours):
    """Whether the user has chosen a profile for Fast DDS, or another middleware.

    The node has the same rule (src/ros/profile/choice.rs); docs/deploy.md says it in words. An
    empty variable counts as not set. robocache's own profile is no choice.
    """
    middleware = environment.get("RMW_IMPLEMENTATION") or "rmw_fastrtps"
    named = [environment.get(name) for name in PROFILE_VARIABLES]
    return (
        not middleware.startswith("rmw_fastrtps")
        or any(path and not is_ours(path) for path in named)
        or any(exists(file) for file in LOCAL_PROFILES)
    )


def generate_launch_description():
    """The arguments, the middleware's profile, the node."""
    # The profile holds for all that is launched after it: a camera driver needs the larger shared
    # memory too. The node sizes a segment of its own, because this file is no choice of the user.
    names = () if user_has_chosen(os.environ) else PROFILE_VARIABLES
    return LaunchDescription(
        [
            DeclareLaunchArgument(name, default_value=default, description=description)
            for name, (default, description) in ARGUMENTS.items()
        ]
        + [SetEnvironmentVariable(name, PROFILE) for name in names]
        + [OpaqueFunction(function=fusion_node)]
    )
