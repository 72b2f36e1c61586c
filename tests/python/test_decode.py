"""Decodes messages to views: values, byte orders, and all kinds of wrong messages."""

import numpy as np
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
from cdr_writer import fused_tensor, segment  # noqa: E402

import robocache  # noqa: E402

F32, F16, BF16 = (2, 32), (2, 16), (4, 16)


def example(order="<", **changes):
    """The bytes of three segments of the three types, with padding between them."""
    joints = np.arange(6, dtype="<f4").reshape(2, 3) - 2.5
    wrench = np.array([[1.5, -0.25]], dtype="<f2")
    camera = np.array([[[0x3F80, 0xC000], [0x0000, 0x4049]]], dtype="<u2")  # 1, -2, 0, 3.140625
    data = bytearray(256 + camera.nbytes)
    data[0:24] = joints.tobytes()
    data[64:68] = wrench.tobytes()
    data[256:] = camera.tobytes()
    segments = [
        segment(
            "joints",
            F32,
            (2, 3),
            0,
            (False, True),
            (robocache.NO_AGE, 4_000_000),
            target_ns=(12_000_000_000, 1_795_000_000_123_456_789),
            count=(0, 3),
            inputs_valid=(0, 1 << 31 | 1),
        ),
        segment("wrench", F16, (1, 2), 64, (True,), (-5,)),
        segment("camera", BF16, (1, 2, 2), 256, (True,), (33_000_000,)),
    ]
    segments[changes.pop("segment", 0)].update(changes)
    return fused_tensor(segments, data, order)


@pytest.mark.parametrize("order", ["<", ">"])
def test_values_flags_and_ages_in_both_byte_orders(order):
    tensor = robocache.decode(example(order))
    assert (tensor.tick, tensor.stamp_ns, tensor.frame_id) == (77, 12_000_000_340, "base")
    assert (tensor.run, tensor.epoch, tensor.digest) == (9, 3, 5)
    assert list(tensor.segments) == ["joints", "wrench", "camera"]
    joints, wrench, camera = tensor.segments.values()
    np.testing.assert_array_equal(joints.array, np.arange(6).reshape(2, 3) - 2.5)
    assert (joints.dtype, joints.array.dtype, joints.shape) == ("f32", np.float32, (2, 3))
    assert joints.valid.tolist() == [False, True] and joints.valid.dtype == bool
    assert joints.age_ns.tolist() == [robocache.NO_AGE, 4_000_000]
    assert joints.target_ns.tolist() == [12_000_000_000, 1_795_000_000_123_456_789]
    assert (joints.count.tolist(), joints.inputs_valid.tolist()) == ([0, 3], [0, (1 << 31) + 1])
    assert (joints.count.dtype, joints.inputs_valid.dtype) == (np.uint32, np.uint32)
    assert (wrench.array.dtype, wrench.array.tolist()) == (np.float16, [[1.5, -0.25]])
    assert wrench.age_ns.tolist() == [-5]
    assert camera.array.dtype == np.uint16 and camera.shape == (1, 2, 2)
    np.testing.assert_array_equal(camera.float32(), [[[1, -2], [0, 3.140625]]])
    assert "array: bits as uint16" in repr(camera) and "bits" not in repr(joints)
    assert wrench.float32().dtype == camera.float32().dtype == np.float32
    assert tensor["camera"] is camera


def test_nothing_is_copied():
    message = bytearray(example())
    tensor = robocache.decode(message)
    whole = np.frombuffer(message, dtype=np.uint8)
    for part in tensor.segments.values():
        assert np.shares_memory(part.array, whole)
    assert np.shares_memory(tensor["joints"].float32(), whole)
    message[-2:] = b"\x80\x3f"  # the last element of the last segment: 1.0
    assert tensor["camera"].float32()[0, 1, 1] == 1.0


def test_the_views_of_immutable_bytes_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        robocache.decode(example())["joints"].array[0, 0] = 1


def test_dlpack_shares_memory():
    message = bytearray(example())
    joints = robocache.decode(message)["joints"]
    imported = np.from_dlpack(joints)
    assert np.shares_memory(imported, np.frombuffer(message, dtype=np.uint8))
    np.testing.assert_array_equal(imported, joints.array)


