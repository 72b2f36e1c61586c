"""The benchmark's peer publishes the same tensors as the node, from the same recorded messages.

The node's tensors come from `robocache replay`, which gives a live node's bytes.
Layout, validity and ages must be equal. Values have tolerances, because the two compute them
differently. Cameras differ most: OpenCV averages over areas, and the node uses triangular weights.
"""

import importlib
import math
import threading
from pathlib import Path

import configuration
import numpy as np
import pytest
import rclpy_node
import streams
from rclpy.serialization import deserialize_message, serialize_message
from recordings import replay, write_bag

import robocache

#: The first test may compile an example.
pytestmark = pytest.mark.timeout(900)
REFERENCE = Path(__file__).resolve().parents[2] / "config" / "robocache.yaml"
MS = 1_000_000
T0 = 1_795_000_000_000 * MS
#: Name to (period, transport delay) of each stream [ms].
STREAMS = {
    "camera_front": (33, 9),
    "camera_wrist": (33, 12),
    "lidar": (100, 15),
    "joints": (2, 1),
    "wrench": (2, 1),
    "imu": (5, 2),
}
RECORDED_MS = 430
#: Ticks while the history fills (with invalid steps), and after it is full.
TICKS = [T0 // (10 * MS) + after for after in (8, 21, 35, 42)]


def moved(name, message, stamp_ns):
    """The robot's message at another time. Vectors get the values of that time."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
    seconds = (stamp_ns - T0) / 1e9
    if name == "joints":
        message.position = [math.sin(5 * seconds + joint) for joint in range(14)]
        message.velocity = [5 * math.cos(5 * seconds + joint) for joint in range(14)]
    elif name == "wrench":
        message.wrench.force.x = 10 * math.sin(20 * seconds)
        message.wrench.torque.z = math.cos(30 * seconds)
    elif name == "imu":
        half = 1.5 * seconds
        message.orientation.z, message.orientation.w = math.sin(half), math.cos(half)
        message.orientation.x = message.orientation.y = 0.0
        message.angular_velocity.z = math.sin(9 * seconds)
    return message


@pytest.fixture(scope="module")
def recording(messages):
    """(arrival_ns, stream, type, bytes, message) in order of arrival."""
    events = []
    for index, (name, (period, delay)) in enumerate(STREAMS.items()):
        ros_type, cdr = messages[name]
        package, _, type_name = ros_type.split("/")
        kind = getattr(importlib.import_module(f"{package}.msg"), type_name)
        for at_ms in range(0, RECORDED_MS, period):
            stamp_ns = T0 + at_ms * MS
            message = moved(name, deserialize_message(cdr, kind), stamp_ns)
            arrival_ns = stamp_ns + delay * MS
            events.append((arrival_ns, index, ros_type, serialize_message(message), message))
    return sorted(events, key=lambda event: event[:2])


@pytest.fixture(scope="module")
def nodes_tensors(recording, tmp_path_factory):
    """The node's tensors from the recording, by tick."""
    folder = tmp_path_factory.mktemp("replay")
    topics = [spec.inputs[0].topic for spec in configuration.load(REFERENCE).streams]
    messages = [(at, topics[index], kind, data) for at, index, kind, data, _ in recording]
    bag = write_bag(folder / "bag.mcap", messages)
    replayed = replay(configuration.program(), bag, REFERENCE, folder / "out")
    tensors = {tensor.tick: tensor for tensor in map(robocache.decode, replayed)}
    return {tick: tensors[tick] for tick in TICKS}


@pytest.fixture(scope="module")
def peers_tensors(recording):
    """The peer's tensors from the recording, by tick, serialized by rclpy and decoded."""
    config = configuration.load(REFERENCE)
    assert [spec.name for spec in config.streams] == list(STREAMS)
    made = [streams.KINDS[spec.kind](spec) for spec in config.streams]
    message, views = rclpy_node.make_message(config, made)
    tensors, waiting = {}, list(recording)
    for tick in TICKS:
        stamp_ns = tick * config.period_ns
        while waiting and waiting[0][0] <= stamp_ns:
            arrival_ns, index, _, _, received = waiting.pop(0)
            made[index].push(received, arrival_ns, threading.Lock())
        for stream, view in zip(made, views):
            stream.fuse(stamp_ns, view)
        rclpy_node.complete(message, made, tick, stamp_ns)
        tensors[tick] = robocache.decode(serialize_message(message))
    return tensors


@pytest.fixture(params=range(len(TICKS)))
def pair(request, nodes_tensors, peers_tensors):
    """Both tensors of one tick."""
    return nodes_tensors[TICKS[request.param]], peers_tensors[TICKS[request.param]]


def test_the_same_head_layout_validity_and_ages(pair):
    node, peer = pair
    assert (node.tick, node.stamp_ns, node.frame_id) == (peer.tick, peer.stamp_ns, peer.frame_id)
    assert list(node.segments) == list(peer.segments) == list(STREAMS)
    assert len(node.data) == len(peer.data)
    for name, segment in node.segments.items():
        other = peer[name]
        assert (segment.dtype, segment.shape) == (other.dtype, other.shape)
        offsets = [
            part.array.ctypes.data - whole.data.ctypes.data
            for part, whole in ((segment, node), (other, peer))
        ]
        assert offsets[0] == offsets[1], name
        for field in ("valid", "target_ns", "age_ns", "count", "inputs_valid"):
            np.testing.assert_array_equal(
                getattr(segment, field), getattr(other, field), err_msg=f"{name} {field}"
            )
    assert node.digest == robocache.digest_of(node) != 0 and peer.digest == 0


def test_the_recording_has_all_that_is_compared(nodes_tensors):
    assert list(nodes_tensors) == TICKS
    first, last = nodes_tensors[TICKS[0]], nodes_tensors[TICKS[-1]]
    assert 0 < np.count_nonzero(first["joints"].valid) < len(first["joints"].valid)
    assert all(segment.valid.all() for segment in last.segments.values())
    assert last["joints"].array.std() > 0.5 and last["wrench"].array.std() > 0.5
    assert last["camera_front"].float32().std() > 0.1
    assert last["lidar"].float32()[0, 0].sum() > 10_000


def test_vectors_are_the_same(pair):
    node, peer = pair
    for name in ("joints", "wrench", "imu"):
        np.testing.assert_allclose(node[name].array, peer[name].array, atol=1e-5, err_msg=name)


def test_voxels_are_the_same(pair):
    (counts, means), (peer_counts, peer_means) = (t["lidar"].float32()[0] for t in pair)
    np.testing.assert_array_equal(counts, peer_counts)
    np.testing.assert_allclose(means, peer_means, rtol=2**-7)  # a step of bfloat16


@pytest.mark.parametrize("camera", ["camera_front", "camera_wrist"])
def test_pictures_are_nearly_the_same(pair, camera):
    node, peer = (tensor[camera].float32() for tensor in pair)

    def mean_difference(other):
        return np.abs(node - other).mean()

    # In standard deviations of the normalisation; a picture spans more than four.
    assert mean_difference(peer) < 0.03
    # A shift by one pixel or another order of channels gives a larger difference.
    assert mean_difference(np.roll(peer, 1, axis=-1)) > 0.04
    assert mean_difference(np.roll(peer, 1, axis=-2)) > 0.04
    assert mean_difference(peer[:, ::-1]) > 0.04
