"""The benchmark's peer node does the same work: checks of its rows and its alignment."""

import math
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import configuration
import numpy as np
import pytest
import streams

REFERENCE = Path(__file__).resolve().parents[2] / "config" / "robocache.yaml"
MS = 1_000_000


@pytest.fixture(scope="module")
def specs():
    return {stream.name: stream for stream in configuration.load(REFERENCE).streams}


def header(stamp_ns):
    sec, nanosec = divmod(stamp_ns, 1_000_000_000)
    return SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=nanosec))


def wrench(stamp_ns, force_x):
    vector = SimpleNamespace(x=force_x, y=0.0, z=0.0)
    zero = SimpleNamespace(x=0.0, y=0.0, z=0.0)
    return SimpleNamespace(
        header=header(stamp_ns), wrench=SimpleNamespace(force=vector, torque=zero)
    )


def filled(spec, stamps_ms, **changes):
    one_step = replace(spec, lag_ns=0, steps=1, step_ns=0, dtype="f32")
    stream = streams.VectorStream(replace(one_step, **changes))
    for stamp in stamps_ms:
        stream.push(wrench(stamp * MS, float(stamp)), 0, threading.Lock())
    return stream


@pytest.mark.parametrize(
    ("changes", "target_ms", "value", "valid", "age_ms"),
    [
        ({}, 15, 15.0, True, -5),  # between 10 and 20
        ({}, 20, 20.0, True, 0),  # an exact hit
        ({}, 45, 40.0, True, 5),  # after the newest: held
        ({}, 91, 0.0, False, 51),  # held too long
        ({"fill": "last"}, 91, 40.0, False, 51),
        ({}, 5, 0.0, False, None),  # before the oldest
        ({"max_gap_ns": 9 * MS}, 15, 0.0, False, -5),  # a bracket too wide
        ({"lag_ns": 5 * MS}, 20, 15.0, True, -5),
        ({"strategy": "hold"}, 19, 10.0, True, 9),
        ({"strategy": "nearest"}, 16, 20.0, True, -4),
        ({"strategy": "nearest"}, 15, 10.0, True, 5),  # on a tie, the earlier
    ],
)
def test_alignment(specs, changes, target_ms, value, valid, age_ms):
    stream = filled(specs["wrench"], [10, 30, 20, 40], **changes)  # 20 arrives late
    out = np.full((1, 6), np.nan, dtype=np.float32)
    stream.fuse(target_ms * MS, out)
    age_ns = streams.NO_AGE if age_ms is None else age_ms * MS
    assert (out[0, 0], bool(stream.valid[0]), stream.age_ns[0]) == (value, valid, age_ns)


def test_slerp_takes_the_short_way():
    def turn(angle):
        return np.array([0, 0, math.sin(angle / 2), math.cos(angle / 2)])

    np.testing.assert_allclose(streams.slerp(turn(0.2), -turn(1.4), 0.25), turn(0.5), atol=1e-12)
    np.testing.assert_allclose(streams.slerp(turn(0.2), turn(0.21), 0.5), turn(0.205), atol=1e-9)


def test_voxels_against_a_loop_over_points(specs):
    stream = streams.VoxelStream(specs["lidar"])
    generator = np.random.default_rng(5)
    points = np.zeros(3000, dtype=[(name, "<f4") for name in ("x", "y", "z", "intensity")])
    for axis in "xyz":
        points[axis] = generator.uniform(-8, 8, len(points))
    points["intensity"] = generator.uniform(0, 255, len(points))
    points["x"][7] = np.nan
    expected = {}
    for x, y, z, intensity in points.tolist():
        cell = (
            [
                math.floor((v + shift - low) / 0.2)
                for v, shift, low in zip((x, y, z), (0.3, 0, 0.5), (-6.4, -6.4, -1.6))
            ]
            if x == x
            else [-1]
        )
        if all(0 <= c < n for c, n in zip(cell, (64, 64, 32))):
            expected.setdefault(tuple(reversed(cell)), []).append(intensity)
    counts, means = stream._voxels(points)
    assert counts.sum() == sum(map(len, expected.values())) > 500
    differing = [c for c, values in expected.items() if counts[c] != len(values)]
    assert len(differing) <= 4  # float32 differs at the faces of voxels
    for cell, values in expected.items():
        if cell not in differing:
            assert means[cell] == pytest.approx(sum(values) / len(values), rel=1e-5)


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8", "mono8"])
def test_images_with_padded_lines(specs, encoding):
    stream = streams.ImageStream(specs["camera_front"])
    color = {"red": (200, 30, 90, 255), "mono": (120, 120, 120, 255)}
    rgba = color["mono" if encoding == "mono8" else "red"]
    order = {"rgb8": rgba[:3], "bgr8": rgba[2::-1], "rgba8": rgba, "mono8": rgba[:1]}
    pixel = order.get(encoding, (*rgba[2::-1], 255))
    step = 640 * len(pixel) + 16
    lines = np.full((480, step), 255, np.uint8)
    lines[:, : 640 * len(pixel)] = np.tile(np.array(pixel, np.uint8), 640)
    msg = SimpleNamespace(encoding=encoding, width=640, height=480, step=step, data=lines.tobytes())
    row = stream.decode(msg)
    mean, std = (np.array(specs["camera_front"].encoder[key]) for key in ("mean", "std"))
    np.testing.assert_allclose(row[:, 112, 112], (np.array(rgba[:3]) / 255 - mean) / std, atol=1e-5)
    np.testing.assert_allclose(row[:, 0, 0], -mean / std, atol=1e-5)  # padding above
    assert row.shape == (3, 224, 224)
    assert stream.decode(SimpleNamespace(**{**vars(msg), "data": msg.data[:-1]})) is None


def test_bfloat16_is_rounded_to_nearest_even():
    values = np.array([1.0, 1.00390625, 1.01171875, -3.14159], dtype=np.float32)
    assert streams.to_output(values, "bf16").tolist() == [0x3F80, 0x3F80, 0x3F82, 0xC049]