def test_torch_shares_memory():
    torch = pytest.importorskip("torch", reason="torch is an optional companion")
    message = bytearray(example())
    tensor = robocache.decode(message)
    camera = tensor["camera"].torch()
    assert camera.dtype == torch.bfloat16 and camera.shape == (1, 2, 2)
    assert camera.flatten().tolist() == [1, -2, 0, 3.140625]
    message[-2:] = b"\x80\x3f"
    assert camera[0, 1, 1] == 1
    assert tensor["joints"].torch().dtype == torch.float32


def test_every_bfloat16_converts_to_a_float32_with_its_bits_as_upper_half():
    bits = np.arange(1 << 16, dtype="<u2")
    message = fused_tensor([segment("all", BF16, (1, 1 << 16), 0, [1], [0])], bits.tobytes())
    values = robocache.decode(message)["all"].float32()
    np.testing.assert_array_equal(values[0].view(np.uint32), bits.astype(np.uint32) << 16)


def test_bytes_and_integers_are_views_too():
    pixels, cells = np.arange(6, dtype="u1"), np.array([-1, 1 << 30, 7], dtype="<i4")
    parts = [
        segment("camera", (1, 8), (1, 3, 2), 0, [1], [0]),
        segment("voxels", (0, 32), (1, 3), 64, [1], [0]),
    ]
    data = pixels.tobytes() + bytes(58) + cells.tobytes()
    camera, voxels = robocache.decode(fused_tensor(parts, data)).segments.values()
    assert (camera.dtype, voxels.dtype) == ("u8", "i32")
    np.testing.assert_array_equal(camera.array, pixels.reshape(1, 3, 2))
    np.testing.assert_array_equal(voxels.array, cells[None])
    assert camera.float32().dtype == np.float32
    assert (
        np.from_dlpack(robocache.decode(bytearray(fused_tensor(parts, data)))["camera"]).size == 6
    )


def test_the_voxels_in_use_of_a_sparse_step_are_a_view():
    features = np.arange(12, dtype="<f4").reshape(2, 3, 2)
    cells = np.arange(18, dtype="<i4").reshape(2, 3, 3)
    parts = [
        segment("lidar", F32, (2, 3, 2), 0, [1, 1], [0, 0], count=[3, 2]),
        segment("lidar.coordinates", (0, 32), (2, 3, 3), 64, [1, 1], [0, 0], count=[3, 2]),
    ]
    data = features.tobytes() + bytes(16) + cells.tobytes()
    tensor = robocache.decode(fused_tensor(parts, data))
    lidar, coordinates = tensor["lidar"], tensor["lidar.coordinates"]
    np.testing.assert_array_equal(lidar.in_use(), features[1, :2])
    np.testing.assert_array_equal(coordinates.in_use(), cells[1, :2])
    np.testing.assert_array_equal(coordinates.in_use(step=0), cells[0])
    assert np.shares_memory(lidar.in_use(), lidar.array)


def test_the_age_at_the_tick_includes_lag_and_history():
    tick_ns = 1_795_000_000_000_000_000
    steps = {"target_ns": [tick_ns - 30, tick_ns - 20, tick_ns - 10], "count": [0, 1, 1]}
    part = segment("pose", F32, (3, 1), 0, [0, 1, 1], [robocache.NO_AGE, -4, 7], **steps)
    stamp = divmod(tick_ns, 10**9)
    tensor = robocache.decode(fused_tensor([part], bytes(64), stamp=stamp))
    # The rows were stamped 16 ns and 17 ns before the tick.
    assert tensor.age_at_tick_ns("pose").tolist() == [robocache.NO_AGE, 16, 17]


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_digest_does_not_depend_on_the_byte_order_of_the_message(order):
    xxhash = pytest.importorskip("xxhash", reason="xxhash is an optional companion")
    tensor = robocache.decode(example(order))
    digest = robocache.digest_of(tensor)
    little = robocache.decode(example("<"))
    assert digest == robocache.digest_of(little)
    joints, wrench, camera = little.segments.values()
    text = b""
    for part in (joints, wrench, camera):
        for field in (part.valid, part.target_ns, part.age_ns, part.count, part.inputs_valid):
            text += field.tobytes()
    assert digest == xxhash.xxh3_64_intdigest(text + little.data.tobytes())


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_truncation_is_an_error(order):
    message = example(order)
    for length in range(len(message)):
        with pytest.raises(ValueError, match="expected .* found"):
            robocache.decode(message[:length])


