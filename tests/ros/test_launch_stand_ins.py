"""The launch files, run against stand-ins: no test here shows that the real `launch` and `launch_ros` take them.

PyPI has neither package. The stand-ins have the names and signatures of the documented API, and record the calls.
test_launch_real.py uses the real packages, where a ROS has them.
"""

import importlib.util
import json
import os
import sys
import types
from pathlib import Path

import pytest
from middlewares import fast_dds_only

REPOSITORY = Path(__file__).resolve().parents[2]
#: What Fast DDS 2 and Fast DDS 3 read.
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
PROFILE = PROFILES[0]


class LaunchDescription:
    def __init__(self, initial_entities=None):
        self.entities = list(initial_entities or [])


class DeclareLaunchArgument:
    def __init__(self, name, *, default_value=None, description=None, choices=None):
        self.name, self.default_value, self.description = name, default_value, description

    def execute(self, context):
        context.values.setdefault(self.name, self.default_value)


class SetEnvironmentVariable:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def execute(self, context):
        context.environment[self.name] = self.value


class OpaqueFunction:
    def __init__(self, *, function, args=None, kwargs=None):
        self.function = function

    def execute(self, context):
        context.run(self.function(context))


class PythonLaunchDescriptionSource:
    def __init__(self, launch_file_path):
        self.path = launch_file_path


class IncludeLaunchDescription:
    def __init__(self, launch_description_source, *, launch_arguments=None):
        self.source, self.arguments = launch_description_source, dict(launch_arguments or {})

    def execute(self, context):
        context.values.update(context.performed(self.arguments))
        context.run(load(self.source.path).generate_launch_description().entities)


class LaunchConfiguration:
    def __init__(self, variable_name, *, default=None):
        self.name = variable_name

    def perform(self, context):
        return context.values[self.name]


class Node:
    def __init__(
        self,
        *,
        executable,
        package=None,
        namespace=None,
        parameters=None,
        arguments=None,
        ros_arguments=None,
        output=None,
    ):
        self.executable, self.package, self.namespace = executable, package, namespace
        self.parameters, self.arguments, self.output = parameters, arguments, output
        self.ros_arguments = ros_arguments

    def execute(self, context):
        for name in ("namespace", "executable"):
            value = getattr(self, name)
            if isinstance(value, LaunchConfiguration):
                setattr(self, name, value.perform(context))
        self.arguments = [
            a.perform(context) if isinstance(a, LaunchConfiguration) else a
            for a in self.arguments or []
        ]
        self.environment = dict(context.environment)
        context.nodes.append(self)


class PushRosNamespace:
    def __init__(self, namespace):
        self.namespace = namespace

    def execute(self, context):
        context.values["ros_namespace"] = self.namespace


class GroupAction:
    """A scope: what is set in it ends with it. Without forwarding it begins with its own values alone."""

    def __init__(self, actions, *, scoped=True, forwarding=True, launch_configurations=None):
        assert scoped
        self.actions, self.forwarding = actions, forwarding
        self.values = launch_configurations or {}

    def execute(self, context):
        outer = context.values, context.environment
        values = context.performed(self.values)
        context.values = {**outer[0], **values} if self.forwarding else values
        context.environment = dict(context.environment)
        context.run(self.actions)
        context.values, context.environment = outer


class LifecycleNode(Node):
    def __init__(self, *, name, namespace, autostart=False, **kwargs):
        super().__init__(namespace=namespace, **kwargs)
        self.name = name


class Context:
    """The context of one `ros2 launch`: the given values and the environment so far."""

    def __init__(self, given):
        self.values, self.environment, self.nodes = dict(given), {}, []

    def performed(self, values):
        """The values of launch arguments."""
        return {
            name: value.perform(self) if isinstance(value, LaunchConfiguration) else value
            for name, value in values.items()
        }

    def run(self, entities):
        for entity in entities or []:
            entity.execute(self)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch, install):
    modules = {
        "launch": {"LaunchDescription": LaunchDescription},
        "launch.actions": {
            c.__name__: c
            for c in (
                DeclareLaunchArgument,
                SetEnvironmentVariable,
                OpaqueFunction,
                GroupAction,
                IncludeLaunchDescription,
            )
        },
        "launch.launch_description_sources": {
            "PythonLaunchDescriptionSource": PythonLaunchDescriptionSource
        },
        "launch.substitutions": {"LaunchConfiguration": LaunchConfiguration},
        "launch_ros": {},
        "launch_ros.actions": {c.__name__: c for c in (LifecycleNode, Node, PushRosNamespace)},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(install), prepend=os.pathsep)
    for name in PROFILES:
        monkeypatch.delenv(name, raising=False)


