"""If the lag is at least the largest transport delay, live output equals its replay.

The node records itself, and a subscriber beside it keeps the tensors. `robocache replay` runs the recorded
messages through the same pipeline without ROS: every byte of every tensor message must be the same.
`robocache verify` compares the digests of all ticks.

ROBOCACHE_BACKEND selects the backend of both (auto, cpu or cuda; default auto). The replay has CUDA
only with `cuda`. With `auto`, a node on the GPU is compared with a replay on the CPU. ROBOCACHE_RECORDED_S is how
long the robot runs (default 6).
"""

import json
import os
from itertools import count

import configuration
import numpy as np
import pytest
import recordings
from fusion import (
    MS,
    PATIENCE,
    RELIABLE,
    nanoseconds,
    segments,
    time_message,
    topics_of,
    write_config,
)
from geometry_msgs.msg import Vector3
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from robocache_ros.msg import FusedTensor
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Imu, PointCloud2
from test_frames import LATCHED, transform
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.alone
BACKEND = os.environ.get("ROBOCACHE_BACKEND", "auto")
RECORDED_S = int(os.environ.get("ROBOCACHE_RECORDED_S", "6"))
RATE_HZ = 50
#: Time from the first messages until the whole history is filled.
WARM_UP_NS = 1_000 * MS
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
    --send-jitter-ms 25 --stamp-jitter-ms 2 --drop-share 0.05
    --wait-subscribers 1 --depth 200 --seed 12
""".split()
#: Clouds of two lidars in one grid, one of them deskewed by a gyro; and images that are undistorted. The tree has
#: its defaults.
CAMERA_INFO = "/camera_front/camera_info"
FRONT_CAMERA = CONFIG["streams"]["camera_front"]
BENT = {
    "rate_hz": RATE_HZ,
    "lag_ms": 400,
    "streams": {
        "surroundings": {
            **IMAGE,
            "type": "sensor_msgs/msg/PointCloud2",
            "inputs": [
                {
                    "topic": "/lidar/points",
                    "t_base_sensor": {"translation_m": [0.3, 0, 0.5]},
                    "deskew": {"gyro": "/imu/data", "sensor": "velodyne"},
                },
                {
                    "topic": "/rear/points",
                    "t_base_sensor": {"rotation_rpy_deg": [0, 0, 170]},
                    "max_age_ms": 150,
                },
            ],
            "valid_when": ["/lidar/points"],
            "history": {"steps": 2, "step_ms": 60},
            "cloud": {
                **CONFIG["streams"]["lidar"]["cloud"],
                "channels": [
                    {"reduce": "count"},
                    {"reduce": "mean", "field": "x"},
                    {"reduce": "last", "field": "intensity"},
                ],
            },
        },
        "camera": {
            **FRONT_CAMERA,
            "image": {**FRONT_CAMERA["image"], "undistort": {"camera_info": CAMERA_INFO}},
        },
    },
}
BENT_ROBOT = """
    --camera-front-hz 15 --image-width 96 --image-height 64 --camera-wrist-hz 0 --joints-hz 0 --wrench-hz 0
    --lidar-hz 10 --lidar-rings 16 --lidar-columns 256 --imu-hz 100 --tf-hz 50
    --send-jitter-ms 25 --stamp-jitter-ms 2 --drop-share 0.05
    --wait-subscribers 1 --depth 200 --seed 13
""".split()
#: The rear lidar sees the same as the other one, a little earlier. It sends this number of clouds, is then silent for
#: the same number, and so on.
REAR_CLOUDS, REAR_EARLIER_NS = 10, 37 * MS
ROBOT = """
    --camera-front-hz 15 --camera-wrist-hz 15 --image-width 96 --image-height 64
    --lidar-hz 10 --lidar-rings 16 --lidar-columns 256
    --joints-hz 150 --wrench-hz 150 --imu-hz 100 --pose-hz 50 --twist-hz 50 --odom-hz 50
    --send-jitter-ms 25 --stamp-jitter-ms 2 --drop-share 0.05 --reorder-share 0.05
    --wait-subscribers 1 --depth 200 --seed 11
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
    gyros = [given.get("deskew", {}).get("gyro") for given in of_streams]
    undistorted = [spec.get("image", {}).get("undistort", {}) for spec in streams]
    cameras = [camera.get("camera_info") for camera in undistorted]
    for topics, kind in [(gyros, "sensor_msgs/msg/Imu"), (cameras, "sensor_msgs/msg/CameraInfo")]:
        # Streams share them.
        found += [(topic, kind) for topic in dict.fromkeys(topics) if topic]
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


