"""If the lag is at least the largest transport delay, live output equals its replay.

The node records itself, and a subscriber beside it keeps the tensors. `robocache replay` runs the recorded
messages through the same pipeline without ROS: every byte of every tensor message must be the same, but the run of the
node. `robocache verify` compares the digests of all ticks.

The messages come in lockstep with /clock, so the lag is enough by construction, on any machine.

ROBOCACHE_BACKEND selects the backend of both (auto, cpu or cuda; default auto). The replay has CUDA
only with `cuda`. With `auto`, a node on the GPU is compared with a replay on the CPU. ROBOCACHE_RECORDED_S is how
long the robot runs, in its own time (default 6).
"""

import os
from collections import Counter
from itertools import count

import configuration
import numpy as np
import pytest
import recordings
from fusion import MS, T0, nanoseconds, segments, start_fusion, topics_of
from lockstep import Lockstep, Sent, merged, sent_by_robot
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from robocache_ros.msg import FusedTensor
from scipy.spatial.transform import Rotation
from test_frames import LATCHED, transform
from tf2_msgs.msg import TFMessage

BACKEND = os.environ.get("ROBOCACHE_BACKEND", "auto")
RECORDED_S = int(os.environ.get("ROBOCACHE_RECORDED_S", "6"))
RATE_HZ = 50
PERIOD_MS = 1000 // RATE_HZ
PERIOD_NS = PERIOD_MS * MS
#: Time from the first messages until the whole history is filled.
WARM_UP_NS = 1_000 * MS
#: The robot has its own clock. It runs faster than real time, because nothing is measured.
CLOCK = ["--clock", "--clock-start-s", T0 // 10**9, "--clock-hz", 200, "--speed", 4]
#: The node has taken every message within this time of the clock. Some may wait for a transform. With the greatest delay
#: of a message, this is less than the lag.
SETTLE_NS, WAIT_NS, DELAY_NS = 140 * MS, 100 * MS, 25 * MS
VECTOR = {"max_age_ms": 60, "qos": {"reliability": "reliable", "depth": 1000}}
IMAGE = {
    "type": "sensor_msgs/msg/Image",
    "max_age_ms": 200,
    "qos": {"reliability": "reliable", "depth": 50},
}
CONFIG = {
    "rate_hz": RATE_HZ,
    "lag_ms": 400,
    "output": {"dtype": "bf16"},
    "streams": {
        "joints": {
            **VECTOR,
            "type": "sensor_msgs/msg/JointState",
            "topic": "/joint_states",
            "dtype": "f32",
            "history": {"steps": 8, "step_ms": 10},
            "fields": ["position", "velocity"],
            "joints": [f"joint_{i}" for i in range(14)],
        },
        "wheel": {
            **VECTOR,
            "type": "sensor_msgs/msg/JointState",
            "topic": "/joint_states",
            "joints": ["joint_3", "joint_1"],
            "angular": ["joint_3"],
            "stamp_offset_ms": -3.3,
        },
        "wrench": {
            **VECTOR,
            "type": "geometry_msgs/msg/WrenchStamped",
            "topic": "/wrench",
            "strategy": "nearest",
            "history": {"steps": 4, "step_ms": 7},
            "dtype": "f16",
        },
        "imu": {**VECTOR, "type": "sensor_msgs/msg/Imu", "topic": "/imu/data", "dtype": "f32"},
        "pose": {
            **VECTOR,
            "type": "geometry_msgs/msg/PoseStamped",
            "topic": "/pose",
            "dtype": "f32",
            "history": {"steps": 3, "step_ms": 15},
        },
        "twist": {**VECTOR, "type": "geometry_msgs/msg/TwistStamped", "topic": "/twist"},
        "odom": {**VECTOR, "type": "nav_msgs/msg/Odometry", "topic": "/odom", "strategy": "hold"},
        "camera_front": {
            **IMAGE,
            "topic": "/camera_front/image_raw",
            "image": {"resize": {"width": 32, "height": 32}},
        },
        "camera_wrist": {
            **IMAGE,
            "topic": "/camera_wrist/image_raw",
            "strategy": "nearest",
            "history": {"steps": 2, "step_ms": 100},
            "fill": "last",
            "image": {"resize": {"width": 40, "height": 24, "fit": "crop_center"}, "color": "mono"},
        },
        "lidar": {
            **IMAGE,
            "type": "sensor_msgs/msg/PointCloud2",
            "topic": "/lidar/points",
            "cloud": {
                "origin_m": [-6.4, -6.4, -1.6],
                "size_m": 0.4,
                "shape": [32, 32, 16],
                "channels": [{"reduce": "count"}, {"reduce": "mean", "field": "intensity"}],
            },
        },
    },
}
#: The same with the tree of frames. Its transforms keep their order, as those of one publisher do:
#: docs/frames.md says when the order of arrival matters.
FRAMES = {
    "rate_hz": RATE_HZ,
    "lag_ms": 400,
    "tf": {"wait_ms": 300, "odometry": ["/odom"]},
    "streams": {
        # Its pose is in odom, its twist is of the base: both as odom has them.
        "odom": {**VECTOR, "type": "nav_msgs/msg/Odometry", "topic": "/odom", "in_frame": "odom"},
        "imu": {
            **VECTOR,
            "type": "sensor_msgs/msg/Imu",
            "topic": "/imu/data",
            "fields": ["angular_velocity", "linear_acceleration"],
            "in_frame": "odom",
            "history": {"steps": 4, "step_ms": 20},
        },
        "lidar": {
            **CONFIG["streams"]["lidar"],
            "t_base_sensor": "tf",
            "cloud": {
                **CONFIG["streams"]["lidar"]["cloud"],
                # A box that stands still while the robot moves, and one on the IMU.
                "crop": [{"frame": "odom", "min_m": [-4, -4, -2], "max_m": [4, 4, 2]}],
                "self_filter": [{"frame": "imu", "radius_m": 1.5}],
            },
        },
    },
}
FRAMES_ROBOT = """
    --camera-front-hz 0 --camera-wrist-hz 0 --joints-hz 0 --wrench-hz 0
    --lidar-hz 10 --lidar-rings 16 --lidar-columns 256 --imu-hz 100 --odom-hz 100 --tf-hz 50
    --stamp-jitter-ms 2 --drop-share 0.05
    --seed 12
""".split()
ROBOT = """
    --camera-front-hz 15 --camera-wrist-hz 15 --image-width 96 --image-height 64
    --lidar-hz 10 --lidar-rings 16 --lidar-columns 256
    --joints-hz 150 --wrench-hz 150 --imu-hz 100 --pose-hz 50 --twist-hz 50 --odom-hz 50
    --stamp-jitter-ms 2 --drop-share 0.05 --reorder-share 0.05
    --seed 11
""".split()


def inputs_of(config):
    """Topic and type of each input, in the order of their numbers."""
    streams = config["streams"].values()
    found = [given for spec in streams for given in topics_of(spec).items()]
    of_streams = [{**spec, **given} for spec in streams for given in spec.get("inputs", [spec])]
    if any(map(asks_for_frames, of_streams)):
        found += [(topic, "tf2_msgs/msg/TFMessage") for topic in ("/tf", "/tf_static")]
        odometry = config.get("tf", {}).get("odometry", [])
        found += [(topic, "nav_msgs/msg/Odometry") for topic in odometry]
    return found


def asks_for_frames(given):
    """Whether an input, with the keys of its stream, needs the tree of frames."""
    shapes = [s for key in ("crop", "self_filter") for s in given.get("cloud", {}).get(key, [])]
    return (
        given.get("t_base_sensor") == "tf"
        or "in_frame" in given
        or "deskew" in given
        or any(shape.get("frame", "base") not in ("base", "sensor") for shape in shapes)
    )


def replay(folder, bag):
    """Replays a recording, or messages. Returns the tensor messages by tick."""
    number = next(number for number in count() if not (folder / f"replayed{number}").exists())
    out = folder / f"replayed{number}"
    out.mkdir()
    if isinstance(bag, list):
        bag = recordings.write_bag(out / "bag.mcap", bag)
    where = "cuda" if BACKEND == "cuda" else "cpu"
    tensors = recordings.replay(
        configuration.program(),
        bag,
        folder / "config.yaml",
        out / "tensors",
        *("--backend", where),
    )
    return {tick_of(message): message for message in tensors}


def tick_of(message):
    return deserialize_message(message, FusedTensor).tick


def record(ros, start, folder, config, options, static=None):
    """Sends what a robot sends to a node that records itself.

    `static` are transforms that are sent first. Returns the report of the robot, the recording, its messages, and the live
    tensors by tick.
    """
    types = dict(inputs_of(config))
    robots = {topic: kind for topic, kind in types.items() if topic != "/tf_static"}
    clock = {"/clock": "rosgraph_msgs/msg/Clock"}
    options = [*options, *CLOCK, "--duration", RECORDED_S]
    found, report = sent_by_robot(ros, start, folder, robots | clock, *options)
    messages = merged(found, DELAY_NS)
    if static:
        data = serialize_message(TFMessage(transforms=static))
        messages.insert(0, Sent("/tf_static", types["/tf_static"], data))
    runs = folder / "runs"
    given = ["-p", f"backend:={BACKEND}", "-p", f"record_to:={runs}"]
    fusion = start_fusion(
        ros, start, folder, config, *given, period_ms=PERIOD_MS, publish=False, raw=True
    ).warm_up()
    robot = Lockstep(fusion, types, SETTLE_NS, WAIT_NS, {"/tf_static": LATCHED})
    robot.send(messages)
    robot.settle()
    lost = {
        part: fusion.value(part, "lost")
        for part in fusion.status
        if "lost" in fusion.status[part][2]
    }
    fusion.process.stop()
    assert set(lost.values()) == {0}, lost
    assert fusion.ticks[-len(robot.due) :] == robot.due
    losses = [line for line in fusion.process.output.splitlines() if "message dropped" in line]
    # The first messages may be older than the first transform, and the last ones newer than the last
    # transform. The replay must drop them as well.
    ends = ("as the oldest", "as the newest")
    assert all(any(end in line for end in ends) for line in losses), losses
    assert "queue was full" not in fusion.process.output
    recording = recordings.folder_of(runs)
    recorded = recordings.messages_of(recording)
    # If several streams take a topic, the recording has its messages once.
    assert Counter(m[1] for m in recorded if m[1] != "/clock") == Counter(
        m.topic for m in messages if m.topic != "/clock"
    )
    return report, recording, recorded, without_run(fusion.raw)


def without_run(live):
    """The tensor messages of a node by tick, with the run of a replay: 0."""
    (run,) = {deserialize_message(message, FusedTensor).run for message in live.values()}
    assert run != 0
    run = run.to_bytes(8, "little")
    return {tick: message.replace(run, bytes(8), 1) for tick, message in live.items()}


def assert_verified(recording, live):
    """Every tick of the node is the same in the replay."""
    where = "cuda" if BACKEND == "cuda" else "cpu"
    found = recordings.verify(configuration.program(), recording, "--backend", where)
    assert (found["different"], found["unverifiable"], found["missing"]) == ([], 0, 0)
    assert found["equal"] >= len(live) and found["complete"] and not found["problems"], found


def middle_of(messages, topic):
    """The message in the middle of this topic's."""
    found = [message for message in messages if message[1] == topic]
    return found[len(found) // 2]


def changed(message, kind, change):
    """A recorded message after `change(message)`, which may also return another one."""
    arrival, topic, name, data = message
    decoded = deserialize_message(data, kind)
    return arrival, topic, name, serialize_message(change(decoded) or decoded)


def test_live_output_is_the_replay_of_its_recording(ros, start, tmp_path):
    report, recording, messages, live = record(ros, start, tmp_path, CONFIG, ROBOT)
    for fault in ("dropped", "reordered"):
        assert sum(stream[fault] for stream in report.values()) > 20, report
    assert_verified(recording, live)
    replayed = replay(tmp_path, recording)
    compared = assert_equal(CONFIG, live, replayed)

    # The comparison notices a single missing message: a vector, an image or a cloud.
    for name in ("joints", "pose", "camera_front", "lidar"):
        gone = middle_of(messages, CONFIG["streams"][name]["topic"])
        fewer = replay(tmp_path, [m for m in messages if m is not gone])
        different = [tick for tick in compared if fewer[tick] != live[tick]]
        assert 1 <= len(different) < len(compared) / 2, name


@pytest.mark.slow("images")
def test_live_output_with_frames_is_its_replay(ros, start, tmp_path):
    turn = Rotation.from_euler("xyz", [0.1, -0.2, 2.0])
    fixed = [
        transform(1, "base", "base_link", [0.1, 0, 0.2], turn),
        transform(1, "base_link", "imu", [0, 0.3, 0], turn),
    ]
    _, recording, messages, live = record(ros, start, tmp_path, FRAMES, FRAMES_ROBOT, fixed)
    assert_verified(recording, live)
    replayed = replay(tmp_path, recording)
    compared = assert_equal(FRAMES, live, replayed)

    # The comparison notices a transform that is a little different.
    def turned(odometry):
        odometry.pose.pose.orientation.z += 1e-3

    gone = middle_of(messages, "/odom")
    other = replay(tmp_path, [changed(m, Odometry, turned) if m is gone else m for m in messages])
    different = [tick for tick in compared if other[tick] != live[tick]]
    assert 1 <= len(different) < len(compared) / 2


def assert_equal(config, live, replayed):
    """Compares what is published when all inputs have begun. Returns the ticks."""
    compared = sorted(tick for tick in live if tick * PERIOD_NS > T0 + WARM_UP_NS)
    first = (T0 + WARM_UP_NS) // PERIOD_NS + 1
    last = (T0 + RECORDED_S * 10**9 - 1) // PERIOD_NS
    assert compared == list(range(first, last + 1)), "no tick is missing"
    different = [tick for tick in compared if replayed[tick] != live[tick]]
    for tick in different[:3]:
        print(describe_difference(live[tick], replayed[tick]))
    assert not different, f"{len(different)} of {len(compared)} ticks differ"
    assert_not_trivial(config, [live[tick] for tick in compared])
    return compared


def assert_not_trivial(config, messages):
    """The tensors show the robot's motion: valid for the most part, different at each tick, not all zero."""
    decoded = [deserialize_message(message, FusedTensor) for message in messages]
    tensors = [segments(message) for message in decoded]
    for name in config["streams"]:
        valid = np.mean([np.mean(tensor[name].valid) for tensor in tensors])
        assert valid > 0.5, (name, valid)
        assert len({tensor[name].array.tobytes() for tensor in tensors}) > len(tensors) / 10, name
    stamps = [nanoseconds(message.header.stamp) for message in decoded]
    assert all(stamp == m.tick * PERIOD_NS for stamp, m in zip(stamps, decoded))


def describe_difference(live, replayed):
    """Says which segments differ, for the log of a failure."""
    one, other = (deserialize_message(message, FusedTensor) for message in (live, replayed))
    lines = [f"tick {one.tick}: {len(live)} and {len(replayed)} bytes"]
    for (name, a), b in zip(segments(one).items(), segments(other).values()):
        if a.valid != b.valid or a.age_ns != b.age_ns or np.any(a.array != b.array):
            lines.append(f"  {name}: {a.valid} {a.age_ns} live, {b.valid} {b.age_ns} replayed")
    return "\n".join(lines)
