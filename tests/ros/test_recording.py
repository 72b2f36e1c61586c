"""The node records itself (`record_to`). The recording is a bag for every tool, and verify finds its ticks equal.

`test_live_equals_replay.py` records a robot under load; here are the ends of a recording, the simulator's clock, a
stream that is late and a disk that is full.
"""

import os
import re
import signal
import subprocess
import sys

import configuration
import pytest
import recordings
from conftest import REPOSITORY
from fusion import MS, PATIENCE, T0, WRENCH, start_fusion, wrench, write_config
from rosbags.highlevel import AnyReader
from test_live_equals_replay import RECORDED_S

PERIOD_MS = 10

#: A camera that is late, beside others, and their robot.
CAMERA = {
    "type": "sensor_msgs/msg/Image",
    "topic": "/camera_front/image_raw",
    "max_age_ms": 500,
    "strategy": "hold",
    "image": {"resize": {"width": 224, "height": 224}},
}
JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "topic": "/joint_states",
    "max_age_ms": 100,
    "joints": [f"joint_{i}" for i in range(14)],
}
CONFIG = {
    "rate_hz": 100,
    "lag_ms": 500,
    "streams": {
        "camera": CAMERA,
        "joints": JOINTS,
        "wrench": {**WRENCH, "topic": "/wrench", "strategy": "nearest"},
    },
}
ROBOT = """
    --camera-front-hz 30 --image-width 1280 --image-height 720 --joints-hz 200 --wrench-hz 200
    --camera-wrist-hz 0 --lidar-hz 0 --imu-hz 0 --send-jitter-ms 5 --wait-subscribers 1 --seed 5
""".split()


def recorded(ros, start, folder, **kwargs):
    """A node with sim time that records to `folder / "runs"`."""
    given = ["-p", f"record_to:={folder / 'runs'}"]
    config = {"streams": {"wrench": {**WRENCH, "strategy": "hold", "lag_ms": 20}}}
    return start_fusion(ros, start, folder, config, *given, period_ms=PERIOD_MS, **kwargs).warm_up()


def run(fusion, from_ns, ticks):
    """Sends a wrench per tick, and waits until each tick is served."""
    for k in range(ticks):
        ns = from_ns + k * PERIOD_MS * MS
        fusion.send("wrench", wrench(ns - MS, k, 0, 1))
        fusion.tick(ns)


def test_a_recording_with_a_reset_of_the_clock_is_equal_and_a_bag_for_every_tool(
    ros, start, tmp_path
):
    fusion = recorded(ros, start, tmp_path)
    run(fusion, T0, 30)
    run(fusion, T0 - 3_600_000 * MS, 30)
    fusion.until(lambda: "recording" in fusion.status, "the diagnostics tell of the recording")
    level, _, values = fusion.status["recording"]
    assert int.from_bytes(level, "little") == 0 and int(values["lost"]) == 0
    fusion.process.stop()
    recording = recordings.folder_of(tmp_path / "runs")
    assert str(recording) == values["folder"]
    report = recordings.verify(configuration.program(), recording)
    assert report["different"] == [] and report["complete"] and report["problems"] == []
    assert report["equal"] >= len(fusion.ticks) > 60
    with AnyReader([recording]) as reader:
        topics = {connection.topic: connection for connection in reader.connections}
        assert set(topics) == {"/wrench", "/clock", "/fusion_node/recording"}
        read = list(reader.messages(connections=[topics["/wrench"]]))
        assert len(read) == fusion.sent["wrench"]
        last = reader.deserialize(read[-1][2], topics["/wrench"].msgtype)
        assert (last.wrench.force.x, last.wrench.force.z) == (29, 1)
        events = reader.messages(connections=[topics["/fusion_node/recording"]])
        kinds = [reader.deserialize(data, connection.msgtype) for connection, _, data in events]
        published = [event.number for event in kinds if event.kind == event.PUBLISHED]
        # The subscriber found the node a few ticks later.
        assert published[-len(fusion.ticks) :] == fusion.ticks
        assert kinds[0].kind == kinds[0].START and kinds[-1].kind == kinds[-1].END
    # Its own events do not disturb a replay, which ticks as the node did.
    out = tmp_path / "out"
    tensors = recordings.replay(configuration.program(), recording, tmp_path / "config.yaml", out)
    assert len(tensors) >= len(fusion.ticks)


def test_a_recording_of_a_node_that_was_killed_is_read_to_its_end(ros, start, tmp_path):
    fusion = recorded(ros, start, tmp_path, expected_code=-signal.SIGKILL)
    run(fusion, T0, 30)
    # The node hands written data to the system every quarter of a second.
    ros.spin_for(0.5)
    fusion.process.stop(signal.SIGKILL)
    recording = recordings.folder_of(tmp_path / "runs")
    report = recordings.verify(configuration.program(), recording)
    assert report["different"] == [] and not report["complete"]
    assert report["equal"] >= len(fusion.ticks)
    sent = [topic for _, topic, _, _ in recordings.messages_of(recording) if topic == "/wrench"]
    assert len(sent) == fusion.sent["wrench"]


