"""Clouds and images as arrays, compared with an implementation of the rules in NumPy."""

import re

import numpy as np
import pytest

import robocache

GRID = {"origin_m": (-1.0, -0.5, 0.0), "size_m": 0.25, "shape": (8, 6, 5)}
MEAN, STD = (0.5, 0.25, 0.125), (0.25, 0.5, 0.75)


def grid_of(points, values, word, min_points):
    """One channel of one cloud, [Z, Y, X], in float32; and what happened to the points."""
    finite = np.isfinite(points).all(1) & np.isfinite(values)
    origin, size = np.float32(GRID["origin_m"]), np.float32(GRID["size_m"])
    cells = np.floor((points[finite].astype(np.float32) - origin) / size)
    inside = ((cells >= 0) & (cells < GRID["shape"])).all(1)
    cells, kept = cells[inside].astype(int), values[finite][inside].astype(np.float32)
    out, few = np.zeros(GRID["shape"], np.float32), 0
    for cell in np.unique(cells, axis=0):
        own = kept[(cells == cell).all(1)]
        if len(own) < min_points:
            few += len(own)
            continue
        fixed = np.rint(own.astype(float) * 2**20).sum()
        out[tuple(cell)] = {
            "count": len(own),
            "occupancy": 1,
            "mean": fixed / (len(own) * 2**20),
            "sum": fixed / 2**20,
            "max": own.max(),
            "min": own.min(),
            "last": own[-1],
        }[word]
    return out.transpose(2, 1, 0), [(~finite).sum(), 0, (~inside).sum(), few]


def cloud(random, count, dtype=np.float32):
    points = random.uniform(-1.5, 1.5, (count, 4)).astype(dtype)
    points[random.random(count) < 0.05, random.integers(0, 4)] = np.nan
    return points


def test_random_clouds_have_the_grids_of_the_reference():
    words = ["count", "occupancy", "mean", "sum", "max", "min", "last"]
    for seed in range(150):
        random = np.random.default_rng(seed)
        counts = random.choice([0, 1, 30, 400], random.integers(1, 4))
        points = cloud(random, counts.sum())
        offsets = np.concatenate([[0], np.cumsum(counts)])
        chosen = list(random.choice(words, 3, replace=False))
        channels = [word if word in words[:2] else f"{word}(intensity)" for word in chosen]
        # A cloud without a channel of the field does not look at it.
        if not any("(" in channel for channel in channels):
            points[:, 3] = 0
        min_points = int(random.choice([1, 1, 3]))
        found = robocache.voxelize(
            points,
            channels=channels,
            fields=("x", "y", "z", "intensity"),
            offsets=offsets,
            min_points=min_points,
            **GRID,
        )
        assert found.values.shape == (len(counts), 3, 5, 6, 8)
        for at in range(len(counts)):
            own = points[offsets[at] : offsets[at + 1]]
            for channel, word in enumerate(chosen):
                expected, dropped = grid_of(own[:, :3], own[:, 3], word, min_points)
                assert found.values[at, channel].tobytes() == expected.tobytes(), (seed, word)
            assert found.dropped[at].tolist() == dropped


def test_one_cloud_and_clouds_of_one_size_need_no_offsets():
    points = cloud(np.random.default_rng(0), 600).reshape(3, 200, 4)[:, :, :3]
    assert not points.flags.c_contiguous
    found = robocache.voxelize(points, channels=["count"], dtype=np.float16, **GRID)
    assert found.values.dtype == np.float16
    for at in range(3):
        alone = robocache.voxelize(points[at], channels=["count"], dtype="float16", **GRID)
        assert alone.values.shape == (1, 5, 6, 8)
        assert (alone.values == found.values[at]).all()
        assert (alone.dropped == found.dropped[at]).all()


def test_points_are_taken_to_the_frame_of_the_grid():
    points = np.array([[0.1, 0.2, 0.3]], np.float64)
    pose = [[0, -1, 0, 0.5], [1, 0, 0, 0.0], [0, 0, 1, 0.25]]
    found = robocache.voxelize(points, t_base_sensor=pose, **GRID).values
    x, y, z = 0.5 - 0.2, 0.1, 0.3 + 0.25
    at = [int(z / 0.25), int((y + 0.5) / 0.25), int((x + 1) / 0.25)]
    assert np.argwhere(found[0]).tolist() == [at]


