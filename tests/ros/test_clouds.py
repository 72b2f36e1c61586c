"""Clouds with the unusual layouts of some drivers, and their voxel grids."""

import numpy as np
from fusion import MS, T0, stamped, start_fusion, streams
from sensor_msgs.msg import PointCloud2, PointField

ORIGIN, VOXEL, SHAPE = (-1.0, -2.0, 0.0), 0.5, (6, 8, 4)
#: A quarter turn about z, then a translation.
TURN, SHIFT = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.array([0.5, -0.25, 1.0])
CLOUD = streams(
    cloud={
        "type": "sensor_msgs/msg/PointCloud2",
        "t_base_sensor": {"translation_m": SHIFT.tolist(), "rotation_rpy_deg": [0, 0, 90]},
        "cloud": {
            "origin_m": list(ORIGIN),
            "size_m": VOXEL,
            "shape": list(SHAPE),
            "channels": [
                {"reduce": "count"},
                {"reduce": "occupancy"},
                {"reduce": "mean", "field": "intensity"},
                {"reduce": "max", "field": "intensity"},
                {"reduce": "mean", "field": "z"},
                {"reduce": "max", "field": "ring"},
            ],
        },
    }
)
#: NumPy's type to the code of sensor_msgs/PointField.
FIELD_TYPES = {"u1": 2, "i2": 3, "u2": 4, "f4": 7, "f8": 8}


def cloud_message(ns, points, layout, big_endian, height=1, point_step=None, row_padding=0):
    """Makes a cloud of points by field name. `layout` is a list of (name, type, offset)."""
    order = ">" if big_endian else "<"
    point_step = point_step or max(at + np.dtype(kind).itemsize for _, kind, at in layout)
    count = len(points["x"])
    width = count // height
    dtype = np.dtype(
        {
            "names": [name for name, _, _ in layout],
            "formats": [order + kind for _, kind, _ in layout],
            "offsets": [at for _, _, at in layout],
            "itemsize": point_step,
        }
    )
    data = np.frombuffer(np.random.default_rng(1).bytes(count * point_step), np.uint8).copy()
    table = data.view(dtype)
    for name, _, _ in layout:
        table[name] = points[name]
    rows = data.reshape(height, width * point_step)
    garbage = np.full((height, row_padding), 0x7F, np.uint8)
    data = np.hstack([rows, garbage])
    fields = [
        # PCL leaves the count of a plain field at 0.
        PointField(name=name, offset=at, datatype=FIELD_TYPES[kind], count=0 if name == "z" else 1)
        for name, kind, at in layout
    ]
    return stamped(
        PointCloud2,
        ns,
        height=height,
        width=width,
        fields=fields,
        is_bigendian=big_endian,
        point_step=point_step,
        row_step=data.shape[1],
        data=data.tobytes(),
        is_dense=True,  # wrong here, as from many drivers
    )


def expected_grid(points):
    """The voxel grid by a plain loop, and the counts of points that are non-finite or outside."""
    grid = np.zeros((6, SHAPE[2], SHAPE[1], SHAPE[0]))
    voxels, non_finite, outside = {}, 0, 0
    for i in range(len(points["x"])):
        raw = [float(points[name][i]) for name in ("x", "y", "z", "intensity", "ring")]
        if not np.all(np.isfinite(raw)):
            non_finite += 1
            continue
        place = TURN @ raw[:3] + SHIFT
        voxel = np.floor((place - ORIGIN) / VOXEL).astype(int)
        if np.any(voxel < 0) or np.any(voxel >= SHAPE):
            outside += 1
            continue
        voxels.setdefault(tuple(voxel), []).append((raw[3], place[2], raw[4]))
    for (x, y, z), inside in voxels.items():
        intensity, height, ring = zip(*inside)
        mean = [np.mean(intensity), max(intensity), np.mean(height), max(ring)]
        grid[:, z, y, x] = [len(inside), 1, *mean]
    return grid, non_finite, outside


LAYOUTS = [
    # The layout of PCL.
    dict(
        layout=[
            ("x", "f4", 0),
            ("y", "f4", 4),
            ("z", "f4", 8),
            ("intensity", "f4", 16),
            ("ring", "u2", 20),
        ],
        big_endian=False,
        point_step=32,
    ),
    # All unusual: order, types, offsets, size of a point, byte order, padded rows.
    dict(
        layout=[
            ("ring", "u1", 0),
            ("z", "f8", 19),
            ("time", "f8", 1),
            ("intensity", "i2", 9),
            ("x", "f4", 11),
            ("y", "f4", 15),
        ],
        big_endian=True,
        point_step=31,
        height=8,
        row_padding=5,
    ),
    dict(
        layout=[
            ("y", "f8", 3),
            ("ring", "i2", 1),
            ("x", "f8", 11),
            ("intensity", "f8", 19),
            ("z", "f4", 27),
        ],
        big_endian=True,
        point_step=33,
        height=4,
        row_padding=1,
    ),
]


def random_points(seed, count=1200):
    """Points on a grid of 1/32 m, not on the voxels' faces. Some are NaN, infinite or far away."""
    random = np.random.default_rng(seed)

    def coordinate(low, high):
        return (random.integers(low * 32, high * 32, count) + 0.5) / 32

    points = {
        "x": coordinate(-2, 4),
        "y": coordinate(-3, 4),
        "z": coordinate(-2, 2),
        "intensity": random.integers(-3000, 3000, count).astype(float),
        "ring": random.integers(0, 128, count),
        "time": random.random(count),
    }
    points["x"][::17], points["y"][::41], points["z"][::29] = np.nan, np.inf, -np.inf
    return points


def test_clouds_of_unusual_layouts_become_the_same_grid(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": CLOUD}).warm_up()
    non_finite = outside = 0
    for tick, layout in enumerate(LAYOUTS):
        points = random_points(tick)
        grid, *dropped = expected_grid(points)
        assert np.count_nonzero(grid[0]) > 50 and min(dropped) > 20, "there are enough points"
        non_finite, outside = non_finite + dropped[0], outside + dropped[1]
        now = T0 + 10 * tick * MS
        fusion.send("/cloud", cloud_message(now, points, **layout))
        got = fusion.tick(now)["cloud"]
        assert got.valid == [True]
        for channel in (0, 1, 3, 5):
            np.testing.assert_array_equal(got.array[0, channel], grid[channel], f"{tick} {channel}")
        for channel in (2, 4):
            np.testing.assert_allclose(got.array[0, channel], grid[channel], 1e-6, 1e-6)
    fusion.await_value("cloud", "points_non_finite", non_finite)
    fusion.await_value("cloud", "points_outside", outside)
    # An empty cloud is valid and makes an empty grid.
    empty = cloud_message(T0 + 35 * MS, {k: v[:0] for k, v in points.items()}, **LAYOUTS[0])
    fusion.send("/cloud", empty)
    got = fusion.tick(T0 + 40 * MS)["cloud"]
    assert got.valid == [True] and not got.array.any()
