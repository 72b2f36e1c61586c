"""The message as a client of ROS reads it: steps, inputs, bytes, digest, and what it means."""

import time

import numpy as np
import pytest
import xxhash
from fusion import (
    BEST_EFFORT,
    MS,
    T0,
    nanoseconds,
    start_fusion,
    streams,
    subscribe_tensors,
    write_config,
)
from PIL import Image as Pillow
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from test_groups import JOINTS, arm, gripper
from test_images import image_message

LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
HISTORY = {"steps": 2, "step_ms": 10}
CONFIG = {
    "lag_ms": 5,
    "streams": streams(
        joints={**JOINTS, "history": HISTORY, "inputs": [{"topic": "/arm"}, {"topic": "/gripper"}]},
        camera={
            "type": "sensor_msgs/msg/Image",
            "dtype": "u8",
            "image": {"resize": {"width": 24, "height": 16, "fit": "stretch"}, "color": "bgr"},
        },
        picture={
            "type": "sensor_msgs/msg/Image",
            "topic": "/camera",
            "image": {
                "resize": {"width": 4, "height": 2},
                "color": "mono",
                "mean": [0.5],
                "std": [0.25],
            },
        },
        grid={
            "type": "sensor_msgs/msg/PointCloud2",
            "dtype": "bf16",
            "cloud": {
                "origin_m": [-1, -2, 0.5],
                "size_m": 0.25,
                "shape": [4, 3, 2],
                "channels": [{"reduce": "occupancy"}, {"reduce": "max", "field": "intensity"}],
            },
        },
    ),
}


def digest(message):
    """The digest of a FusedTensor, computed from the plain message by the text of its definition."""
    text = b""
    for part in message.segments:
        text += np.array(part.valid, "u1").tobytes()
        text += np.array(part.target_ns, "<i8").tobytes() + np.array(part.age_ns, "<i8").tobytes()
        text += np.array(part.count, "<u4").tobytes() + np.array(part.inputs_valid, "<u4").tobytes()
    return xxhash.xxh3_64_intdigest(text + bytes(message.data))


def await_info(ros, node, topic):
    """The info that a late subscription gets."""

    def subscribe():
        got = []
        ros.node.create_subscription(FusedTensorInfo, topic, got.append, LATCHED)
        ros.spin_until(lambda: got, "the info", detail=lambda: node.output)
        return got

    first = subscribe()
    # A later subscription gets it, too.
    subscribe()
    assert len(first) == 1, "published once"
    return first[0]


def test_two_publishers_of_one_stream_show_in_its_inputs(ros, start, tmp_path):
    """Bit 0 is the arm's, bit 1 the gripper's. The target times decide everything else."""
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    # Only the arm: the steps need both groups.
    fusion.send("/arm", arm(T0 - 20 * MS, [1, 2], [3, 4]))
    got = fusion.tick(T0)["joints"]
    # The bits say which input is valid, even if the step is not.
    assert (got.valid, got.inputs_valid, got.count) == ([False] * 2, [0b01] * 2, [6, 6])
    assert got.target_ns == [T0 - 15 * MS, T0 - 5 * MS]
    # From the gripper's first message on, both are used.
    fusion.send("/gripper", gripper(T0 - 2 * MS, 5, 6))
    fusion.send("/arm", arm(T0 + 8 * MS, [1, 2], [3, 4]))
    got = fusion.tick(T0 + 10 * MS)["joints"]
    assert got.target_ns == [T0 - 5 * MS, T0 + 5 * MS]
    assert (got.valid, got.inputs_valid, got.count) == ([False, True], [0b01, 0b11], [6, 6])
    # Both groups in a message of the second input: its bit alone.
    joined = arm(T0 + 15 * MS, [7, 8], [9, 10])
    for field, value in (("name", "finger"), ("position", 11.0), ("velocity", 12.0)):
        setattr(joined, field, [*getattr(joined, field), value])
    fusion.send("/gripper", joined)
    got = fusion.tick(T0 + 20 * MS)["joints"]
    assert (got.valid, got.inputs_valid) == ([True, True], [0b11, 0b10])
    assert got.age_ns == [-3 * MS, 0], "the greatest of the groups' ages"
    sealed = [message for message in fusion.tensors.values() if message.digest]
    assert len(sealed) == len(fusion.tensors) > 2
    assert all(message.digest == digest(message) for message in sealed)
    assert len({message.digest for message in sealed}) == len(sealed), "each tick has its own"


