"""Messages that are too many for the node's queues, encoders and threads are dropped and counted, each of them.

The faults of node_faults.c make the overload, so no test needs a machine that is slow or fast. Of N messages that were
sent, N are received, dropped by a full queue, or lost on the way.
"""

import numpy as np
import pytest
from faults import Hold, put
from fusion import MS, T0, nanoseconds, segments, stamped, start_fusion
from middlewares import numbers_only
from rclpy.parameter_client import AsyncParameterClient
from robot import JOINTS
from sensor_msgs.msg import Image, JointState

TOPIC = JOINTS["topic"]
STREAM = {**JOINTS, "strategy": "hold", "max_age_ms": 5000}
#: The first stamp. The clock is at T0, and a stamp may be ahead of it by less than a second.
BEGIN = T0 - 500 * MS


@pytest.fixture
def hold(tmp_path):
    hold = Hold(tmp_path / "hold")
    yield hold
    hold.release()


class Joints:
    """Sends joints at 1 kHz of their stamps."""

    def __init__(self, fusion):
        self.fusion, self.sent = fusion, 0

    def send(self, count=1):
        for _ in range(count):
            positions = [float(self.sent)] * 14
            message = stamped(JointState, BEGIN + self.sent * MS, name=JOINTS["joints"])
            message.position = message.velocity = message.effort = positions
            self.fusion.send(TOPIC, message)
            self.sent += 1

    def await_received(self, count):
        self.fusion.await_value("joints", "received", count)

    def check(self, **expected):
        """Checks that each message is received, or counted as one that was not. Others of these counts are 0."""
        names = ("queue_full", "lost", "dropped", "reordered", "replaced", "repeated")
        found = {name: self.fusion.value("joints", name) for name in names}
        assert found == dict.fromkeys(names, 0) | expected
        received = self.fusion.value("joints", "received")
        assert self.sent == received + found["queue_full"] + found["lost"]
        assert self.fusion.value("joints", "rows") == received

    def check_newest(self):
        """Checks that the last one is in a tick that comes after it."""
        ns = max(T0, BEGIN + self.sent // 10 * 10 * MS) + 10 * MS
        tick = self.fusion.tick_of(ns)

        def served():
            self.fusion.set_clock(ns)
            return self.fusion.ros.spin_for(1.0, until=lambda: tick in self.fusion.tensors)

        self.fusion.until(served, f"the tensor of tick {tick}")
        got = segments(self.fusion.tensors[tick])["joints"]
        assert got.valid == [True] and np.all(got.array == self.sent - 1)


def start_joints(ros, start, folder, env, **qos):
    spec = {**STREAM, "qos": {**JOINTS["qos"], **qos}}
    config = {"streams": {"joints": spec}}
    fusion = start_fusion(ros, start, folder, config, env=env).warm_up()
    fusion.advance(T0)
    return fusion, Joints(fusion)


@numbers_only
def test_messages_that_do_not_fit_into_the_queue_are_counted(
    ros, start, tmp_path, node_faults, hold
):
    """The queue drops the oldest ones. It goes on with the newest."""
    beyond = 84
    fusion, joints = start_joints(ros, start, tmp_path, node_faults(hold=hold.file), depth=16)

    def send_and_await(lost):
        for _ in range(4):
            joints.send(16)
            joints.await_received(joints.sent - lost)

    send_and_await(lost=0)
    queued = hold.begin(fusion, "joints", TOPIC, joints.send)
    joints.send(16 - queued + beyond)
    hold.end(fusion, TOPIC)
    fusion.await_value("joints", "queue_full", beyond)
    joints.await_received(joints.sent - beyond)
    joints.check(queue_full=beyond)
    fusion.process.wait_for("joints: the middleware's queue was full")
    send_and_await(lost=beyond)
    joints.check(queue_full=beyond)
    # The guess by the stamps.
    assert fusion.value("joints", "missing") == beyond
    joints.check_newest()
    # Only one message of the diagnostics has the words, and a busy machine may lose it. So a unit test of
    # runtime::health reads them. The middleware counts each loss, so the node does not add its guess by the stamps.
    assert "missing by their stamps' period" not in fusion.process.output
    assert not any("missing by their" in words for part, words in fusion.said if part == "joints")


@numbers_only
def test_messages_that_are_lost_on_the_way_are_counted(ros, start, tmp_path, node_faults):
    fault = tmp_path / "lose"
    fusion, joints = start_joints(ros, start, tmp_path, node_faults(lose=fault))
    joints.send(20)
    joints.await_received(20)
    put(fault, 10)
    joints.send(200)
    joints.await_received(20 + 180)
    # The last of all is lost too, although no later message shows that.
    fusion.await_value("joints", "lost", 20)
    joints.check(lost=20)
    fault.unlink()
    joints.send(20)
    joints.await_received(20 + 180 + 20)
    fusion.process.wait_for("dropped or missing messages: joints: ")
    joints.check(lost=20)


def image(ns):
    """A black image of 8x8 pixels."""
    message = stamped(Image, ns, width=8, height=8, encoding="rgb8", step=24)
    message.data = bytes(8 * 24)
    return message


def test_if_images_are_held_up_all_else_goes_on(ros, start, tmp_path, node_faults, hold):
    """Images are on another thread than small messages and services, so nothing waits for them."""
    spec = {
        "type": "sensor_msgs/msg/Image",
        "topic": "/camera",
        "max_age_ms": 1000,
        "qos": {"reliability": "reliable"},
        "image": {"resize": {"width": 8, "height": 8}},
    }
    config = {"streams": {"camera": spec, "joints": STREAM}}
    env = node_faults(hold=hold.file)
    fusion = start_fusion(ros, start, tmp_path, config, env=env).warm_up()
    queued = hold.begin(fusion, "camera", "/camera", lambda: fusion.send("/camera", image(T0)))
    client = AsyncParameterClient(ros.node, "fusion_node")
    fusion.until(client.services_are_ready, "the services")
    for _ in range(3):
        answer = client.get_parameters(["digest"])
        fusion.until(answer.done, "the answer")
        assert answer.result().values[0].bool_value
    joints = Joints(fusion)
    joints.send(100)
    joints.await_received(100)
    joints.check_newest()
    assert fusion.value("camera", "received") == fusion.sent["/camera"] - queued
    hold.end(fusion, "/camera")
    fusion.settle()


def test_a_publishing_thread_that_never_waits_gives_up_its_priority(
    ros, start, tmp_path, node_faults
):
    """The tick thread has the same rule, in unit tests. When the publications are quick again, it takes it back."""
    fault = tmp_path / "slow"
    config = {"streams": {"joints": STREAM}}
    env = node_faults(slow=fault)
    fusion = start_fusion(ros, start, tmp_path, config, sim_time=False, env=env)
    fusion.until(lambda: fusion.tensors, "a tensor")
    output = fusion.process.wait_for("tensors are published at ")
    if "published at ordinary priority" in output:
        pytest.skip("real-time priority is not permitted here")
    assert "ticks run at real-time priority 20 (SCHED_FIFO)" in output
    assert "tensors are published at real-time priority 19 (SCHED_FIFO)" in output
    # A publication takes three periods.
    put(fault, 30)
    lost = (
        "the work to publish tensors does not fit into the period: it goes on at ordinary priority"
    )
    output = fusion.process.wait_for(lost)
    assert output.count("the work to publish tensors does not fit into the period") == 1
    # Meanwhile ticks go on, and each newer tensor replaces the one that waits.
    ticks = fusion.value("tick", "tick")
    fusion.until(lambda: fusion.value("tick", "tick") >= ticks + 50, "ticks go on")
    assert fusion.value("tick", "unsent") > 0
    fault.unlink()
    fusion.process.wait_for("the work to publish tensors fits again: it goes on at priority 19")
    tensors = len(fusion.ticks)
    fusion.until(lambda: len(fusion.ticks) > tensors + 20, "tensors go on")
    assert fusion.ticks == sorted(set(fusion.ticks))
    newest_ns = nanoseconds(fusion.tensors[fusion.ticks[-1]].header.stamp)
    assert newest_ns == fusion.ticks[-1] * fusion.period_ns