class Recorder:
    """Keeps the serialized tensors."""

    def __init__(self, node):
        self.tensors = []
        node.create_subscription(FusedTensor, "fused_tensor", self._on_tensor, RELIABLE, raw=True)

    def _on_tensor(self, data):
        self.tensors.append(bytes(data))


def replay(folder, config_file, bag, last=0):
    """Replays a recording, or messages up to the tick `last`. Returns the tensor messages by tick."""
    number = next(number for number in count() if not (folder / f"replayed{number}").exists())
    out = folder / f"replayed{number}"
    out.mkdir()
    if isinstance(bag, list):
        # The bag ends with its last message, on whatever topic.
        end = (last * 10**9 // RATE_HZ, "/end", "std_msgs/msg/Empty", bytes([0, 1, 0, 0, 0]))
        bag = recordings.write_bag(out / "bag.mcap", [*bag, end])
    where = "cuda" if BACKEND == "cuda" else "cpu"
    tensors = recordings.replay(
        configuration.program(), bag, config_file, out / "tensors", "--backend", where
    )
    return {tick_of(message): message for message in tensors}


def tick_of(message):
    return deserialize_message(message, FusedTensor).tick


def record(ros, start, folder, config, options):
    """Runs the robot and the node, which records itself. Returns (report of the robot, configuration file,
    recording, its messages, tensors by tick)."""
    config_file = write_config(folder, config)
    recorder = Recorder(ros.node)
    runs = folder / "runs"
    given = {"config_file": config_file, "backend": BACKEND, "record_to": runs}
    given = [word for name, value in given.items() for word in ("-p", f"{name}:={value}")]
    node = start("fusion_node", "--ros-args", *given)
    assert ros.spin_until(lambda: recorder.tensors), node.output
    robot = start("sensor_sim", *options, "--duration", RECORDED_S)
    assert ros.spin_until(lambda: not robot.running, PATIENCE + RECORDED_S), robot.output
    # For queued messages, and for the ticks whose targets the lag puts before the last messages.
    ros.spin_for(0.5)
    assert robot.wait() == 0
    node.stop()
    losses = [line for line in node.output.splitlines() if "message dropped" in line]
    # The first messages may be older than the first transform, and the last ones newer than the last
    # transform. The replay must drop them as well.
    ends = ("as the oldest", "as the newest")
    assert all(any(end in line for end in ends) for line in losses), losses
    assert "queue was full" not in node.output
    report = json.loads(robot.output.splitlines()[-1])
    tensors = {tick_of(message): message for message in recorder.tensors}
    recording = recordings.folder_of(runs)
    return report, config_file, recording, recordings.messages_of(recording), tensors


def assert_verified(recording, live):
    """Every tick of the node is the same in the replay."""
    where = "cuda" if BACKEND == "cuda" else "cpu"
    found = recordings.verify(configuration.program(), recording, "--backend", where)
    assert (found["different"], found["unverifiable"], found["missing"]) == ([], 0, 0)
    assert found["equal"] >= len(live) and found["complete"] and not found["problems"], found


@pytest.fixture
def recording(ros, start, tmp_path):
    """Runs the robot and the node. Returns (configuration file, recording, messages, tensors by tick)."""
    report, *recorded_run = record(ros, start, tmp_path, CONFIG, ROBOT)
    # Two streams take the joints' topic, and the recording has each message once.
    recorded = len(recorded_run[2])
    assert recorded == sum(stream["sent"] for stream in report.values()), report
    for fault in ("dropped", "reordered"):
        assert sum(stream[fault] for stream in report.values()) > 20, report
    return recorded_run


def test_live_output_is_the_replay_of_its_recording(recording, tmp_path):
    config_file, recorded, messages, live = recording
    assert_verified(recorded, live)
    replayed = replay(tmp_path, config_file, recorded)
    compared = assert_equal(CONFIG, messages, live, replayed)

    # The comparison notices a single missing message: a vector, an image or a cloud.
    middle = compared[len(compared) // 2] * 10**9 // RATE_HZ
    for name in ("joints", "pose", "camera_front", "lidar"):
        topic = CONFIG["streams"][name]["topic"]
        gone = next(m for m in messages if m[1] == topic and m[0] > middle - 500 * MS)
        left = [m for m in messages if m is not gone]
        fewer = replay(tmp_path, config_file, left, compared[-1])
        different = [tick for tick in compared if fewer[tick] != live[tick]]
        assert 1 <= len(different) < len(compared) / 2, name


def test_live_output_with_frames_is_its_replay(ros, start, tmp_path):
    turn = Rotation.from_euler("xyz", [0.1, -0.2, 2.0])
    fixed = [
        transform(1, "base", "base_link", [0.1, 0, 0.2], turn),
        transform(1, "base_link", "imu", [0, 0.3, 0], turn),
    ]
    latched = ros.node.create_publisher(TFMessage, "/tf_static", LATCHED)
    latched.publish(TFMessage(transforms=fixed))
    report, *recorded = record(ros, start, tmp_path, FRAMES, FRAMES_ROBOT)
    config_file, recording, messages, live = recorded
    assert len(messages) == sum(s["sent"] for s in report.values()) + 1
    assert_verified(recording, live)
    replayed = replay(tmp_path, config_file, recording)
    compared = assert_equal(FRAMES, messages, live, replayed)

    # The comparison notices a transform that is a little different.
    middle = compared[len(compared) // 2] * 10**9 // RATE_HZ - 500 * MS
    place, (arrival, topic, kind, data) = next(
        (i, m) for i, m in enumerate(messages) if m[1] == "/odom" and m[0] > middle
    )
    message = deserialize_message(data, Odometry)
    message.pose.pose.orientation.z += 1e-3
    changed = [*messages]
    changed[place] = (arrival, topic, kind, serialize_message(message))
    other = replay(tmp_path, config_file, changed, compared[-1])
    different = [tick for tick in compared if other[tick] != live[tick]]
    assert 1 <= len(different) < len(compared) / 2


def test_live_output_of_merged_clouds_and_undistorted_images_is_its_replay(ros, start, tmp_path):
    turn = Rotation.from_euler("xyz", [0.1, -0.2, 2.0])
    latched = ros.node.create_publisher(TFMessage, "/tf_static", LATCHED)
    latched.publish(TFMessage(transforms=[transform(1, "base_link", "imu", [0, 0.3, 0], turn)]))
    # Like a driver that sends a CameraInfo with every image.
    cameras = ros.node.create_publisher(CameraInfo, CAMERA_INFO, LATCHED)
    cameras.publish(camera_info())
    ros.node.create_timer(1 / 15, lambda: cameras.publish(camera_info()))
    rear = ros.node.create_publisher(PointCloud2, "/rear/points", RELIABLE)
    heard, sent_again = count(), []

    def send_again(cloud):
        if next(heard) // REAR_CLOUDS % 2 == 0:
            cloud.header.stamp = time_message(nanoseconds(cloud.header.stamp) - REAR_EARLIER_NS)
            sent_again.append(cloud.header.stamp)
            rear.publish(cloud)

    ros.node.create_subscription(PointCloud2, "/lidar/points", send_again, RELIABLE)
    report, *recorded = record(ros, start, tmp_path, BENT, BENT_ROBOT)
    config_file, recording, messages, live = recorded
    said = [message for message in messages if message[1] == CAMERA_INFO]
    sent = sum(stream["sent"] for stream in report.values()) + len(sent_again)
    assert len(said) > RECORDED_S and len(messages) - len(said) == sent + 1
    assert len(sent_again) >= REAR_CLOUDS
    assert_verified(recording, live)
    replayed = replay(tmp_path, config_file, recording)
    compared = assert_equal(BENT, messages, live, replayed)
    # With both lidars, and while one of them is silent.
    steps = [segments(deserialize_message(live[tick], FusedTensor)) for tick in compared]
    bits = {bits for step in steps for bits in step["surroundings"].inputs_valid}
    assert {0b01, 0b11} <= bits <= {0, 0b01, 0b11}

    def replay_of(change):
        """How many ticks differ if `change(topic, data)` replaces data; None leaves a message out."""
        changed = [(at, topic, kind, change(topic, data)) for at, topic, kind, data in messages]
        changed = [message for message in changed if message[3] is not None]
        other = replay(tmp_path, config_file, changed, compared[-1])
        return sum(other[tick] != live[tick] for tick in compared)

    # The comparison notices one missing cloud of the rear lidar, ...
    begin = compared[0] * 10**9 // RATE_HZ - 300 * MS
    gone = next(m for m in messages if m[1] == "/rear/points" and m[0] > begin)
    missing = replay_of(lambda topic, data: None if data is gone[3] else data)
    assert 1 <= missing < len(compared) / 2

    # ... a gyro that reads zero, and another lens.
    def still(topic, data):
        if topic != "/imu/data":
            return data
        message = deserialize_message(data, Imu)
        message.angular_velocity = Vector3()
        return serialize_message(message)

    def other_lens(topic, data):
        return serialize_message(camera_info(k1=-0.29)) if topic == CAMERA_INFO else data

    for change in (still, other_lens):
        assert replay_of(change) > len(compared) / 2


def camera_info(k1=-0.3):
    """The front camera of the robot, with a lens."""
    k = [70.0, 0.0, 47.5, 0.0, 71.0, 31.5, 0.0, 0.0, 1.0]
    p = [60.0, 0.0, 48.0, 0.0, 0.0, 61.0, 32.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    d = [k1, 0.1, 0.001, -0.002, 0.0]
    info = CameraInfo(width=96, height=64, distortion_model="plumb_bob", d=d, k=k, p=p)
    info.header.frame_id = "camera_front"
    return info


def assert_equal(config, messages, live, replayed):
    """Compares what is published when all inputs have begun. Returns the ticks."""
    firsts = {}
    for arrival, topic, _, _ in messages:
        firsts.setdefault(topic, arrival)
    assert firsts.keys() == {topic for topic, _ in inputs_of(config)}
    from_tick = (max(firsts.values()) + WARM_UP_NS) * RATE_HZ // 10**9
    compared = sorted(tick for tick in live if tick > from_tick)
    assert len(compared) > 0.2 * (RECORDED_S - 1) * RATE_HZ, "the recorder kept up"
    different = [tick for tick in compared if replayed[tick] != live[tick]]
    for tick in different[:3]:
        print(describe_difference(live[tick], replayed[tick]))
    assert not different, f"{len(different)} of {len(compared)} ticks differ"
    assert_not_trivial(config, [live[tick] for tick in compared])
    return compared


def assert_not_trivial(config, messages):
    """
    The tensors show the robot's motion: valid for the most part (how many are valid depends on how
    late a loaded machine sends), different at each tick, not all zero.
    """
    decoded = [deserialize_message(message, FusedTensor) for message in messages]
    tensors = [segments(message) for message in decoded]
    for name in config["streams"]:
        valid = np.mean([np.mean(tensor[name].valid) for tensor in tensors])
        assert valid > 0.5, (name, valid)
        assert len({tensor[name].array.tobytes() for tensor in tensors}) > len(tensors) / 10, name
    stamps = [nanoseconds(message.header.stamp) for message in decoded]
    assert all(stamp == m.tick * 10**9 // RATE_HZ for stamp, m in zip(stamps, decoded))


def describe_difference(live, replayed):
    """Says which segments differ, for the log of a failure."""
    one, other = (deserialize_message(message, FusedTensor) for message in (live, replayed))
    lines = [f"tick {one.tick}: {len(live)} and {len(replayed)} bytes"]
    for (name, a), b in zip(segments(one).items(), segments(other).values()):
        if a.valid != b.valid or a.age_ns != b.age_ns or np.any(a.array != b.array):
            lines.append(f"  {name}: {a.valid} {a.age_ns} live, {b.valid} {b.age_ns} replayed")
    return "\n".join(lines)