def load(path):
    spec = importlib.util.spec_from_file_location("launch_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(share, file, **given):
    context = Context(given)
    context.run(load(share / "launch" / file).generate_launch_description().entities)
    return context.nodes


@pytest.fixture
def share(install):
    return install / "share" / "robocache_ros"


@fast_dds_only
def test_defaults_name_installed_files(share, install):
    (node,) = launch(share, "robocache.launch.py")
    assert (node.package, node.executable) == ("robocache_ros", "fusion_node")
    assert (install / "lib" / node.package / node.executable).exists()
    assert node.parameters == [{"config_file": str(share / "config" / "robocache.yaml")}]
    assert Path(node.parameters[0]["config_file"]).exists()
    assert node.environment == dict.fromkeys(PROFILES, str(share / "config" / "fastdds.xml"))
    assert Path(node.environment[PROFILE]).exists()


def test_behind_isaac_sim_the_node_ticks_by_its_clock(share):
    (node,) = launch(share, "isaac_sim.launch.py")
    (parameters,) = node.parameters
    assert parameters == {
        "config_file": str(share / "config" / "isaac_sim.yaml"),
        "use_sim_time": True,
    }
    assert Path(parameters["config_file"]).exists()
    (node,) = launch(share, "isaac_sim.launch.py", config_file="/my.yaml", use_sim_time="false")
    assert node.parameters == [{"config_file": "/my.yaml", "use_sim_time": False}]


#: The launch file of a driver. Its node has the arguments that it got, as parameters.
DRIVER = """\
from launch import LaunchDescription
from launch.actions import OpaqueFunction
from launch_ros.actions import Node


def node(context):
    return [Node(package="PACKAGE", executable="driver", parameters=[dict(context.values)])]


def generate_launch_description():
    return LaunchDescription([OpaqueFunction(function=node)])
"""


@fast_dds_only
@pytest.mark.parametrize("namespace", ["", "robot_a"])
def test_the_bring_up_starts_the_node_first_and_gives_each_driver_its_own_arguments(
    share, tmp_path, monkeypatch, namespace
):
    files = {"ur_robot_driver": "ur_control.launch.py", "realsense2_camera": "rs_launch.py"}
    for package, file in files.items():
        index = tmp_path / "share/ament_index/resource_index/packages" / package
        path = tmp_path / "share" / package / "launch" / file
        for each, content in ((index, ""), (path, DRIVER.replace("PACKAGE", package))):
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_text(content)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path), prepend=os.pathsep)
    folder = REPOSITORY / "examples" / "bringup"
    given = {"left_ip": "10.0.0.1", "right_ip": "10.0.0.2", "right_serial": "'_7'"}
    context = Context(given | ({"namespace": namespace} if namespace else {}))
    context.run(load(folder / "two_ur5e.launch.py").generate_launch_description().entities)
    node, *drivers = context.nodes
    assert node.executable == "fusion_node" and node.namespace == namespace
    assert node.parameters == [{"config_file": str(folder / "two_ur5e.yaml")}]
    # All others have room for images, too.
    assert all(driver.environment == node.environment for driver in drivers)
    assert node.environment[PROFILE] == str(share / "config" / "fastdds.xml")
    outer = f"{namespace}/" if namespace else ""

    def arm(side, address):
        values = {"ur_type": "ur5e", "robot_ip": address, "launch_rviz": "false"}
        return values | {"ros_namespace": f"{outer}{side}"}

    def camera(side, serial):
        values = {"camera_namespace": "cameras", "camera_name": side, "serial_no": serial}
        values |= {"ros_namespace": namespace} if namespace else {}
        return values | {"align_depth.enable": "true"}

    assert [(driver.package, *driver.parameters) for driver in drivers[:-1]] == [
        ("ur_robot_driver", arm("left", "10.0.0.1")),
        ("realsense2_camera", camera("left", "''")),
        ("ur_robot_driver", arm("right", "10.0.0.2")),
        ("realsense2_camera", camera("right", "'_7'")),
    ]
    assert (drivers[-1].package, drivers[-1].namespace) == ("livox_ros_driver2", namespace)
    assert drivers[-1].parameters[0]["xfer_format"] == 0


def test_arguments_reach_the_node_with_their_types(share):
    (node,) = launch(
        share,
        "robocache.launch.py",
        config_file="/my.yaml",
        backend="cpu",
        device="1",
        use_sim_time="True",
        rate_hz="50",
        realtime_priority="0",
        diagnostics_period_s="2",
        digest="false",
        intake_priority="5",
        encode_threads="3",
        tick_cpus="2",
        encode_cpus="[4, 5,6]",
        lock_memory="true",
        namespace="left",
        log_level="debug",
    )
    (parameters,) = node.parameters
    assert parameters == {
        "config_file": "/my.yaml",
        "backend": "cpu",
        "device": 1,
        "use_sim_time": True,
        "rate_hz": 50.0,
        "realtime_priority": 0,
        "diagnostics_period_s": 2.0,
        "digest": False,
        "intake_priority": 5,
        "encode_threads": 3,
        "tick_cpus": [2],
        "encode_cpus": [4, 5, 6],
        "lock_memory": True,
    }
    types_of = {name: type(value) for name, value in parameters.items()}
    # ROS refuses an integer for a double parameter.
    assert types_of["rate_hz"] is types_of["diagnostics_period_s"] is float
    assert types_of["realtime_priority"] is types_of["device"] is int
    assert node.namespace == "left"
    assert node.ros_arguments == ["--log-level", "debug"]