POINTS = np.zeros((4, 3), np.float32)
WRONG_POINTS = [
    (TypeError, "points: expected elements of float32 or float64, found int64", {"points": np.zeros((4, 3), int)}),
    (ValueError, "points: expected the shape [N, F] or [B, N, F], found [4]", {"points": np.zeros(4, np.float32)}),
    (ValueError, "fields: expected a name for each of 3 values, found 4", {"fields": "xyzw"}),
    (ValueError, "fields: expected x among them", {"fields": "abz"}),
    (ValueError, "channels: expected a feature of x, y, z, range", {"channels": ["mean(a)"]}),
    (ValueError, "channels: expected count, occupancy, or mean", {"channels": ["mean"]}),
    (ValueError, "channels: expected words such as", {"channels": ["mean x"]}),
    (ValueError, "channels and min_points: expected at least one", {"channels": []}),
    (ValueError, "size_m: expected a positive number", {"size_m": 0.0}),
    (ValueError, "shape: expected 1 to 2^31 - 1 voxels", {"shape": (1 << 20, 1 << 20, 1)}),
    (ValueError, "origin_m: expected a grid within", {"origin_m": (np.inf, 0, 0)}),
    (ValueError, "offsets: expected them from 0 to 4", {"offsets": [0, 5]}),
    (ValueError, "offsets: expected them from 0 to 4", {"offsets": [0, 3, 2, 4]}),
    (ValueError, "offsets: expected at least one whole number", {"offsets": [0.5]}),
    (ValueError, "t_base_sensor: expected the shape", {"t_base_sensor": np.eye(3)}),
    (ValueError, "t_base_sensor: expected finite", {"t_base_sensor": np.full((3, 4), np.nan)}),
    (TypeError, "dtype: expected elements of", {"dtype": "int8"}),
    (ValueError, "out: expected the shape", {"out": np.zeros(3, np.float32)}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "change"), WRONG_POINTS)
def test_wrong_arguments_of_voxelize_are_told(error, message, change):
    with pytest.raises(error, match=re.escape(message)):
        robocache.voxelize(**{"points": POINTS, **GRID, **change})


def test_a_value_that_the_type_does_not_hold_is_told():
    points = np.zeros((1, 4), np.float32)
    points[0, 3] = 1e5
    with pytest.raises(ValueError, match="f16"):
        robocache.voxelize(points, fields="xyzi", channels=["max(i)"], dtype="float16", **GRID)


def test_images_are_normalised():
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (5, 7, 9, 3), np.uint8)
    found = robocache.encode_image(images, size=(7, 9), fit="stretch", mean=MEAN, std=STD)
    scaled = images.astype(np.float32) / np.float32(255)
    expected = (scaled - np.float32(MEAN)) / np.float32(STD)
    assert found.tobytes() == expected.transpose(0, 3, 1, 2).tobytes()
    turned = robocache.encode_image(
        images[..., ::-1], size=(7, 9), encoding="bgr8", layout="hwc", dtype="uint8"
    )
    assert (turned == images).all()
    one = robocache.encode_image(images[2], size=(7, 9), mean=MEAN, std=STD)
    assert one.tobytes() == found[2].tobytes()


def test_images_are_resized_and_cropped():
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (4, 31, 47, 3), np.uint8)
    found = robocache.encode_image(
        images,
        size=(10, 20),
        filter="nearest",
        fit="stretch",
        crop=(4, 3, 40, 20),
        dtype="uint8",
        layout="hwc",
    )
    rows = np.floor(np.arange(10) * 2.0).astype(int) + 3
    columns = np.floor(np.arange(20) * 2.0).astype(int) + 4
    assert (found == images[:, rows][:, :, columns]).all()
    gray = robocache.encode_image(
        images[..., :1], size=(31, 47), color="mono", mean=[0.5], std=[0.5], dtype="float16"
    )
    assert gray.shape == (4, 1, 31, 47)
    assert gray.dtype == np.float16


IMAGES = np.zeros((2, 4, 6, 3), np.uint8)
WRONG_IMAGES = [
    (TypeError, "images: expected elements of uint8, found float32", {"images": IMAGES.astype(np.float32)}),
    (ValueError, "images: expected the shape [H, W, C] or [N, H, W, C], found [4, 6]", {"images": IMAGES[0, :, :, 0]}),
    (ValueError, "images: expected 4 channels of rgba8, found 3", {"encoding": "rgba8"}),
    (ValueError, "images: expected sides of 1 to", {"images": IMAGES[:, :0]}),
    (ValueError, "encoding: expected one of rgb8, bgr8", {"encoding": "yuv"}),
    (ValueError, "size: expected 1 to 4 sizes of 1 to 16384 pixels", {"size": (0, 5)}),
    (ValueError, "filter: expected one of pil_bilinear", {"filter": "cubic"}),
    (ValueError, "fit: expected one of stretch", {"fit": "best"}),
    (ValueError, "crop: expected a part of 4 x 6 pixels", {"crop": (0, 0, 7, 4)}),
    (ValueError, "mean and std: expected finite numbers", {"std": (0, 1, 1)}),
    (ValueError, "mean: expected 1 or 3 numbers, found 2", {"mean": (0, 1)}),
    (ValueError, "pad_value: expected 0 to 255, found 256", {"pad_value": 256}),
    (TypeError, "dtype: expected one of float32", {"dtype": "int32"}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "change"), WRONG_IMAGES)
def test_wrong_arguments_of_encode_image_are_told(error, message, change):
    with pytest.raises(error, match=re.escape(message)):
        robocache.encode_image(**{"images": IMAGES, "size": (3, 3), **change})


def test_no_images_and_no_clouds():
    assert robocache.encode_image(IMAGES[:0], size=(3, 3)).shape == (0, 3, 3, 3)
    none = robocache.voxelize(np.zeros((0, 3), np.float32), offsets=[0], **GRID)
    assert none.values.shape == (0, 1, 5, 6, 8)
    assert none.dropped.shape == (0, 4)
