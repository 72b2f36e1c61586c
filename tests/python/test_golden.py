"""Decodes the kept bytes of a message that the node made (tests/golden/message.txt)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import robocache

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "message.txt"
MS = 1_000_000
#: The recording's start; the tick is 100 ms later.
START_NS = 1_795_000_000_000 * MS


@pytest.fixture
def message():
    lines = GOLDEN.read_text().splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def test_every_field_is_read(message):
    """The expectations are those of crates/core/tests/core/pipeline/message.rs."""
    tensor = robocache.decode(message)
    assert tensor.stamp_ns == START_NS + 100 * MS == tensor.tick * 10 * MS
    assert (tensor.run, tensor.epoch) == (0xFEDC_BA98_7654_3210, 3)
    assert tensor.frame_id == "base" and list(tensor.segments) == [
        "joints",
        "camera",
        "grid",
        "wrench",
    ]
    joints, camera, grid, wrench = tensor.segments.values()
    assert (joints.dtype, joints.shape) == ("f32", (3, 3))
    assert joints.valid.tolist() == [False, True, True]
    assert joints.target_ns.tolist() == [START_NS + ms * MS for ms in (75, 85, 95)]
    assert joints.age_ns.tolist() == [robocache.NO_AGE, 3 * MS, 13 * MS]
    assert joints.count.tolist() == [3, 3, 3] and joints.inputs_valid.tolist() == [0, 3, 3]
    np.testing.assert_array_equal(joints.array, [[0, 0, 0], [85, -1, 0.5], [95, -1, 0.5]])
    # At 82 ms: 18 ms before the tick, although it is 13 ms older than the target.
    assert tensor.age_at_tick_ns("joints").tolist() == [robocache.NO_AGE, 18 * MS, 18 * MS]
    assert (camera.dtype, camera.shape) == ("u8", (1, 3, 3, 2))
    pixels = (np.arange(18) * 13).astype(np.uint8).reshape(3, 2, 3)
    np.testing.assert_array_equal(camera.array[0], pixels.transpose(2, 0, 1))
    assert (grid.dtype, grid.shape) == ("bf16", (1, 2, 2, 8, 4))
    assert (grid.valid.any(), grid.count[0], grid.array.any()) == (False, 2, False)
    assert (wrench.dtype, wrench.valid[0], wrench.count[0]) == ("f16", False, 3)
    assert (wrench.inputs_valid[0], wrench.array.tolist()) == (0, [[1.5, -2.5, 0.25]])


def test_the_digest_is_the_nodes(message):
    pytest.importorskip("xxhash", reason="xxhash is an optional companion")
    tensor = robocache.decode(message)
    assert tensor.digest == robocache.digest_of(tensor) != 0


def test_a_flipped_bit_of_any_step_or_value_changes_the_digest(message):
    pytest.importorskip("xxhash", reason="xxhash is an optional companion")
    good = robocache.decode(message)
    for name in ("valid", "target_ns", "age_ns", "count", "inputs_valid"):
        broken = robocache.decode(bytearray(message))
        values = getattr(broken["joints"], name).copy()
        values[1] = not values[1] if name == "valid" else values[1] ^ 1
        setattr(broken["joints"], name, values)
        assert robocache.digest_of(broken) != good.digest, name
    broken = robocache.decode(bytearray(message))
    broken.data[-1] ^= 1
    assert robocache.digest_of(broken) != good.digest


def test_without_xxhash_the_error_says_what_to_install(message, monkeypatch):
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(ImportError, match="expected the package xxhash: pip install xxhash"):
        robocache.digest_of(robocache.decode(message))
