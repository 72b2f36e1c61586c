"""Messages of types that the node was not built for: numbers selected by their paths."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
from control_msgs.msg import DynamicJointState, InterfaceValue
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from fusion import MS, T0, f32, stamped, start_fusion, streams
from geometry_msgs.msg import Point, Pose, PoseArray, PoseStamped, Quaternion
from in_process import InProcess
from sensor_msgs.msg import BatteryState, JointState, Range
from std_msgs.msg import Float32, Float64MultiArray, MultiArrayDimension, MultiArrayLayout
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

DEFINITIONS = Path(__file__).parents[1] / "definitions" / "share"

STREAMS = streams(
    commands={"type": "std_msgs/msg/Float64MultiArray", "select": ["data[1:3]", "data[0]"]},
    grip={"type": "std_msgs/msg/Float32", "select": ["data"]},
    elbow={
        "type": "sensor_msgs/msg/JointState",
        "select": ['position["elbow"]', "velocity['elbow']", 'position["wrist"]'],
    },
    marker={"type": "geometry_msgs/msg/PoseArray", "select": ["poses[1]"]},
    sonar={"type": "sensor_msgs/msg/Range", "select": ["range", "radiation_type"]},
    battery={"type": "sensor_msgs/msg/BatteryState", "select": ["percentage", "present"]},
    plan={
        "type": "trajectory_msgs/msg/JointTrajectory",
        "select": ["points[0].positions[0:2]", "points[1].time_from_start"],
    },
    state={
        "type": "diagnostic_msgs/msg/DiagnosticArray",
        "select": ['status["arm"].level', 'status[hardware_id="7"].level'],
    },
    # The states of ros2_control: the names are beside the values, at two levels.
    dynamic={
        "type": "control_msgs/msg/DynamicJointState",
        "select": [
            'interface_values[joint_names="elbow"].values[interface_names="velocity"]',
            'interface_values[joint_names="wrist"].values[interface_names="position"]',
        ],
    },
    stamped_inside={
        "type": "geometry_msgs/msg/PoseArray",
        "topic": "/marker",
        "select": ["poses[0].position.x"],
        "stamp": "header.stamp",
    },
)


def pose(x, turn):
    return Pose(position=Point(x=x, y=0.5, z=-x), orientation=Quaternion(w=turn, z=turn))


def messages():
    half = 0.5**0.5
    layout = MultiArrayLayout(dim=[MultiArrayDimension(label="joints", size=3, stride=3)])
    points = [
        JointTrajectoryPoint(positions=[0.25, -0.5, 9.0]),
        JointTrajectoryPoint(positions=[1.0]),
    ]
    points[1].time_from_start.sec, points[1].time_from_start.nanosec = 2, 500_000_000
    keys = [KeyValue(key="mode", value="a text of odd length")]
    status = [
        DiagnosticStatus(level=b"\x02", name="arm", message="hot", hardware_id="3", values=keys),
        DiagnosticStatus(level=b"\x01", name="hand", hardware_id="7"),
    ]
    return {
        "/commands": Float64MultiArray(layout=layout, data=[0.1, 1.1, 2.1]),
        "/grip": Float32(data=0.75),
        "/elbow": stamped(
            JointState,
            T0,
            name=["wrist", "shoulder", "elbow"],
            position=[0.5, 9.0, 1.5],
            velocity=[9.0, 9.0, -2.5],
        ),
        "/marker": stamped(PoseArray, T0, poses=[pose(7.0, half), pose(3.0, half)]),
        "/sonar": stamped(Range, T0, range=1.25, radiation_type=1, max_range=4.0),
        "/battery": stamped(BatteryState, T0, percentage=0.5, present=True, cell_voltage=[3.5] * 3),
        "/plan": stamped(JointTrajectory, T0, joint_names=["a", "b", "c"], points=points),
        "/state": stamped(DiagnosticArray, T0, status=status),
        "/dynamic": stamped(
            DynamicJointState,
            T0,
            joint_names=["wrist", "elbow"],
            interface_values=[
                InterfaceValue(interface_names=["position"], values=[0.125]),
                InterfaceValue(interface_names=["position", "velocity"], values=[9.0, -4.5]),
            ],
        ),
    }


def test_numbers_of_any_message_arrive_value_by_value(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": STREAMS}).warm_up()
    fusion.advance(T0)
    for topic, message in messages().items():
        fusion.send(topic, message)
    got = fusion.tick(T0 + 10 * MS)
    half = np.float32(0.5**0.5)
    expected = {
        "commands": [1.1, 2.1, 0.1],
        "grip": [0.75],
        "elbow": [1.5, -2.5, 0.5],
        "marker": [3.0, 0.5, -3.0, 0.0, 0.0, half, half],
        "sonar": [1.25, 1.0],
        "battery": [0.5, 1.0],
        "plan": [0.25, -0.5, 2.0, 500_000_000.0],
        "state": [2.0, 1.0],
        "dynamic": [-4.5, 0.125],
        "stamped_inside": [7.0],
    }
    for name, row in expected.items():
        assert got[name].valid == [True], (name, fusion.status)
        np.testing.assert_array_equal(got[name].array, f32(row)[None], err_msg=name)
    assert got["elbow"].age_ns == got["stamped_inside"].age_ns == [10 * MS]
    # Without a header, the time of arrival counts: after the clock's last message.
    for name in ("commands", "grip"):
        assert 0 <= got[name].age_ns[0] <= 10 * MS, name

    # If a message lacks a number, it is dropped, and the log names the number.
    fusion.send("/commands", Float64MultiArray(data=[1.0, 2.0]))
    fusion.send("/elbow", stamped(JointState, T0 + 11 * MS, name=["wrist"], position=[1.0]))
    fusion.send("/marker", stamped(PoseArray, T0 + 11 * MS, poses=[pose(1.0, 1.0)]))
    fusion.tick(T0 + 20 * MS)
    for name in ("commands", "elbow", "marker"):
        fusion.await_value(name, "dropped.missing_field", 1)
    fusion.process.wait_for('name: expected "elbow", found wrist')
    fusion.process.wait_for("poses[1]: expected an element, found 1")


def test_what_serialize_message_leaves_behind_a_message_is_no_fault():
    """It reserves too much for empty sequences: those of a plan's points, of a JointState without effort, and others."""
    pipeline = InProcess({"streams": STREAMS})
    given = [*messages().items()]
    parts = ("positions", "velocities", "accelerations", "effort")
    for count, used in itertools.product((2, 3, 10), range(1, 16)):
        names = [part for bit, part in enumerate(parts) if used >> bit & 1 or bit == 0]
        point = JointTrajectoryPoint(**{part: [1.0] * 6 for part in names})
        plan = {"joint_names": ["a"] * 6, "points": [point] * count}
        given.append(("/plan", stamped(JointTrajectory, T0 + len(given), **plan)))
    for topic, message in given:
        assert pipeline.send(topic, message), (topic, message)