def test_a_parameter_file_counts_where_no_argument_is_given(share):
    (node,) = launch(share, "robocache.launch.py", params_file="/robot.yaml", rate_hz="20")
    assert node.parameters == ["/robot.yaml", {"rate_hz": 20.0}]
    given = {"params_file": "/robot.yaml", "config_file": "/my.yaml"}
    (node,) = launch(share, "robocache.launch.py", **given)
    assert node.parameters == ["/robot.yaml", {"config_file": "/my.yaml"}]


def test_a_managed_node_is_started_as_a_lifecycle_node(share, start):
    (node,) = launch(share, "robocache.launch.py", managed="true", namespace="left")
    assert (type(node), node.name, node.namespace) == (LifecycleNode, "fusion_node", "left")
    assert node.parameters[0]["managed"] is True
    for given in ({}, {"managed": "false"}):
        (node,) = launch(share, "robocache.launch.py", **given)
        assert type(node) is Node


@pytest.mark.parametrize("name", ["use_sim_time", "digest", "lock_memory", "managed"])
def test_a_wrong_boolean_is_an_error(share, name):
    with pytest.raises(ValueError, match=f"{name}: expected true or false, found 'yes'"):
        launch(share, "robocache.launch.py", **{name: "yes"})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("device", "first", "device: expected an integer, found 'first'"),
        ("rate_hz", "fast", "rate_hz: expected a number, found 'fast'"),
        ("realtime_priority", "50.0", "realtime_priority: expected an integer, found '50.0'"),
        ("diagnostics_period_s", "1s", "diagnostics_period_s: expected a number, found '1s'"),
        ("publish_cpus", "2;3", "publish_cpus: expected integers such as 2,3, found '2;3'"),
        ("intake_cpus", "all", "intake_cpus: expected integers such as 2,3, found 'all'"),
    ],
)
def test_a_wrong_number_is_an_error_that_names_the_argument(share, name, text, expected):
    with pytest.raises(ValueError, match=f"^{expected}$"):
        launch(share, "robocache.launch.py", **{name: text})


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_of_the_users_own_stays(share, monkeypatch, name):
    monkeypatch.setenv(name, "/own.xml")
    (node,) = launch(share, "robocache.launch.py")
    assert node.environment == {}, "nothing is changed"


@fast_dds_only
def test_our_own_profile_is_no_choice_and_a_changed_copy_is(share, monkeypatch, tmp_path):
    ours = share / "config" / "fastdds.xml"
    monkeypatch.setenv(PROFILE, str(ours))
    (node,) = launch(share, "robocache.launch.py")
    assert node.environment == dict.fromkeys(PROFILES, str(ours))
    copy = tmp_path / "fastdds.xml"
    copy.write_text(ours.read_text().replace("<segment_size>", "<segment_size>1"))
    monkeypatch.setenv(PROFILE, str(copy))
    (node,) = launch(share, "robocache.launch.py")
    assert node.environment == {}


CASES = json.loads((REPOSITORY / "tests" / "configs" / "profile_choice.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_counts_as_the_users_choice_is_what_counts_in_the_node(share, case):
    """The node's own test (src/fastdds/profile/choice.rs) reads the same cases."""
    chosen = load(share / "launch" / "robocache.launch.py").user_has_chosen(
        case["environment"], exists=case["files"].__contains__, is_ours="OURS".__eq__
    )
    assert chosen == case["chosen"]


def test_the_demo_adds_the_robot_with_the_same_profile(share, install):
    node, robot = launch(share, "demo.launch.py", sim_seed="7", rate_hz="20")
    assert (node.executable, robot.executable) == ("fusion_node", "sensor_sim")
    assert node.parameters[0]["rate_hz"] == 20.0
    assert robot.arguments == ["--seed", "7"]
    assert robot.environment == node.environment
    assert (install / "lib" / robot.package / robot.executable).exists()


def test_the_parameters_exist_in_the_node(share, start):
    """The node refuses a misspelt parameter at every launch. Its help names all parameters."""
    names = load(share / "launch" / "robocache.launch.py").PARAMETERS
    example = {bool: "true", str: "auto"}
    given = {name: example.get(kind, "1") for name, (kind, _) in names.items()}
    (node,) = launch(share, "robocache.launch.py", **given)
    assert set(node.parameters[0]) == {"config_file", *names}
    process = start("fusion_node", "--help")
    assert process.wait() == 0
    for name in node.parameters[0]:
        assert f"  {name} " in process.output
