"""The node records itself (`record_to`). The recording is a bag for every tool, and verify finds its ticks equal.

`test_live_equals_replay.py` records a robot under load; here are the ends of a recording, and the simulator's clock.
"""

import signal

import configuration
import recordings
from fusion import MS, T0, WRENCH, start_fusion, wrench, write_config
from rosbags.highlevel import AnyReader

PERIOD_MS = 10


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
    # What was written is handed to the system every quarter of a second.
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