def test_a_folder_that_cannot_be_used_is_an_error_at_the_start(start, tmp_path):
    (tmp_path / "file").write_text("no folder")
    config = write_config(tmp_path, {"rate_hz": 100, "streams": {"wrench": WRENCH}})
    given = ["-p", f"config_file:={config}", "-p", f"record_to:={tmp_path / 'file'}"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    assert node.wait() == 1
    assert f"record_to: {tmp_path / 'file'}: File exists" in node.output


@pytest.mark.alone
def test_a_stream_that_is_delayed_beyond_its_lag_is_named_with_the_lag_that_would_do(
    ros, start, tmp_path
):
    config = {**CONFIG, "streams": {**CONFIG["streams"], "camera": {**CAMERA, "lag_ms": 20}}}
    config_file = write_config(tmp_path, config)
    given = ["-p", f"config_file:={config_file}", "-p", f"record_to:={tmp_path / 'runs'}"]
    node = start("fusion_node", "--ros-args", *given)
    late = ["--skew-stream", "camera_front", "--skew-ms", -60]
    robot = start("sensor_sim", *ROBOT, *late, "--duration", RECORDED_S)
    assert ros.spin_until(lambda: not robot.running, PATIENCE + RECORDED_S), robot.output
    assert robot.wait() == 0
    node.stop()
    recording = recordings.folder_of(tmp_path / "runs")
    report = recordings.verify(configuration.program(), recording, expect=3)
    assert report["differing"] > 0 and report["equal"] > 50 * RECORDED_S, report
    assert report["unexplained"] == 0 and report["missing"] == 0
    rows = [row for tick in report["different"] for row in tick["late"] + tick["early"]]
    assert {row["stream"] for row in rows} == {"camera"}
    streams = {stream["stream"]: stream for stream in report["streams"]}
    assert [streams[name]["ticks"] for name in ("joints", "wrench")] == [0, 0]
    camera = streams["camera"]
    assert camera["ticks"] == report["differing"] and camera["latest_ns"] > 0
    # The stamps are 60 ms behind, and then the image is sent, received and encoded.
    assert 60 * MS < camera["lag_that_does_ns"] < 500 * MS, camera
    assert camera["slowest"]["input"] == "camera /camera_front/image_raw"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 24 MB. Only root can make it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no small disk: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_ends_the_recording_and_not_the_node(ros, start, tmp_path, small_disk):
    options = ["-p", f"record_to:={small_disk}"]
    fusion = start_fusion(
        ros, start, tmp_path, CONFIG, *options, sim_time=False, publish=False, period_ms=PERIOD_MS
    )
    robot = start("sensor_sim", *ROBOT, "--duration", 4)
    fusion.until(lambda: "No space left" in fusion.process.output, "the end of the recording")
    seen = len(fusion.tensors)
    fusion.until(lambda: not robot.running, "the end of the robot")
    assert robot.wait() == 0
    fusion.until(lambda: len(fusion.tensors) > seen + 50, "ticks that go on")
    fusion.until(lambda: "recording" in fusion.status, "the diagnostics tell of the recording")
    level, message, values = fusion.status["recording"]
    assert int.from_bytes(level, "little") == 1
    assert message.startswith("the recording has ended: No space left")
    fusion.process.stop()
    recording = recordings.folder_of(small_disk)
    assert f"the recording {recording} ended: No space left" in fusion.process.output
    report = recordings.verify(configuration.program(), recording)
    assert report["different"] == [] and not report["complete"] and report["equal"] > 0
    found = [topic for _, topic, _, _ in recordings.messages_of(recording)]
    assert len(found) > 20 and CAMERA["topic"] in found


def test_one_command_records_the_simulated_robot(tmp_path):
    # The `ros2` program is missing, and some of the topics suffice here.
    config = write_config(tmp_path, {"rate_hz": 100, "lag_ms": 20, "streams": {"joints": JOINTS}})
    path = ":".join(
        part for part in os.environ["PATH"].split(":") if not os.path.exists(f"{part}/ros2")
    )
    done = subprocess.run(
        [sys.executable, REPOSITORY / "demo" / "record.py", "--seconds", "3", "--config", config]
        + ["--output", tmp_path / "recordings"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, made, following = done.stdout.splitlines()
    assert first.endswith("about 0.2 GB (80 MB/s)")
    (run,) = (tmp_path / "recordings").iterdir()
    assert made.startswith(f"{run}: ")
    # The next command works as it is printed.
    command = re.fullmatch(r"next: robocache (replay .*)", following).group(1).split()
    replayed = subprocess.run(
        [configuration.program(), *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert replayed.returncode == 0, replayed.stderr
    assert (tmp_path / "data" / "rows.zarr").is_dir()
    assert int(re.search(r"joints: (\d+) rows", replayed.stderr + replayed.stdout).group(1)) > 500