def test_two_topics_of_two_types_are_one_row():
    """Each input is resampled by itself. The numbers of the first input come first."""
    inputs = [
        {
            "topic": "/tool",
            "type": "geometry_msgs/msg/PoseStamped",
            "select": ["pose.position.x", "pose.position.z"],
        },
        # Without a header: the time of arrival counts.
        {"topic": "/grip", "type": "std_msgs/msg/Float64MultiArray", "select": ["data[1]"]},
    ]
    fusion = InProcess({"streams": streams(hand={"inputs": inputs})})
    fusion.advance(T0)
    fusion.send("/tool", stamped(PoseStamped, T0, pose=pose(1.5, 1.0)))
    got = fusion.tick(T0 + 10 * MS)["hand"]
    assert (got.valid, got.inputs_valid) == ([False], [0b01])
    assert not got.array.any(), "the whole invalid step is filled"
    fusion.send("/grip", Float64MultiArray(data=[9.0, 0.25]))
    got = fusion.tick(T0 + 20 * MS)["hand"]
    assert (got.valid, got.inputs_valid) == ([True], [0b11])
    np.testing.assert_array_equal(got.array, f32([[1.5, -1.5, 0.25]]))
    # If an input cannot read a message, that input alone counts a drop.
    fusion.check_drops("/grip", [(Float64MultiArray(data=[9.0]), "missing_field")])
    assert fusion.value("/tool", "dropped") == 0
    # 70 ms later the grip is too old.
    fusion.advance(T0 + 70 * MS)
    fusion.send("/tool", stamped(PoseStamped, T0 + 80 * MS, pose=pose(2.5, 1.0)))
    got = fusion.tick(T0 + 90 * MS)["hand"]
    assert (got.valid, got.inputs_valid) == ([False], [0b01])


def test_a_package_that_is_not_there_is_an_error(start, tmp_path):
    path = tmp_path / "config.yaml"
    config = {
        "rate_hz": 100,
        "streams": streams(s={"type": "my_msgs/msg/Own", "select": ["x"]}),
    }
    path.write_text(json.dumps(config))
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={path}", expected_code=1)
    assert node.wait() == 1
    assert "no package my_msgs in AMENT_PREFIX_PATH; source the workspace" in node.output


def members(path):
    """The members of a definition: types and names."""
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return [words[:2] for words in lines if words and "=" not in "".join(words)]


def test_the_definitions_of_the_core_tests_are_those_of_ros():
    """Tests without ROS read tests/definitions instead; both must agree."""
    compared = 0
    for file in sorted(DEFINITIONS.glob("*/msg/*.msg")):
        relative = file.relative_to(DEFINITIONS)
        prefixes = os.environ["AMENT_PREFIX_PATH"].split(os.pathsep)
        installed = [Path(prefix) / "share" / relative for prefix in prefixes]
        for real in [path for path in installed if path.is_file()]:
            assert members(file) == members(real), relative
            compared += 1
    assert compared >= 15
