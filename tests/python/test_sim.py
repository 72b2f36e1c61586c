"""Tests of the synthetic robot with rclpy: its messages, and the node that publishes them.

They need a sourced ROS 2 and a built `sensor_sim`; `make test` provides both.
"""

import importlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import processes
import pytest
import rclpy
import waiting
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState, PointCloud2

REPOSITORY = Path(__file__).resolve().parents[2]


def sensor_sim():
    """The executable: the one on the path, else the newest in target/."""
    if found := shutil.which("sensor_sim"):
        return found
    built = [REPOSITORY / "target" / profile / "sensor_sim" for profile in ("release", "debug")]
    built = [path for path in built if path.exists()]
    assert built, "sensor_sim is not built: cargo build --release --bin sensor_sim"
    return str(max(built, key=lambda path: path.stat().st_mtime))


STREAMS = "clock joints wrench imu pose twist odom camera_front camera_wrist lidar depth tf".split()


@pytest.mark.parametrize("stream", STREAMS)
def test_rclpy_reads_every_message_and_writes_the_same(messages, stream):
    ros_type, cdr = messages[stream]
    package, _, name = ros_type.split("/")
    kind = getattr(importlib.import_module(f"{package}.msg"), name)
    message = deserialize_message(cdr, kind)
    again = serialize_message(message)
    # Fast CDR rounds the length of a message up to four bytes and does not set padding bytes.
    assert 0 <= len(again) - len(cdr) < 4
    ours, theirs = (np.frombuffer(data[: len(cdr)], np.uint8) for data in (cdr, again))
    differing = ours != theirs
    assert not ours[differing].any() and differing.sum() <= 64
    assert deserialize_message(again, kind) == message
    if stream != "clock":
        stamped = message.transforms[0] if stream == "tf" else message
        assert stamped.header.stamp.sec == 1_795_000_000


def test_large_messages_are_as_declared(messages):
    image = deserialize_message(messages["camera_front"][1], Image)
    assert (image.height, image.width, image.encoding, image.step) == (480, 640, "rgb8", 1920)
    assert image.header.frame_id == "camera_front" and len(image.data) == 480 * 1920
    cloud = deserialize_message(messages["lidar"][1], PointCloud2)
    assert (cloud.height, cloud.width, cloud.point_step, cloud.row_step) == (128, 1024, 20, 20480)
    assert [(f.name, f.offset, f.datatype, f.count) for f in cloud.fields] == [
        (name, 4 * i, 7, 1) for i, name in enumerate(["x", "y", "z", "intensity", "time"])
    ]
    points = np.frombuffer(cloud.data, "<f4").reshape(-1, 5)
    assert np.isfinite(points).all() and np.abs(points[:, :3]).max() < 15
    joints = deserialize_message(messages["joints"][1], JointState)
    assert list(joints.name) == [f"joint_{i}" for i in range(14)]
    assert len(joints.position) == len(joints.velocity) == len(joints.effort) == 14


class Run:
    """Runs `sensor_sim` with these arguments. At the end of the `with` block it is killed."""

    def __init__(self, *arguments):
        command = [sensor_sim(), *map(str, arguments)]
        self.process = processes.popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def line(self, what):
        """Its next line."""
        waiting.until(lambda: select.select([self.process.stdout], [], [], 0.1)[0], what)
        return self.process.stdout.readline()

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self, how):
        """Ends it by a signal. Returns the exit code and the counts."""
        self.process.send_signal(how)
        counts = json.loads(self.line("the counts"))
        return waiting.exit_code(self.process, "sensor_sim"), counts


@pytest.fixture
def node():
    rclpy.init()
    node = rclpy.create_node("listener")
    yield node
    node.destroy_node()
    rclpy.shutdown()


def spin_until(node, predicate, what):
    """Handles messages until the predicate holds."""
    wait = waiting.Wait(what)
    while not predicate():
        wait.check()
        rclpy.spin_once(node, timeout_sec=0.05)


def test_all_streams_arrive_under_ros_arguments(node):
    count = Counter()
    qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
    topics = {"camera_front/image_raw": Image, "points": PointCloud2, "joint_states": JointState}
    for topic, kind in topics.items():
        seen = lambda _, topic=topic: count.update([topic])  # noqa: E731
        node.create_subscription(kind, f"/robot/{topic}", seen, qos)
    ros = "--ros-args -r /joint_states:=/robot/joint_states -r /lidar/points:=/robot/points"
    ros += " -r /camera_front/image_raw:=/robot/camera_front/image_raw -r __ns:=/robot"
    with Run("--joints-hz", "50", "--wrench-hz", "0", *ros.split()) as run:
        announced = run.line("it announces its topics")
        assert "/joint_states 50 Hz" in announced and "/wrench" not in announced
        wanted = {"joint_states": 50, "points": 5, "camera_front/image_raw": 15}
        come = lambda: all(count[topic] > least for topic, least in wanted.items())  # noqa: E731
        spin_until(node, come, f"{wanted} and more of each topic")
        robot = ("sensor_sim", "/robot")
        spin_until(node, lambda: robot in node.get_node_names_and_namespaces(), "its name")
        code, counts = run.end(signal.SIGINT)
    assert code == 0 and set(counts) == {"joints", "imu", "camera_front", "camera_wrist", "lidar"}


def test_the_simulated_clock_runs_at_its_speed_and_jumps_back(node, tmp_path):
    """It begins when the subscriber knows it, and sends late rather than never. So every reading comes."""
    times, begin = [], tmp_path / "begin"
    readings = 2000
    clock = node.create_subscription(Clock, "/clock", lambda m: times.append(m.clock), readings)
    options = "--clock --speed 2 --clock-hz 200 --jump-back-at 6 --jump-back-by 3 --duration 10"
    options += f" --wait-subscribers 1 --no-skip --depth {readings}"
    streams = "--joints-hz 0 --wrench-hz 0 --imu-hz 0 --lidar-hz 0".split()
    streams += "--camera-front-hz 0 --camera-wrist-hz 0".split()
    with Run(*options.split(), *streams, "--begin-when", begin) as run:
        spin_until(node, lambda: clock.get_publisher_count() == 1, "the subscriber knows it")
        spin_until(node, lambda: node.count_publishers("/clock") == 1, "the graph shows it")
        begin.touch()
        run.line("it announces its topics")
        started = time.monotonic()
        spin_until(node, lambda: len(times) == readings, f"{readings} readings of the clock")
        assert time.monotonic() - started > 4.5
        sent = json.loads(run.line("the counts"))["clock"]
        assert waiting.exit_code(run.process, "sensor_sim") == 0
    assert (sent["sent"], sent["skipped"], len(times)) == (readings, 0, readings)
    before, after = (range(s * 10**9, e * 10**9, 5_000_000) for s, e in ((10, 16), (13, 17)))
    assert [t.sec * 10**9 + t.nanosec for t in times] == [*before, *after]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_and_leave_no_shared_memory(how):
    # No node of the test listens: it would keep a part of the shared memory.
    with Run() as run:
        run.line("it announces its topics")
        mine = processes.locked_shared_memory(run.process.pid)
        code, counts = run.end(how)
    assert code == 0 and isinstance(counts, dict)
    # Fast DDS shares the ports from 7000 on among all domains.
    left = {name for name in os.listdir("/dev/shm") if name.removesuffix("_el") in mine}
    left = {name for name in left if "_port7" not in name}
    assert mine and not left


def test_impossible_options_are_refused():
    run = subprocess.run([sensor_sim(), "--drop-share", "2"], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == "sensor_sim: --drop-share: expected 0 to below 1, found 2\n"
