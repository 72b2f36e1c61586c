"""No message is lost at 1 kHz. If the node cannot run for a while, it counts every lost message."""

import json
import os
import signal
import time

import numpy as np
import pytest
from fusion import MS, T0, segments, stamped, start_fusion, write_config
from middlewares import numbers_only
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import qos_profile_sensor_data
from robocache_ros.msg import FusedTensor
from sensor_msgs.msg import Image, JointState

pytestmark = pytest.mark.alone
JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "topic": "/joint_states",
    "max_age_ms": 100,
    "qos": {"reliability": "reliable"},  # and the default depth
    "joints": [f"joint_{i}" for i in range(14)],
}
ONLY_JOINTS = ["--joints-hz", 1000]
for other in ("camera-front", "camera-wrist", "lidar", "wrench", "imu"):
    ONLY_JOINTS += [f"--{other}-hz", 0]


def start_node(ros, start, folder, **qos):
    config = {"streams": {"joints": {**JOINTS, "qos": {**JOINTS["qos"], **qos}}}}
    # The client's own publisher on the topic is silent: it only shows that the node is there.
    return start_fusion(ros, start, folder, config, sim_time=False)


def start_robot(ros, start, fusion, *options):
    """Starts a robot of joints, all of whose messages the node can hear.

    A publisher may know a subscription some time before the node knows the publisher. What it sends until then, the
    node never hears. So the robot waits for a second subscription, which is made once the node knows it.
    """
    received = fusion.value("joints", "received")
    others = ros.node.count_publishers(JOINTS["topic"])
    fusion.await_value("joints", "publishers", others)
    fusion.until(lambda: ros.node.count_subscribers(JOINTS["topic"]) == 1, "one subscription")
    robot = start("sensor_sim", *options, "--wait-subscribers", 2)
    fusion.await_value("joints", "publishers", others + 1)
    second = ros.node.create_subscription(
        JointState, JOINTS["topic"], lambda _: None, qos_profile_sensor_data
    )
    fusion.until(lambda: fusion.value("joints", "received") > received, "the first message")
    ros.node.destroy_subscription(second)
    return robot


def report_of(robot, stream="joints"):
    """How much the robot sent, and how much it skipped because the machine was busy."""
    return json.loads(robot.output.splitlines()[-1])[stream]


def test_nothing_is_lost_at_1_khz(ros, start, tmp_path):
    fusion = start_node(ros, start, tmp_path)
    robot = start_robot(ros, start, fusion, *ONLY_JOINTS)
    fusion.until(lambda: fusion.value("joints", "received") > 4000, "joints at 1 kHz")
    assert robot.stop() == 0
    report = report_of(robot)
    sent = report["sent"]
    fusion.await_value("joints", "received", sent)
    fusion.await_value("joints", "rows", sent)
    for key in ("dropped", "queue_full", "lost", "reordered", "replaced"):
        assert fusion.value("joints", key) == 0, key
    # If the robot skips messages before the node knows the period, or at the end, no gap shows between two stamps.
    assert 0 <= fusion.value("joints", "missing") <= report["skipped"]
    assert len(fusion.tensors) > 100
    permitted = "ticks run at real-time priority 20" in fusion.process.output
    assert fusion.value("tick", "realtime_priority") == (20 if permitted else 0)
    assert "message dropped" not in fusion.process.output


def test_parameter_services_answer_while_images_come(ros, start, tmp_path):
    """60 MB/s of images are on another thread than the services, so no call waits for them."""
    camera = {
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera_front/image_raw",
        "max_age_ms": 500,
        "image": {"resize": {"width": 224, "height": 224}},
    }
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"front": camera}}, sim_time=False)
    rates = ["--camera-front-hz", 60, "--joints-hz", 0]
    for other in ("camera-wrist", "lidar", "wrench", "imu"):
        rates += [f"--{other}-hz", 0]
    client = AsyncParameterClient(ros.node, "fusion_node")
    fusion.until(client.services_are_ready, "the services")

    def median_wait():
        waits = []
        for _ in range(21):
            asked = time.monotonic()
            answer = client.get_parameters(["digest"])
            fusion.until(answer.done, "the answer")
            assert answer.result().values[0].bool_value
            waits.append(time.monotonic() - asked)
        return sorted(waits)[10]

    alone = median_wait()
    start("sensor_sim", *rates, "--wait-subscribers", 1)
    fusion.until(lambda: fusion.value("front", "received") > 30, "images")
    assert median_wait() < 10 * alone + 0.1


@numbers_only
@pytest.mark.parametrize("publisher_depth", [10, 2000])
def test_a_stopped_node_counts_its_losses_and_recovers(ros, start, tmp_path, publisher_depth):
    """Messages that do not fit into the node's queue are lost, however long the history is."""
    fusion = start_node(ros, start, tmp_path, depth=16)
    robot = start_robot(ros, start, fusion, *ONLY_JOINTS, "--depth", publisher_depth)
    fusion.until(lambda: fusion.value("joints", "received") > 500, "joints at 1 kHz")
    before = unheard(fusion)
    # Many times the depth of its queue, but less than a second. After a second Fast DDS may cut off
    # a reader in shared memory for good, as if it were dead (healthy_check_timeout_ms).
    tensors = stop_for(ros, fusion, 0.8)
    received = fusion.value("joints", "received")
    fusion.until(lambda: unheard(fusion) > before, "the gap is counted")
    fusion.process.wait_for("dropped or missing messages: joints: ")
    # Only one message of the diagnostics has the words, and a busy machine may lose it. So a unit test of
    # runtime::health reads them. The middleware reports each loss, so the node does not add its guess by the stamps.
    assert "missing by their stamps' period" not in fusion.process.output
    assert not joints_said(fusion, "missing by their")
    fusion.await_value("joints", "dropped", 0)  # all messages that came were taken

    # It goes on with fresh values, and does not make up for the missed ticks.
    fusion.until(lambda: fusion.value("joints", "received") > received + 2000, "joints go on")
    fusion.until(lambda: fresh(fusion), "a valid and fresh tensor")
    assert fusion.value("tick", "overruns") > 50
    ticks = fusion.ticks[tensors - 1 :]
    assert ticks == sorted(set(ticks))
    stall = max(b - a for a, b in zip(ticks, ticks[1:]))
    assert stall > 50, "the node does not make up for the missed ticks"

    await_losses_counted(fusion, robot)


