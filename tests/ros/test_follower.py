"""The second arm of the simulated robot (`sensor_sim --follow`), commanded by rclpy."""

import json

import numpy as np
import pytest
from fusion import start_fusion, streams
from robot import rates
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robocache.ros import ActionPublisher, TensorSubscriber

NAMES = [f"joint_{i}" for i in range(14)]
TARGET = np.linspace(-1.0, 1.0, 14)


def values(names, positions):
    return Float64MultiArray(data=list(map(float, positions)))


def one_point(names, positions):
    point = JointTrajectoryPoint(positions=list(map(float, positions)))
    point.time_from_start.nanosec = 4_000_000
    return JointTrajectory(joint_names=names, points=[point])


@pytest.mark.parametrize("message", [values, one_point])
def test_an_arm_goes_where_it_is_commanded_and_counts_what_it_refuses(ros, start, message):
    given = ["--follow", "--follow-type", message.__name__]
    robot = start("sensor_sim", *rates(), *given)
    states = []
    ros.node.create_subscription(JointState, "/follower/joint_states", states.append, 10)
    good, wrong = message(NAMES, TARGET), message(NAMES[1:], TARGET[1:])
    publisher = ros.node.create_publisher(type(good), "/follower/commands", 10)
    ros.spin_until(lambda: states, "joints of the arm")
    assert states[0].name == NAMES
    assert not any(states[0].position) and not any(states[0].velocity)

    def is_there():
        # Again and again: the arm may know the publisher only later.
        publisher.publish(wrong)
        publisher.publish(good)
        return abs(np.array(states[-1].position) - TARGET).max() < 1e-9

    ros.spin_until(is_there, "the arm at its target", detail=lambda: str(states[-1].position))
    assert robot.stop() == 0
    report = json.loads(robot.output.splitlines()[-1])
    assert set(report) == {"follower"}, "the robot has no other stream"
    counts = report["follower"]
    assert counts["sent"] >= len(states) and counts["commands"] > 0 and counts["refused"] > 0


def test_without_the_option_there_is_no_second_arm(ros, start):
    robot = start("sensor_sim", *rates(joints=100))
    joints = []
    ros.node.create_subscription(JointState, "/joint_states", joints.append, 10)
    ros.spin_until(lambda: joints, "joints of the robot")
    assert "/follower/joint_states" not in dict(ros.node.get_topic_names_and_types())
    assert robot.stop() == 0
    assert "follower" not in json.loads(robot.output.splitlines()[-1])


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("values", {"type": "std_msgs/msg/Float64MultiArray"}),
        ("one_point", {"type": "trajectory_msgs/msg/JointTrajectory", "one_point": True}),
    ],
)
def test_a_policy_moves_the_arm_through_the_node(ros, start, tmp_path, kind, output):
    limit = {"position": [-3, 3], "velocity": 2.0, "acceleration": 10.0}
    group = {
        "joints": NAMES,
        "rows": {"steps": 50, "step_ms": 20},
        "start_from": "arm",
        "watchdog_ms": 60_000,  # no verdict of this test
        "limits": {"joints": dict.fromkeys(NAMES, limit)},
        "output": {"topic": "/follower/commands", **output},
    }
    arm = {"type": "sensor_msgs/msg/JointState", "joints": NAMES, "topic": "/follower/joint_states"}
    config = {"streams": streams(arm=arm), "commands": {"rate_hz": 200, "groups": {"arm": group}}}
    robot = start("sensor_sim", *rates(), "--follow", "--follow-type", kind)
    states = []
    ros.node.create_subscription(JointState, "/follower/joint_states", states.append, 10)
    given = ["-p", "commands:=enabled"]
    fusion = start_fusion(
        ros, start, tmp_path, config, *given, period_ms=20, sim_time=False, publish=False
    )
    policy, targets = ActionPublisher(ros.node, "arm", NAMES), [TARGET]

    def on_tensor(tensor):
        if tensor.segments["arm"].valid.all():
            policy.send(tensor, np.repeat(targets[-1][None], 50, axis=0))

    subscriber = TensorSubscriber(ros.node, on_tensor)
    for target in (TARGET, -TARGET):
        targets.append(target)

        def is_there(target=target):
            # Of the rows, which are f32.
            return states and abs(np.array(states[-1].position) - target).max() < 1e-6

        fusion.until(is_there, "the arm at its target")
    subscriber.destroy()
    assert fusion.process.stop() == 0 and robot.stop() == 0
    counts = json.loads(robot.output.splitlines()[-1])["follower"]
    assert counts["commands"] > 0 and counts["refused"] == 0
