"""Starts the fusion node: `ros2 launch robocache_ros robocache.launch.py config_file:=my.yaml`.

`ros2 launch robocache_ros robocache.launch.py --show-args` lists the arguments.
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node

SHARE = get_package_share_directory("robocache_ros")
PROFILE = os.path.join(SHARE, "config", "fastdds.xml")
#: These variables name the file of a profile. Fast DDS 2 reads the first, Fast DDS 3 the second.
PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
#: Files that Fast DDS reads by itself, if they are in the working folder.
LOCAL_PROFILES = ("DEFAULT_FASTRTPS_PROFILES.xml", "DEFAULT_FASTDDS_PROFILES.xml")

#: The name of the node.
NAME = "fusion_node"
#: The configuration if the user names neither a configuration nor a parameter file.
CONFIGURATION = os.path.join(SHARE, "config", "robocache.yaml")

#: Arguments that are parameters of the node: type and description. An empty argument is not passed on,
#: so that the value of `params_file` or the node's own default applies.
PARAMETERS = {
    "backend": (str, "Where tensors are computed: auto, cpu or cuda"),
    "device": (int, "Number of the GPU"),
    "use_sim_time": (bool, "Tick by /clock instead of the system's clock: true or false"),
    "rate_hz": (float, "Rate of the ticks [Hz]; 0: as the configuration says"),
    "realtime_priority": (
        int,
        "Priority of the tick thread (SCHED_FIFO, 1 to 99; 0: ordinary)",
    ),
    "intake_priority": (int, "The same of the thread that receives small messages"),
    "encode_threads": (int, "Threads that encode images and clouds; 0: by streams and processors"),
    "tick_cpus": (list, "Processors of the tick thread, such as 2,3"),
    "publish_cpus": (list, "The same of the thread that publishes tensors"),
    "intake_cpus": (list, "The same of the threads that receive messages"),
    "encode_cpus": (list, "The same of the threads that encode images and clouds"),
    "commands": (str, "Whether commands are made from the start on: disabled or enabled"),
    "command_priority": (int, "Real-time priority of the command thread; 0: ordinary priority"),
    "command_cpus": (list, "Processors of the command thread; empty: all"),
    "lock_memory": (bool, "Keep the memory of the node from being swapped out: true or false"),
    "diagnostics_period_s": (float, "Time between two messages on /diagnostics [s]"),
    "digest": (bool, "Whether each tensor has a digest of all of it: true or false"),
    "visualize_hz": (
        float,
        "Rate at which images and grids are published for RViz and Foxglove [Hz]; 0: never",
    ),
    "output_type": (str, "Message type of the tensors: fused_tensor or isaac_tensor_list"),
    "shared_output": (
        str,
        "Name under which the tensors are in shared memory, for policies without ROS",
    ),
    "record_to": (str, "Folder in which each run records what it receives (MCAP)"),
    "episodes_to": (str, "Folder in which episodes are recorded (MCAP), each between two requests"),
    "record_when": (
        str,
        "Number of a topic that begins and ends episodes, such as /joy:buttons[0]",
    ),
    "record_compression": (str, "Compression of recordings: none or zstd"),
    "record_max_gb": (
        float,
        "Most bytes of a recording of record_to [GB]: its oldest files are deleted; 0: no limit",
    ),
    "record_max_age_s": (
        float,
        "Time of which a recording of record_to has all messages [s]; 0: no limit",
    ),
    "record_streams": (
        tuple,
        "Names of the streams that are recorded, such as joints,camera; empty: all",
    ),
    "managed": (
        bool,
        "Start a lifecycle node, which requests configure and activate: true or false",
    ),
    "contract": (
        str,
        "Folder of a policy with a robocache.json: if the node would serve something else, it ends",
    ),
}

#: The other arguments: default and description.
ARGUMENTS = {
    "config_file": (
        "",
        "Configuration of streams and tensor (YAML); `robocache check FILE` validates it. Empty: "
        f"that of params_file, or without one {CONFIGURATION}",
    ),
    "params_file": ("", "File with parameters of the node; arguments of the launch win"),
    "namespace": ("", "Namespace of the node and of its relative topics"),
    "log_level": (
        "info",
        "debug, info, warn or error, of ROS and the node; fusion_node:=debug: of the node alone",
    ),
}


def boolean(name, text):
    """Reads true or false; the ROS command line takes other spellings as text."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name}: expected true or false, found '{text}'")
    return text.lower() == "true"


def numbers(text):
    """Reads integers with commas between them, with or without brackets."""
    inside = text.strip()
    if inside.startswith("[") and inside.endswith("]"):
        inside = inside[1:-1]
    return [int(number) for number in inside.split(",")]


def names(text):
    """Reads names with commas between them, with or without brackets."""
    return [name.strip() for name in text.strip().strip("[]").split(",")]


def value(kind, name, text):
    """The text as a value of the parameter's type. The error names the argument."""
    if kind is bool:
        return boolean(name, text)
    if kind is tuple:
        return names(text)
    try:
        return numbers(text) if kind is list else kind(text)
    except ValueError:
        what = {int: "an integer", float: "a number", list: "integers such as 2,3"}[kind]
        raise ValueError(f"{name}: expected {what}, found '{text}'") from None


def fusion_node(context):
    """The node. The text from the command line is converted to the parameters' types."""
    every = [*ARGUMENTS, *PARAMETERS]
    given = {name: LaunchConfiguration(name).perform(context) for name in every}
    parameters = {
        name: value(kind, name, given[name])
        for name, (kind, _) in PARAMETERS.items()
        if given[name]
    }
    config_file = given["config_file"] or ("" if given["params_file"] else CONFIGURATION)
    if config_file:
        parameters["config_file"] = config_file
    files = [given["params_file"]] if given["params_file"] else []
    # The action of a lifecycle node needs its name. It makes clients of the node for the launch's own events.
    kind, named = (LifecycleNode, {"name": NAME}) if parameters.get("managed") else (Node, {})
    return [
        kind(
            **named,
            package="robocache_ros",
            executable="fusion_node",
            namespace=given["namespace"],
            parameters=[*files, parameters],
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

    The node has the same rule (src/fastdds/); docs/deploy.md explains it. An empty variable counts
    as not set. robocache's own profile does not count as a choice.
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
    # The profile applies to everything that is launched after it, because a camera driver needs the
    # larger shared memory too. The node sets the size of its own segment, because the user did not
    # choose this file.
    names = () if user_has_chosen(os.environ) else PROFILE_VARIABLES
    arguments = ARGUMENTS | {
        name: ("", f"{description}; empty: the default of the node or of params_file")
        for name, (_, description) in PARAMETERS.items()
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument(name, default_value=default, description=description)
            for name, (default, description) in arguments.items()
        ]
        + [SetEnvironmentVariable(name, PROFILE) for name in names]
        + [OpaqueFunction(function=fusion_node)]
    )
