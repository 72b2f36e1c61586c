"""No message is lost unnoticed: at 1 kHz none is; where the node cannot run, the loss is counted."""

import json
import os
import signal
import time

import numpy as np
import pytest
from fusion import MS, T0, segments, stamped, start_fusion, write_config
from sensor_msgs.msg import Image

JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "topic": "/joint_states",
    "max_age_ms": 100,
    "qos": {"reliability": "reliable"},  # and the default depth
    "joints": [f"joint_{i}" for i in range(14)],
}
ONLY_JOINTS = ["--joints-hz", 1000, "--wait-subscribers", 1]
for other in ("camera-front", "camera-wrist", "lidar", "wrench", "imu"):
    ONLY_JOINTS += [f"--{other}-hz", 0]


def start_node(ros, start, folder, **qos):
    config = {"streams": {"joints": {**JOINTS, "qos": {**JOINTS["qos"], **qos}}}}
    # The client's own publisher on the topic is silent: it only tells that the node is there.
    return start_fusion(ros, start, folder, config, sim_time=False)


def report_of(robot):
    """What the robot says that it sent, and what it skipped because the machine was busy."""
    return json.loads(robot.output.splitlines()[-1])["joints"]


def test_nothing_is_lost_at_1_khz(ros, start, tmp_path):
    fusion = start_node(ros, start, tmp_path)
    robot = start("sensor_sim", *ONLY_JOINTS, "--duration", 8)
    fusion.until(lambda: not robot.running, "the end of the robot", timeout=40)
    assert robot.wait() == 0
    report = report_of(robot)
    sent = report["sent"]
    assert sent > 4000, "the machine was too slow to say anything"
    fusion.await_value("joints", "received", sent)
    fusion.await_value("joints", "rows", sent)
    for key in ("dropped", "queue_full", "reordered", "replaced"):
        assert fusion.value("joints", key) == 0, key
    assert fusion.value("joints", "missing") == report["skipped"]
    assert len(fusion.tensors) > 100
    permitted = "ticks run at real-time priority 20" in fusion.process.output
    assert fusion.value("tick", "realtime_priority") == (20 if permitted else 0)
    assert "message dropped" not in fusion.process.output


@pytest.mark.parametrize("publisher_depth", [10, 2000])
def test_a_node_that_was_stopped_says_what_it_lost_and_recovers(
    ros, start, tmp_path, publisher_depth
):
    """However long the publisher's history is, what does not fit into the node's queue is lost."""
    fusion = start_node(ros, start, tmp_path, depth=16)
    robot = start("sensor_sim", *ONLY_JOINTS, "--depth", publisher_depth)
    fusion.until(lambda: fusion.value("joints", "received") > 500, "joints at 1 kHz")
    before = fusion.value("joints", "missing")
    # Many times the depth of its queue, but shorter than the second after which Fast DDS takes a
    # reader that shares memory for dead (healthy_check_timeout_ms) and may cut it off for good.
    tensors = stop_for(ros, fusion, 0.8)
    received = fusion.value("joints", "received")
    fusion.until(lambda: fusion.value("joints", "missing") > before, "the gap is counted")
    fusion.process.wait_for("missing by their stamps' period")
    fusion.until(lambda: joints_said(fusion, "missing by their"), "so do the diagnostics")
    fusion.await_value("joints", "dropped", 0)  # what came was taken

    # It serves on, with fresh values and without a burst of the ticks it missed.
    fusion.until(lambda: fusion.value("joints", "received") > received + 2000, "joints go on")
    fusion.until(lambda: fresh(fusion), "a valid and fresh tensor")
    assert fusion.value("tick", "overruns") > 50
    ticks = fusion.ticks[tensors - 1 :]
    assert ticks == sorted(set(ticks))
    stall = max(b - a for a, b in zip(ticks, ticks[1:]))
    assert stall > 50, "the missed ticks are not made up for"

    await_losses_counted(fusion, robot)