def test_an_image_of_bytes_is_what_pillow_gives(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    pixels = np.random.default_rng(3).integers(0, 256, (37, 53, 3), np.uint8)
    picture = Pillow.fromarray(pixels)
    fusion.send("/camera", image_message(T0 - 10 * MS, picture, "rgba8", padding=7))
    got = fusion.tick(T0)["camera"]
    assert (got.array.dtype, got.valid, got.count) == (np.uint8, [True], [3])
    small = np.asarray(picture.resize((24, 16), Pillow.Resampling.BILINEAR))
    np.testing.assert_array_equal(got.array[0], small[..., ::-1].transpose(2, 0, 1))


def test_who_joins_late_learns_what_the_tensor_means(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    info = await_info(ros, fusion.process, "/fused_tensor/info")
    assert info.header.frame_id == "base_link"
    assert nanoseconds(info.header.stamp) == 0, "it was published before the first /clock"
    file = tmp_path / "config.yaml"
    assert (info.config_file, info.config) == (str(file), file.read_text())
    assert (info.rate_hz, info.period_ns, info.digest) == (100.0, 10 * MS, True)
    assert info.backend.startswith("cpu") and info.version.count(".") == 2
    (message,) = list(fusion.tensors.values())[:1]
    assert [part.name for part in info.segments] == [part.name for part in message.segments]
    for part, described in zip(message.segments, info.segments):
        assert list(part.shape) == list(described.shape)
        assert len(described.channels) == part.shape[1]
        assert set(described.timelines) == {"header"}
        assert len(described.timelines) == len(described.topics)
        assert described.strategy == ("linear" if part.name == "joints" else "hold")
        assert (described.lag_ns, described.max_age_ns, described.fill) == (5 * MS, 50 * MS, "zero")
    joints, camera, picture, grid = info.segments
    names = ["hip", "knee", "finger"]
    assert list(joints.channels) == [f"{n}.{f}" for f in ("position", "velocity") for n in names]
    assert list(joints.topics) == ["/arm", "/gripper"]
    assert list(joints.ros_types) == ["sensor_msgs/msg/JointState"] * 2
    assert (joints.encoder, joints.dtype, joints.history_step_ns) == ("vector", "f32", 10 * MS)
    assert list(joints.target_offsets_ns) == [-15 * MS, -5 * MS]
    assert (joints.max_gap_ns, camera.max_gap_ns, camera.history_step_ns) == (50 * MS, 0, 0)
    assert (camera.encoder, camera.dtype, list(camera.channels)) == ("image", "u8", ["b", "g", "r"])
    assert list(camera.mean) == list(camera.std) == [] and list(camera.topics) == ["/camera"]
    assert (list(picture.mean), list(picture.std)) == ([0.5], [0.25])
    assert list(picture.channels) == ["mono"]
    assert (camera.layout, list(camera.filters)) == ("chw", ["pil_bilinear"])
    assert (joints.layout, list(joints.filters)) == ("", [])
    assert (grid.encoder, grid.dtype) == ("voxels", "bf16")
    assert list(grid.channels) == ["occupancy", "max(intensity)"]
    assert (list(grid.origin_m), grid.size_m) == ([-1, -2, 0.5], 0.25)
    assert list(joints.origin_m) == list(joints.mean) == [] and joints.size_m == 0


@pytest.mark.parametrize("given", [False, True])
def test_a_parameter_turns_the_digest_off(ros, start, tmp_path, given):
    """Under other names: the info is beside the tensor, unless it is remapped itself."""
    config = {"rate_hz": 100, "streams": {"joints": CONFIG["streams"]["joints"]}}
    parameters = {"config_file": write_config(tmp_path, config), "digest": str(given).lower()}
    remapped = {"fused_tensor": "/cell/input", "/arm": "/left/arm"}
    topic = "/cell/input/info"
    if given:
        remapped[topic] = topic = "/cell/meaning"
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    words += [word for name, value in remapped.items() for word in ("-r", f"{name}:={value}")]
    began_ns = time.time_ns()
    node = start("fusion_node", "--ros-args", *words)
    received = subscribe_tensors(ros, "/cell/input")
    ros.spin_until(lambda: len(received) > 3, "tensors", detail=lambda: node.output)
    info = await_info(ros, node, topic)
    assert info.digest is given
    assert list(info.segments[0].topics) == ["/left/arm", "/gripper"], "after remapping"
    assert began_ns < nanoseconds(info.header.stamp) < time.time_ns()
    for message in received:
        assert message.digest == (digest(message) if given else 0)


def test_a_subscription_that_is_volatile_gets_no_info(ros, start, tmp_path):
    """The tests above show the latch, and not a second publication."""
    fusion = start_fusion(ros, start, tmp_path, CONFIG).warm_up()
    got = []
    topic = "/fused_tensor/info"
    ros.node.create_subscription(FusedTensorInfo, topic, got.append, BEST_EFFORT)
    # Later subscriptions get it.
    await_info(ros, fusion.process, topic)
    assert not got, fusion.process.output
