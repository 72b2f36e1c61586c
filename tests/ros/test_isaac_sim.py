"""Behind a simulator like Isaac Sim: its topics, its clock from zero, its stops and plays.

`sensor_sim --isaac` behaves as the ROS 2 bridge does. Each time that the simulation plays again, the clock starts
from zero and the robot moves on. So a value of the time before a stop would be wrong after it.

Its messages reach the node in lockstep with its clock, so each tick comes, and each value in it can be known.
"""

import json
from pathlib import Path

import numpy as np
import yaml
from conftest import REPOSITORY
from fusion import MS, segments, start_fusion
from lockstep import Lockstep, merged, sent_by_robot
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image, PointCloud2

CONFIG = REPOSITORY / "config" / "isaac_sim.yaml"
SEED = 4
WIDTH, HEIGHT = 64, 48
#: Greatest distance of two messages of joints, IMU and odometry [s]: a step of the simulator.
STEP_S = 1 / 60
PERIOD_NS = 10**9 // 30
PLAYS, PLAY_NS = 3, 1_500 * MS
LAG_NS = 158 * MS
#: The node has taken every message within this time of the clock. A cloud may wait for the transform of the next step.
#: Both together are less than the lag.
SETTLE_NS, WAIT_NS = 100 * MS, 34 * MS
#: Where the lidar is in the robot's frame, as /tf says.
LIDAR_PLACE = np.array([0.25, 0.0, 0.5])
VECTORS = ("joints", "imu", "odom")


def configuration():
    """The configuration of the repository, for the size of the camera and the joints of the robot."""
    config = yaml.safe_load(CONFIG.read_text())
    for stream in ("rgb", "depth"):
        resize = config["streams"][stream]["image"]["resize"]
        resize.update(width=WIDTH, height=HEIGHT, fit="stretch")
    config["streams"]["joints"]["joints"] = [f"joint_{i}" for i in range(14)]
    # Targets between the simulator's steps, so that values are interpolated.
    # A cloud waits for its transform as long as the lag.
    config["lag_ms"] = LAG_NS / MS
    # The bound of an error holds between neighbouring steps.
    for stream in VECTORS:
        config["streams"][stream]["max_gap_ms"] = 20
    return config


def types_of(config):
    """The topics of the robot with their types; `/clock` first."""
    streams = {spec["topic"]: spec["type"] for spec in config["streams"].values()}
    return {
        "/clock": "rosgraph_msgs/msg/Clock",
        **streams,
        "/tf": "tf2_msgs/msg/TFMessage",
    }


def plays_of(found):
    """The messages of each play: on each topic, a play begins where the stamps start again."""
    plays = [{topic: [] for topic in found} for _ in range(PLAYS)]
    for topic, messages in found.items():
        last_ns, play = -1, 0
        for sent in messages:
            play += sent.stamp_ns < last_ns
            last_ns = sent.stamp_ns
            plays[play][topic].append(sent)
    return plays


def stamped_on(play, topic, kind):
    """The messages of a topic by their stamp."""
    return {sent.stamp_ns: deserialize_message(sent.data, kind) for sent in play[topic]}


def truth_at(start, instants):
    """The true channels by stream at these instants of the robot, and the bounds of their bends."""
    listed = ",".join(map(str, instants))
    process = start("sensor_sim", "--seed", SEED, f"--truth-at={listed}")
    assert process.wait() == 0
    found = json.loads(process.output.splitlines()[-1])
    of = {name: np.array([at[name] for at in found["instants"]]) for name in VECTORS}
    return of, {name: np.array(found["bend"][name]) for name in VECTORS}


#: Where the quaternion of a stream is.
QUATERNION = {"imu": slice(0, 4), "odom": slice(3, 7)}