def test_a_queue_that_overflowed_is_counted(ros, start, tmp_path):
    """All of a short stop fits into the transport and comes at once, in order."""
    fusion = start_node(ros, start, tmp_path, depth=16)
    robot = start("sensor_sim", *ONLY_JOINTS, "--depth", 2000)
    fusion.until(lambda: fusion.value("joints", "received") > 500, "joints at 1 kHz")
    before = fusion.value("joints", "queue_full")
    stop_for(ros, fusion, 0.3)
    fusion.until(lambda: fusion.value("joints", "queue_full") > before, "the full queue is counted")
    fusion.process.wait_for("joints: the middleware's queue was full")
    fusion.until(lambda: joints_said(fusion, "queue was full"), "so do the diagnostics")
    await_losses_counted(fusion, robot)


def joints_said(fusion, text):
    """Whether the diagnostics of the joints ever had this text."""
    return any(text in words for part, words in fusion.said if part == "joints")


def stop_for(ros, fusion, seconds):
    """Stops the node's process for so long; the number of tensors before."""
    stopped_at = time.monotonic()
    os.kill(fusion.process.pid, signal.SIGSTOP)
    try:
        ros.spin_until(lambda: time.monotonic() - stopped_at > seconds, 10)
        return len(fusion.ticks)
    finally:
        os.kill(fusion.process.pid, signal.SIGCONT)


def await_losses_counted(fusion, robot):
    """Stops the robot: of what it sent, all that did not arrive is counted as missing.

    Not to the last one: the period is learnt from stamps, and a loss at the end leaves no gap.
    """
    assert robot.stop() == 0
    sent = report_of(robot)["sent"]
    ended = time.time_ns()

    def over():
        """Whether the counters are of a window, later than the end, in which nothing arrived."""
        return fusion.node_time_ns > ended and fusion.status["joints"][2]["rate_hz"] == "0.00"

    fusion.until(over, "the end of the joints")
    lost = sent - fusion.value("joints", "received")
    assert lost > 0, "messages were lost"
    assert fusion.value("joints", "missing") >= 0.9 * lost - 20


def fresh(fusion):
    joints = segments(fusion.tensors[fusion.ticks[-1]])["joints"]
    return joints.valid == [True] and joints.age_ns[0] < 50 * MS


def test_images_too_many_to_encode_lose_the_oldest_and_are_counted(ros, start, tmp_path):
    # Small messages and large rows: the encoder is slow, the way to it is not.
    config = {
        "streams": {
            "camera": {
                "type": "sensor_msgs/msg/Image",
                "topic": "/camera",
                "max_age_ms": 1000,
                "ring_rows": 2,
                "dtype": "f32",
                "qos": {"reliability": "reliable", "depth": 200},
                "image": {"width": 1600, "height": 1200, "fit": "stretch"},
            }
        }
    }
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    count = 100
    for value in range(count):
        pixels = np.full((8, 8, 3), value, np.uint8)
        image = stamped(Image, T0 + value * MS // 10, width=8, height=8, encoding="rgb8", step=24)
        image.data = pixels.tobytes()
        fusion.send("/camera", image)
    got = fusion.tick(T0 + 10 * MS)["camera"]
    assert got.valid == [True] and got.age_ns == [MS // 10], "the newest was kept"
    assert np.all(got.array == np.float32(count - 1) / np.float32(255))
    overload, rows = fusion.value("camera", "dropped.overload"), fusion.value("camera", "rows")
    assert overload > 0 and overload + rows == count
    assert fusion.value("camera", "received") == count
    # None was lost on the way, and none is said to have been.
    assert not any("missing" in words for part, words in fusion.said if part == "camera")
    assert fusion.value("camera", "missing") == 0
    words = "message dropped, overload: the encoder could not keep up; the oldest message went"
    assert fusion.process.output.count(words) == 1


def test_ticks_that_never_rest_give_up_their_priority(start, tmp_path):
    camera = {
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "max_age_ms": 1000,
        "ring_rows": 2,
        "dtype": "f32",
        "image": {"width": 4000, "height": 3000, "fit": "stretch"},
    }
    # 144 MB in half a millisecond.
    path = write_config(tmp_path, {"rate_hz": 2000, "streams": {"camera": camera}})
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={path}")
    node.wait_for("ticks run at ")
    if "ticks run at ordinary priority" in node.output:
        pytest.skip("real-time priority is not permitted here")
    assert "ticks run at real-time priority 20 (SCHED_FIFO)" in node.output
    output = node.wait_for("ticks go on at ordinary priority")
    assert output.count("does not fit into its period") == 1
