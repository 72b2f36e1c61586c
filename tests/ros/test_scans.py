"""LaserScans: the grid of their rays, by a plain loop."""

import numpy as np
from fusion import MS, T0, stamped, streams
from in_process import InProcess
from rclpy.serialization import serialize_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import LaserScan

ORIGIN, VOXEL, SHAPE = (-3.0, -3.0, -1.0), 0.5, (12, 12, 4)
SHIFT, TURN_DEG = [0.2, -0.1, 0.3], [180, 0, 35]
STREAMS = streams(
    scan={
        "type": "sensor_msgs/msg/LaserScan",
        # Upside down, as scanners are often mounted.
        "t_base_sensor": {"translation_m": SHIFT, "rotation_rpy_deg": TURN_DEG},
        "cloud": {
            "origin_m": list(ORIGIN),
            "size_m": VOXEL,
            "shape": list(SHAPE),
            "max_points": 1000,
            "channels": [
                {"reduce": "count"},
                {"reduce": "max", "field": "intensity"},
                {"reduce": "min", "feature": "range"},
                {"reduce": "last", "field": "t"},
            ],
        },
    }
)
RANGE_MIN, RANGE_MAX = 0.25, 5.0


def scan(ns, ranges, intensities, first=-2.1, step=0.0173):
    return stamped(
        LaserScan,
        ns,
        angle_min=first,
        angle_max=first + step * (len(ranges) - 1),
        angle_increment=step,
        time_increment=1e-4,
        range_min=RANGE_MIN,
        range_max=RANGE_MAX,
        ranges=[float(value) for value in ranges],
        intensities=[float(value) for value in intensities],
    )


def expected_grid(message):
    """The grid, the rays without a return, and those outside of the grid."""
    grid = np.zeros((4, SHAPE[2], SHAPE[1], SHAPE[0]))
    turn, found, lost, outside = Rotation.from_euler("xyz", TURN_DEG, degrees=True), {}, 0, 0
    # As the message has them, in float32.
    first, step, increment = (
        float(np.float32(value))
        for value in (message.angle_min, message.angle_increment, message.time_increment)
    )
    for i, (distance, intensity) in enumerate(zip(message.ranges, message.intensities)):
        if not RANGE_MIN <= distance <= RANGE_MAX:  # false for NaN, too
            lost += 1
            continue
        angle = first + i * step
        point = turn.apply([distance * np.cos(angle), distance * np.sin(angle), 0]) + SHIFT
        place = (point - ORIGIN) / VOXEL
        assert np.abs(place - np.round(place)).min() > 1e-5, "no point is on a face"
        voxel = np.floor(place).astype(int)
        if np.any(voxel < 0) or np.any(voxel >= SHAPE):
            outside += 1
            continue
        found.setdefault(tuple(voxel), []).append((intensity, distance, i * increment))
    for (x, y, z), rays in found.items():
        intensities, distances, times = zip(*rays)
        grid[:, z, y, x] = [len(rays), max(intensities), min(distances), times[-1]]
    return grid, lost, outside


def test_a_scan_becomes_the_grid_of_its_rays_and_bad_scans_are_dropped():
    fusion = InProcess({"streams": STREAMS})
    random = np.random.default_rng(4)
    now = T0
    for count in (240, 97):
        ranges = random.uniform(0.1, 5.5, count).astype(np.float32)
        ranges[::9], ranges[::11], ranges[::13] = np.nan, np.inf, -np.inf
        message = scan(now, ranges, random.integers(1, 4000, count))
        grid, lost, outside = expected_grid(message)
        assert min(np.count_nonzero(grid[0]), lost, outside) > 5, "there are enough rays"
        fusion.send("/scan", message)
        got = fusion.tick(now)["scan"]
        assert got.valid == [True]
        np.testing.assert_array_equal(got.array[0, :2], grid[:2])
        np.testing.assert_allclose(got.array[0, 2:], grid[2:], rtol=1e-6)
        now += 10 * MS

    good = [1.0, 2.0, 3.0]
    turned = scan(now, good, good)
    turned.angle_increment = float("nan")
    bad = [
        (scan(now, good, good[:2]), "malformed"),
        (turned, "malformed"),
        (scan(now, good, []), "missing_field"),
        (scan(now, np.ones(1001), np.ones(1001)), "too_large"),
        (serialize_message(scan(now, good, good))[:40], "malformed"),
    ]
    fusion.check_drops("/scan", bad)
    after = fusion.tick(now)["scan"]
    assert after.age_ns == [10 * MS]
    np.testing.assert_array_equal(after.array, got.array)