def check_vectors(start, plays):
    """Each value of joints, IMU and odometry is the truth at its target, within the bound.

    It is valid from the first target on at which the play had begun.
    """
    steps = []
    for number, tensors in enumerate(plays):
        for tick, tensor in enumerate(tensors):
            for name in VECTORS:
                seen = tensor[name]
                target = tick * PERIOD_NS - LAG_NS
                assert (seen.target_ns, seen.valid) == ([target], [target >= 0]), (number, name)
                if target >= 0:
                    steps.append((number, name, target, seen.array[-1]))
    instants = sorted({target + number * PLAY_NS for number, _, target, _ in steps})
    truth, bend = truth_at(start, instants)
    at = {ns: i for i, ns in enumerate(instants)}
    worst, where = 0.0, None
    for number, name, target, got in steps:
        expected = truth[name][at[target + number * PLAY_NS]].copy()
        if name in QUATERNION:
            part = QUATERNION[name]
            expected[part] *= np.sign(expected[part] @ got[part])
        bound = 1.05 * STEP_S**2 / 8 * bend[name] + 1e-6 * np.maximum(np.abs(expected), 1)
        error = np.max(np.abs(got - expected) / bound)
        if error > worst:
            worst, where = error, (number, name, target)
    assert worst <= 1.0, f"an error of {worst} times the bound: {where}"
    assert worst > 0.2, "the bound is tight"


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


CHECKS = {
    "rgb": (Image, check_rgb),
    "depth": (Image, check_depth),
    "point_cloud": (PointCloud2, check_cloud),
}


def check_large(plays, sent):
    """Each image and each grid is that of the newest message of its play before the target."""
    for name, (kind, check) in CHECKS.items():
        for tensors, messages in zip(plays, sent):
            found = stamped_on(messages, f"/{name}", kind)
            for tick, tensor in enumerate(tensors):
                seen, target = tensor[name], tick * PERIOD_NS - LAG_NS
                assert seen.valid == [target >= 0], (name, tick)
                if target >= 0:
                    newest = max(stamp for stamp in found if stamp <= target)
                    assert seen.age_ns == [target - newest], (name, tick)
                    if tick % 5 == 0:
                        check(seen, found[newest])


def test_values_are_true_through_stops_and_plays(ros, start, tmp_path):
    config = configuration()
    types = types_of(config)
    found, _ = sent_by_robot(
        ros,
        start,
        tmp_path,
        types,
        "--isaac",
        *("--seed", SEED, "--speed", 4, "--play-s", PLAY_NS / 1e9, "--stopped-s", 0.1),
        *("--duration", PLAYS * PLAY_NS / 1e9 + (PLAYS - 1) * 0.1 * 4),
        *("--image-width", WIDTH, "--image-height", HEIGHT),
        *("--lidar-rings", 16, "--lidar-columns", 256),
    )
    plays = plays_of(found)
    fusion = start_fusion(ros, start, tmp_path, config, period_ms=PERIOD_NS / MS, publish=False)
    fusion.period_ns = PERIOD_NS
    fusion.process.wait_for("nothing comes on /clock: no ticks")
    # Under another clock, which the plays set back.
    fusion.warm_up()
    del types["/clock"]
    robot = Lockstep(fusion, types, SETTLE_NS, WAIT_NS)
    seen = []
    for play in plays:
        robot.send(merged(play))
        assert robot.due == list(range(PLAY_NS // PERIOD_NS)), (
            "the ticks start again, and each comes"
        )
        seen.append([segments(fusion.tensors[tick]) for tick in robot.due])
        robot.due = []
    robot.settle()
    check_vectors(start, seen)
    check_large(seen, plays)
    assert fusion.value("tick", "clock_jumps") == PLAYS
    for key in ("overruns", "held_back", "unsent"):
        assert fusion.value("tick", key) == 0, key
    for stream in config["streams"]:
        for key in ("lost", "queue_full", "dropped"):
            assert fusion.value(stream, key) == 0, (stream, fusion.status[stream])


def test_the_configuration_is_that_of_the_documentation():
    topics = {spec["topic"] for spec in yaml.safe_load(CONFIG.read_text())["streams"].values()}
    table = Path(REPOSITORY / "docs" / "node.md").read_text()
    assert all(f"| `{topic}` |" in table for topic in topics), topics
