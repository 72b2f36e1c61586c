"""Behind a simulator like Isaac Sim: its topics, its clock from zero, its stops and plays.

`sensor_sim --isaac` behaves as the ROS 2 bridge does. Each time that the simulation plays again, the clock starts
from zero and the robot moves on. So a value of the time before a stop would be wrong after it.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY
from fusion import RELIABLE, nanoseconds, segments, start_fusion, subscribe_tensors, type_of
from sensor_msgs.msg import Image, PointCloud2

pytestmark = pytest.mark.alone
CONFIG = REPOSITORY / "config" / "isaac_sim.yaml"
SEED = 4
WIDTH, HEIGHT = 64, 48
SECOND = 10**9
#: Greatest distance of two messages of joints, IMU and odometry [s]: a step of the simulator.
STEP_S = 1 / 60
PLAYS, STOPPED_S = 3, 1.0
#: Where the lidar is in the robot's frame, as /tf says.
LIDAR_PLACE = np.array([0.25, 0.0, 0.5])


def configuration():
    """The configuration of the repository, for the size of the camera and the joints of the robot."""
    config = yaml.safe_load(CONFIG.read_text())
    for stream in ("rgb", "depth"):
        resize = config["streams"][stream]["image"]["resize"]
        resize.update(width=WIDTH, height=HEIGHT, fit="stretch")
    config["streams"]["joints"]["joints"] = [f"joint_{i}" for i in range(14)]
    # Targets between the simulator's steps, so that values are interpolated; and time enough for a
    # busy machine.
    config["lag_ms"] = 158
    for spec in config["streams"].values():
        spec["max_age_ms"] = 250
    # The bound of an error holds between neighbouring steps.
    for stream in ("joints", "imu", "odom"):
        config["streams"][stream]["max_gap_ms"] = 20
    return config


def by_play(messages, ns_of):
    """Groups messages by the play that they belong to: at each, their time starts again."""
    plays = [[]]
    for message in messages:
        if plays[-1] and ns_of(message) < ns_of(plays[-1][-1]) - SECOND:
            plays.append([])
        plays[-1].append(message)
    return plays


def stamps(plays):
    """Messages of each play by their stamp."""
    return [{nanoseconds(m.header.stamp): m for m in messages} for messages in plays]


def truth_at(start, instants):
    """The true channels by stream at these instants of the robot, and the bounds of their bends."""
    listed = ",".join(map(str, instants))
    process = start("sensor_sim", "--seed", SEED, f"--truth-at={listed}")
    assert process.wait() == 0
    found = json.loads(process.output.splitlines()[-1])
    names = ("joints", "imu", "odom")
    of = {name: np.array([at[name] for at in found["instants"]]) for name in names}
    return of, {name: np.array(found["bend"][name]) for name in names}


#: Where the quaternion of a stream is.
QUATERNION = {"imu": slice(0, 4), "odom": slice(3, 7)}


def check_vectors(start, plays, play_ns):
    """Every valid value of joints, IMU and odometry is the truth at its instant, within the bound."""
    steps = [
        # If no newer message has come in time, the newest one is held: its age is positive.
        (number, name, seen.target_ns[-1] - max(seen.age_ns[-1], 0), seen.array[-1])
        for number, tensors in enumerate(plays)
        for tensor in tensors
        for name, seen in tensor.items()
        if name in ("joints", "imu", "odom") and seen.valid[-1]
    ]
    counts = {(number, name) for number, name, _, _ in steps}
    assert len(counts) == 3 * PLAYS, f"each stream is valid in each play: {counts}"
    instants = sorted({target + number * play_ns for number, _, target, _ in steps})
    truth, bend = truth_at(start, instants)
    at = {ns: i for i, ns in enumerate(instants)}
    worst, where = 0.0, None
    for number, name, target, got in steps:
        expected = truth[name][at[target + number * play_ns]].copy()
        if name in QUATERNION:
            part = QUATERNION[name]
            expected[part] *= np.sign(expected[part] @ got[part])
        bound = 1.05 * STEP_S**2 / 8 * bend[name] + 1e-6 * np.maximum(np.abs(expected), 1)
        error = np.max(np.abs(got - expected) / bound)
        if error > worst:
            worst, where = error, (number, name, target)
    assert worst <= 1.0, f"an error of {worst} times the bound: {where}"
    assert worst > 0.2, "the bound is tight"
    return len(steps)


def pixels(message):
    return np.frombuffer(bytes(message.data), np.uint8).reshape(HEIGHT, WIDTH, 3)


def check_rgb(seen, message):
    expected = pixels(message).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(seen.array[-1], expected)


def check_depth(seen, message):
    assert message.encoding == "32FC1"
    metres = np.frombuffer(bytes(message.data), "<f4").reshape(1, HEIGHT, WIDTH)
    there = np.isfinite(metres) & (metres <= 20)
    assert 0.2 < there.mean() < 0.9
    np.testing.assert_array_equal(seen.array[-1], np.where(there, metres, np.float32(0)))


def check_cloud(seen, message):
    assert (message.point_step, len(message.fields), message.height) == (12, 3, 1)
    spec = yaml.safe_load(CONFIG.read_text())["streams"]["point_cloud"]["cloud"]
    points = np.frombuffer(bytes(message.data), "<f4").reshape(-1, 3).astype(float) + LIDAR_PLACE
    at = np.floor((points - spec["origin_m"]) / spec["size_m"]).astype(int)
    inside = np.all((at >= 0) & (at < spec["shape"]), axis=1)
    expected = np.zeros(spec["shape"][::-1])
    x, y, z = at[inside].T
    np.add.at(expected, (z, y, x), 1)
    count = seen.array[-1][0]
    # Points on a face of a voxel may be rounded to either side.
    assert np.abs(count - expected).sum() <= 0.01 * expected.sum()
    assert expected.sum() > 1000


#: The topics that are not recorded.
OTHERS = [
    ("rosgraph_msgs/msg/Clock", "/clock"),
    ("sensor_msgs/msg/JointState", "/joint_states"),
    ("sensor_msgs/msg/Imu", "/imu"),
    ("nav_msgs/msg/Odometry", "/odom"),
    ("tf2_msgs/msg/TFMessage", "/tf"),
]
#: Why messages around a stop may be dropped: they are from before the stop; they are stamped zero
#: before the clock has read zero; a cloud comes before the first transform. A busy machine drops
#: images and clouds, too.
ALLOWED = ("cleared", "late", "zero_stamp", "no_transform", "overload")
CHECKS = {"rgb": check_rgb, "depth": check_depth, "point_cloud": check_cloud}


def check_large(plays, sent):
    """Every valid image and grid equals the message with its stamp, in its play."""
    checked = dict.fromkeys(CHECKS, 0)
    for number, tensors in enumerate(plays):
        for tensor in tensors[::5]:
            for name, check in CHECKS.items():
                seen = tensor[name]
                if seen.valid[-1]:
                    stamp = seen.target_ns[-1] - seen.age_ns[-1]
                    message = sent[name][number].get(stamp)
                    # This test is slower than the node, and may lose messages on a busy machine.
                    if message is not None:
                        check(seen, message)
                        checked[name] += 1
    return checked


@pytest.mark.parametrize(("speed", "play_s"), [(0.3, 2.5), (2.0, 6.0)])
def test_values_are_true_through_stops_and_plays(ros, start, tmp_path, speed, play_s):
    fusion = start_fusion(ros, start, tmp_path, configuration(), period_ms=100 / 3, publish=False)
    # The simulator has the only clock.
    ros.node.destroy_publisher(fusion._clock)
    tensors = subscribe_tensors(ros, "fused_tensor")
    recorded = {name: [] for name in CHECKS}
    for name in CHECKS:
        kind = PointCloud2 if name == "point_cloud" else Image
        ros.node.create_subscription(kind, f"/{name}", recorded[name].append, RELIABLE)
    # The robot begins when every topic has two subscribers, of which the node is one.
    for kind, topic in OTHERS:
        ros.node.create_subscription(type_of(kind), topic, lambda _: None, RELIABLE)
    fusion.process.wait_for("nothing comes on /clock: no ticks")
    robot = start(
        "sensor_sim",
        "--isaac",
        *("--seed", SEED, "--speed", speed),
        *("--play-s", play_s, "--stopped-s", STOPPED_S),
        *("--duration", PLAYS * play_s + (PLAYS - 1) * STOPPED_S * speed),
        *("--image-width", WIDTH, "--image-height", HEIGHT),
        *("--lidar-rings", 16, "--lidar-columns", 256),
        *("--wait-subscribers", 2),
    )
    fusion.until(lambda: not robot.running, "the end of the robot", 180)
    assert robot.wait() == 0
    ros.spin_for(1)

    plays = by_play(tensors, lambda tensor: nanoseconds(tensor.header.stamp))
    assert len(plays) == PLAYS
    missed = 0
    for messages in plays:
        first = nanoseconds(messages[0].header.stamp)
        assert first < SECOND, "the ticks start again"
        ticks = [message.tick for message in messages]
        assert ticks == sorted(set(ticks))
        missed += ticks[-1] - ticks[0] + 1 - len(ticks)
    counted = sum(
        fusion.value("tick", key) for key in ("overruns", "held_back", "unsent", "unread")
    )
    assert missed <= counted, "each tick is published or counted"
    seen = [[segments(message) for message in messages] for messages in plays]
    values = check_vectors(start, seen, round(play_s * SECOND))
    assert values > 0.2 * 3 * len(tensors), "many values are valid"
    sent = {
        name: stamps(by_play(messages, lambda m: nanoseconds(m.header.stamp)))
        for name, messages in recorded.items()
    }
    assert all(len(of_play) == PLAYS for of_play in sent.values())
    checked = check_large(seen, sent)
    assert min(checked.values()) > 3, checked
    assert fusion.value("tick", "clock_jumps") == PLAYS - 1
    for stream in ("joints", "imu", "odom", "rgb", "depth", "point_cloud"):
        _, _, found = fusion.status[stream]
        lost = fusion.value(stream, "lost"), fusion.value(stream, "queue_full")
        assert lost == (0, 0), (stream, robot.output)
        keys = [key for key in found if key.startswith("dropped.") and found[key] != "0"]
        # Messages that are on their way when the simulation stops are from before the stop (cleared).
        # So are messages that are published just before the clock's first reading.
        reasons = {f"dropped.{reason}" for reason in ALLOWED}
        assert set(keys) <= reasons, (stream, keys)
        few = sum(int(found[key]) for key in keys if key != "dropped.overload")
        assert few <= 3 * (PLAYS - 1), (stream, found)


def test_the_configuration_is_that_of_the_documentation():
    topics = {spec["topic"] for spec in yaml.safe_load(CONFIG.read_text())["streams"].values()}
    table = Path(REPOSITORY / "docs" / "isaac_sim.md").read_text()
    assert all(f"| `{topic}` |" in table for topic in topics), topics
