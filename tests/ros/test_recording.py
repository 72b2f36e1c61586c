"""The node records itself (`record_to`). The recording is a bag for every tool, and verify finds its ticks equal.

`test_live_equals_replay.py` records a robot; here are the ends of a recording, the simulator's clock and a disk that is
full. The clock is simulated, and steps when all messages before have been taken. So each recording
has exactly what the test sent.
"""

import os
import re
import signal
import sys

import configuration
import pytest
import recordings
import waiting
from collecting import published_ticks
from conftest import REPOSITORY
from faults import put
from fusion import MS, T0, WRENCH, start_fusion, wrench, write_config
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader

PERIOD_MS = 10

JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "topic": "/joint_states",
    "max_age_ms": 100,
    "joints": [f"joint_{i}" for i in range(14)],
}


def recorded(ros, start, folder, *more, **kwargs):
    """A node with sim time that records to `folder / "runs"`. `more` are other arguments."""
    given = ["-p", f"record_to:={folder / 'runs'}", *more]
    config = {"streams": {"wrench": {**WRENCH, "strategy": "hold", "lag_ms": 20}}}
    fusion = start_fusion(ros, start, folder, config, *given, period_ms=PERIOD_MS, **kwargs)
    return fusion.warm_up()


def run(fusion, from_ns, ticks):
    """Sends a wrench per tick, and waits until each tick is served."""
    for k in range(ticks):
        ns = from_ns + k * PERIOD_MS * MS
        fusion.send("wrench", wrench(ns - MS, k, 0, 1))
        fusion.tick(ns)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_recording_with_a_reset_of_the_clock_is_equal_and_a_bag_for_every_tool(
    ros, start, tmp_path, compression
):
    fusion = recorded(ros, start, tmp_path, "-p", f"record_compression:={compression}")
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
    (file,) = recording.glob("*.mcap")
    with file.open("rb") as content:
        chunks = [each.compression for each in make_reader(content).get_summary().chunk_indexes]
    assert set(chunks) == {compression.replace("none", "")}
    with AnyReader([recording]) as reader:
        topics = {connection.topic: connection for connection in reader.connections}
        assert len(topics) == len(reader.connections)
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
    recording = recordings.folder_of(tmp_path / "runs")

    # The node hands written data to the system every quarter of a second. The last tick is the last that it writes.
    fusion.until(lambda: fusion.ticks[-1] in published_ticks(recording), "all of it is in the file")
    fusion.process.stop(signal.SIGKILL)
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


def test_a_full_disk_ends_the_recording_and_not_the_node(ros, start, tmp_path, node_faults):
    """The file has room for so many bytes (fault FULL). Up to there, the recording is of use."""
    fault = tmp_path / "full"
    fusion = recorded(ros, start, tmp_path, env=node_faults(full=fault))
    run(fusion, T0, 10)
    recording = recordings.folder_of(tmp_path / "runs")
    (file,) = recording.glob("*.mcap")
    fusion.until(lambda: file.stat().st_size > 0, "the file has its begin")
    room = file.stat().st_size + 20_000
    put(fault, room)
    ended = f"the recording {recording} ended: No space left on device"
    at = T0 + 100 * MS
    while ended not in fusion.process.output:
        run(fusion, at, 10)
        at += 100 * MS
    assert file.stat().st_size == room
    fusion.until(lambda: fusion.status["recording"][0] == b"\x01", "the diagnostics tell it")
    assert fusion.status["recording"][1].startswith("the recording has ended: No space left")
    # The node goes on, and the file does not grow, also if there is room again.
    fault.unlink()
    run(fusion, at, 10)
    fusion.process.stop()
    assert file.stat().st_size == room
    report = recordings.verify(configuration.program(), recording)
    assert report["different"] == [] and not report["complete"] and report["equal"] >= 10
    found = [topic for _, topic, _, _ in recordings.messages_of(recording)]
    assert found.count("/wrench") >= 10


def test_one_command_records_the_simulated_robot(tmp_path):
    # The `ros2` program is missing, and some of the topics suffice here.
    config = write_config(tmp_path, {"rate_hz": 100, "lag_ms": 20, "streams": {"joints": JOINTS}})
    path = ":".join(
        part for part in os.environ["PATH"].split(":") if not os.path.exists(f"{part}/ros2")
    )
    given = ["--seconds", "3", "--config", config, "--output", tmp_path / "recordings"]
    command = [sys.executable, REPOSITORY / "demo" / "record.py", *given]
    done = waiting.run(command, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    first, made, following = done.stdout.splitlines()
    assert first.endswith("about 0.2 GB (80 MB/s)")
    (run,) = (tmp_path / "recordings").iterdir()
    assert made.startswith(f"{run}: ")
    # The next command works as it is printed.
    command = re.fullmatch(r"next: robocache (replay .*)", following).group(1).split()
    replayed = waiting.run([configuration.program(), *command], cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert (tmp_path / "data" / "rows.zarr").is_dir()
    found = [topic for _, topic, _, _ in recordings.messages_of(run)]
    rows = re.search(r"joints: (\d+) rows", replayed.stderr + replayed.stdout).group(1)
    assert int(rows) == found.count(JOINTS["topic"]) > 0