def test_a_flipped_byte_gives_a_value_or_an_error():
    message = example()
    outcomes = {"value": 0, "error": 0}
    for at in range(len(message)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(message)
            broken[at] ^= flip
            try:
                tensor = robocache.decode(broken)
            except ValueError:
                outcomes["error"] += 1
                continue
            outcomes["value"] += 1
            for part in tensor.segments.values():
                assert part.array.shape == part.shape and len(part.valid) == part.shape[0]
    assert min(outcomes.values()) > 100, outcomes


IMPOSSIBLE = [
    ({"dtype_code": 1}, r"'joints': expected DLPack type .* found \(1, 32\) with 1"),
    ({"dtype_code": 0, "dtype_bits": 8}, r"\(1, 8\), \(0, 32\) with 1 lane, found \(0, 8\)"),
    ({"dtype_bits": 64}, r"found \(2, 64\) with 1"),
    ({"dtype_lanes": 4}, r"found \(2, 32\) with 4"),
    ({"shape": []}, r"expected a shape of sizes >= 0, found \[\]"),
    ({"shape": [2, -3]}, r"expected a shape of sizes >= 0, found \[2, -3\]"),
    (
        {"shape": [2, 1 << 62], "count": [0, 0]},
        r"expected f32\[2, \d+\] at byte 0 to lie inside the data, found 264 bytes of data",
    ),
    ({"shape": [3, 3]}, r"expected 3 steps in valid, found 2"),
    ({"valid": [True]}, r"expected 2 steps in valid, found 1"),
    ({"target_ns": []}, r"expected 2 steps in target_ns, found 0"),
    ({"age_ns": [1, 2, 3]}, r"expected 2 steps in age_ns, found 3"),
    ({"count": [1]}, r"expected 2 steps in count, found 1"),
    ({"inputs_valid": [1, 1, 1]}, r"expected 2 steps in inputs_valid, found 3"),
    ({"count": [3, 4]}, r"expected at most 3 entries in count, found 4"),
    ({"byte_offset": 4}, r"expected an offset that is a multiple of 64, found 4"),
    ({"byte_offset": 256}, r"expected f32\[2, 3\] at byte 256 .* found 264 bytes of data"),
    ({"byte_offset": (1 << 64) - 64}, r"found 264 bytes of data"),
    ({"name": "wrench"}, r"expected distinct segment names, found 'wrench' twice"),
]


@pytest.mark.parametrize(("changes", "message"), IMPOSSIBLE)
def test_impossible_segments_are_errors_that_say_why(changes, message):
    with pytest.raises(ValueError, match=message):
        robocache.decode(example(**changes))


def test_impossible_headers_are_errors_that_say_why():
    with pytest.raises(ValueError, match="expected 4 more bytes at byte 0, found 0"):
        robocache.decode(b"")
    with pytest.raises(ValueError, match="PLAIN_CDR.*found encapsulation 0x0003"):
        robocache.decode(b"\0\3" + example()[2:])
    with pytest.raises(ValueError, match="below 1000000000, found 1000000000"):
        robocache.decode(fused_tensor([], b"", stamp=(0, 1_000_000_000)))
    broken = example().replace(b"base\0", b"b\xffse\0")
    with pytest.raises(ValueError, match="expected UTF-8 in the string at byte 12, found 62ff7365"):
        robocache.decode(broken)


def test_empty_tensors_and_empty_segments_are_fine():
    assert robocache.decode(fused_tensor([], b"")).segments == {}
    empty = segment("none", F32, (0, 3), 64, [], [])
    tensor = robocache.decode(fused_tensor([empty], bytes(64)))
    assert tensor["none"].array.shape == (0, 3)