@numbers_only
def test_a_queue_that_overflowed_is_counted(ros, start, tmp_path):
    """All messages of a short stop fit into the transport, and come at once and in order."""
    fusion = start_node(ros, start, tmp_path, depth=16)
    robot = start_robot(ros, start, fusion, *ONLY_JOINTS, "--depth", 2000)
    fusion.until(lambda: fusion.value("joints", "received") > 500, "joints at 1 kHz")
    before = fusion.value("joints", "queue_full")
    stop_for(ros, fusion, 0.3)
    fusion.until(lambda: fusion.value("joints", "queue_full") > before, "the full queue is counted")
    fusion.process.wait_for("joints: the middleware's queue was full")
    await_losses_counted(fusion, robot)


def unheard(fusion):
    """How many messages of the joints were lost, by the middleware's numbers."""
    return fusion.value("joints", "lost") + fusion.value("joints", "queue_full")


def joints_said(fusion, text):
    """Whether the diagnostics of the joints ever had this text."""
    return any(text in words for part, words in fusion.said if part == "joints")


def stop_for(ros, fusion, seconds):
    """Stops the node's process for this long. Returns the number of tensors before."""
    stopped_at = time.monotonic()
    os.kill(fusion.process.pid, signal.SIGSTOP)
    try:
        ros.spin_for(seconds / 2)  # what the node had published
        # A sleep ends in time, even if the machine is busy.
        time.sleep(max(0, stopped_at + seconds - time.monotonic()))
        return len(fusion.ticks)
    finally:
        os.kill(fusion.process.pid, signal.SIGCONT)


def await_losses_counted(fusion, robot):
    """Stops the robot, and checks that every message that did not arrive is counted.

    `queue_full` and `lost` are exact, because they come from the middleware's numbers. `missing` is
    not: the period comes from stamps, and a loss at the end leaves no gap.
    """
    assert robot.stop() == 0
    sent = report_of(robot)["sent"]
    ended = time.time_ns()

    def over():
        """Whether the counters are from a window after the end, in which nothing arrived."""
        return fusion.node_time_ns > ended and fusion.status["joints"][2]["rate_hz"] == "0.00"

    fusion.until(over, "the end of the joints")
    lost = sent - fusion.value("joints", "received")
    assert lost > 0, "messages were lost"
    assert fusion.value("joints", "queue_full") + fusion.value("joints", "lost") == lost
    assert fusion.value("joints", "missing") >= 0.9 * lost - 20


def fresh(fusion):
    joints = segments(fusion.tensors[fusion.ticks[-1]])["joints"]
    return joints.valid == [True] and joints.age_ns[0] < 50 * MS


def test_if_images_come_too_fast_the_oldest_are_dropped_and_counted(ros, start, tmp_path):
    # With small messages and large rows, only the encoder is slow.
    config = {
        "streams": {
            "camera": {
                "type": "sensor_msgs/msg/Image",
                "topic": "/camera",
                "max_age_ms": 1000,
                "ring_rows": 2,
                "dtype": "f32",
                "qos": {"reliability": "reliable", "depth": 200},
                "image": {"resize": {"width": 1600, "height": 1200, "fit": "stretch"}},
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
    # None was lost on the way, and none is reported as missing.
    assert not any("missing" in words for part, words in fusion.said if part == "camera")
    assert fusion.value("camera", "missing") == 0
    words = "overload: the encoder could not keep up, so the oldest message was dropped"
    assert fusion.process.output.count(words) == 1


def test_a_publishing_thread_that_never_waits_gives_up_its_priority(ros, start, tmp_path):
    """The tick thread has the same rule; unit tests cover that, and when the priority comes back."""
    camera = {
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "max_age_ms": 1000,
        "ring_rows": 2,
        "dtype": "f32",
        "image": {"resize": {"width": 4000, "height": 3000, "fit": "stretch"}},
    }
    # A tensor of 144 MB in half a millisecond.
    path = write_config(tmp_path, {"rate_hz": 2000, "streams": {"camera": camera}})
    # Without a subscriber nothing is published. This one takes none.
    ros.node.create_subscription(FusedTensor, "fused_tensor", lambda message: None, 1)
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={path}")
    node.wait_for("tensors are published at ")
    if "published at ordinary priority" in node.output:
        pytest.skip("real-time priority is not permitted here")
    assert "ticks run at real-time priority 20 (SCHED_FIFO)" in node.output
    assert "tensors are published at real-time priority 19 (SCHED_FIFO)" in node.output
    output = node.wait_for("it goes on at ordinary priority")
    assert output.count("the work to publish tensors does not fit into the period") == 1
