"""Tests with rclpy: its serialization of the message, and a topic between two nodes.

They need a sourced ROS 2 and a built robocache_ros; `make test` provides both.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import rclpy
import waiting
from cdr_writer import fused_tensor, segment
from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import deserialize_message, serialize_message
from robocache_ros.msg import FusedTensor, FusedTensorInfo, SegmentInfo, TensorSegment
from waiting import until

import robocache
from robocache.ros import INFO_QOS, TENSOR_QOS, TensorSubscriber


def fused_tensor_msg(tick=9, names=("joints", "camera")):
    """A message of the generated class."""
    msg = FusedTensor(run=(1 << 63) + 5, epoch=4, tick=tick, digest=(1 << 64) - tick)
    msg.header.frame_id = "base_link"
    msg.header.stamp.sec, msg.header.stamp.nanosec = 1_795_000_000, 90_000_000
    data = bytearray(64 * len(names))
    for at, name in enumerate(names):
        part = TensorSegment(name=name, dtype_code=2, dtype_bits=32, dtype_lanes=1)
        part.shape, part.byte_offset = [2, 3], 64 * at
        part.valid, part.age_ns = [at == 0, True], [robocache.NO_AGE, -7 - at]
        part.target_ns = [1_795_000_000_000_000_000 + at, 1_795_000_000_080_000_000]
        part.count, part.inputs_valid = [0, 3], [0, (1 << 31) + at]
        data[64 * at : 64 * at + 24] = (np.arange(6, dtype="<f4") + at).tobytes()
        msg.segments.append(part)
    msg.data = data
    return msg


def assert_same(left, right):
    for field in ("run", "epoch", "tick", "stamp_ns", "frame_id", "digest"):
        assert getattr(left, field) == getattr(right, field), field
    assert list(left.segments) == list(right.segments)
    for one, other in zip(left.segments.values(), right.segments.values()):
        assert (one.name, one.dtype, one.shape) == (other.name, other.dtype, other.shape)
        np.testing.assert_array_equal(one.array, other.array)
        for field in ("valid", "target_ns", "age_ns", "count", "inputs_valid"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@pytest.mark.parametrize("names", [(), ("j",), ("joints", "camera"), ("a", "bc", "def", "ghij")])
def test_messages_of_rclpy_are_decoded(names):
    msg = fused_tensor_msg(names=names)
    tensor = robocache.decode(serialize_message(msg))
    assert tensor.stamp_ns == 1_795_000_000_090_000_000
    assert (tensor.run, tensor.epoch, tensor.digest) == ((1 << 63) + 5, 4, (1 << 64) - 9)
    assert list(tensor.segments) == list(names)
    for at, part in enumerate(tensor.segments.values()):
        np.testing.assert_array_equal(part.array, np.arange(6).reshape(2, 3) + at)
        assert part.valid.tolist() == [at == 0, True]
        assert part.age_ns.tolist() == [robocache.NO_AGE, -7 - at]
        assert part.target_ns.tolist() == [
            1_795_000_000_000_000_000 + at,
            1_795_000_000_080_000_000,
        ]
        assert part.count.tolist() == [0, 3]
        assert part.inputs_valid.tolist() == [0, (1 << 31) + at]
    assert_same(tensor, robocache.from_msg(msg))


def test_rclpy_and_decode_read_the_same_from_big_endian_bytes():
    part = segment("joints", (4, 16), (1, 2), 0, [True], [5])
    message = fused_tensor([part], b"\x80\x3f\x00\xc0" + bytes(60), order=">")
    assert_same(
        robocache.decode(message), robocache.from_msg(deserialize_message(message, FusedTensor))
    )


def test_from_msg_copies_nothing_and_checks_as_decode_does():
    msg = fused_tensor_msg()
    tensor = robocache.from_msg(msg)
    assert np.shares_memory(tensor["joints"].array, np.frombuffer(msg.data, dtype=np.uint8))
    msg.segments[1].byte_offset = 96
    with pytest.raises(
        ValueError, match="'camera': expected an offset that is a multiple of 64, found 96"
    ):
        robocache.from_msg(msg)


@pytest.fixture
def node():
    context = rclpy.Context()
    rclpy.init(context=context)
    made = rclpy.create_node("tensor_subscriber_test", context=context)
    yield made
    made.destroy_node()
    rclpy.shutdown(context=context)


def test_a_subscriber_gets_tensors_and_counts_malformed_messages(node):
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    tensors = []
    subscriber = TensorSubscriber(node, tensors.append, topic="fused_under_test")
    publisher = node.create_publisher(FusedTensor, "fused_under_test", TENSOR_QOS)
    good = fused_tensor_msg()
    bad = fused_tensor_msg()
    bad.segments[0].valid = []

    def received():
        for msg in (good, bad):
            publisher.publish(msg)
            for _ in range(5):
                executor.spin_once(timeout_sec=0.02)
        return len(tensors) >= 3 and subscriber.malformed

    until(received, "three tensors and a malformed message", nap=0)
    executor.shutdown()
    assert subscriber.received == len(tensors) + subscriber.malformed
    assert_same(tensors[0], robocache.from_msg(good))


def test_who_joins_late_is_told_what_the_channels_are(node):
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    publisher = node.create_publisher(FusedTensorInfo, "fused_under_test/info", INFO_QOS)
    joints = SegmentInfo(name="joints", channels=["hip.position"])
    publisher.publish(FusedTensorInfo(segments=[joints]))
    told = []
    subscriber = TensorSubscriber(node, print, topic="fused_under_test", on_info=told.append)
    assert subscriber.topic == "/fused_under_test"
    until(lambda: told or executor.spin_once(timeout_sec=0.02), "the channels", nap=0)
    subscriber.destroy()
    executor.shutdown()
    assert [list(part.channels) for part in told[0].segments] == [["hip.position"]]


BUFFERS = """
import resource, sys
sys.path.insert(0, {package!r})
from robocache.ros import keep_large_buffers
assert {keep} is False or keep_large_buffers()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10): bytes(bytearray(2_000_000))
before = faults()
for _ in range(100): bytes(bytearray(2_000_000))
print(faults() - before)
"""


def test_large_buffers_are_kept():
    package = str(Path(robocache.__file__).parents[1])

    def faults(keep):
        code = BUFFERS.format(package=package, keep=keep)
        return int(waiting.run([sys.executable, "-c", code], check=True).stdout)

    assert faults(keep=True) < 100 < faults(keep=False)
