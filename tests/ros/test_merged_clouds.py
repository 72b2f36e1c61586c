"""Clouds of two lidars and a laser scanner in one grid."""

import numpy as np
from fusion import MS, T0, stamped, start_fusion, streams
from in_process import InProcess
from sensor_msgs.msg import LaserScan, PointCloud2, PointField

SIZE, SHAPE = 0.5, (8, 6, 4)
#: A quarter turn about z, then a translation: where the rear lidar is.
TURN, SHIFT = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.array([2.0, 0.25, 0.5])
SCAN_SHIFT = np.array([0.0, 1.0, 1.0])
FRONT, REAR, SCAN = 1, 2, 4
CELLS = {
    "type": "sensor_msgs/msg/PointCloud2",
    "inputs": [
        {"topic": "/front"},
        {
            "topic": "/rear",
            "t_base_sensor": {"translation_m": SHIFT.tolist(), "rotation_rpy_deg": [0, 0, 90]},
        },
        {
            "topic": "/scan",
            "type": "sensor_msgs/msg/LaserScan",
            "max_age_ms": 20,
            "t_base_sensor": {"translation_m": SCAN_SHIFT.tolist()},
        },
    ],
    "max_age_ms": 50,
    "cloud": {
        "origin_m": [0, 0, 0],
        "size_m": SIZE,
        "shape": list(SHAPE),
        "channels": [
            {"reduce": "count"},
            {"reduce": "mean", "field": "intensity"},
            {"reduce": "last", "field": "intensity"},
            {"reduce": "max", "field": "z"},
        ],
    },
}
STREAMS = streams(
    whole=CELLS,
    either={**CELLS, "valid_when": "any"},
    ahead={**CELLS, "valid_when": ["/front", "/scan"]},
)


def cloud(ns, points):
    """A cloud of the rows x, y, z, intensity."""
    names = ("x", "y", "z", "intensity")
    fields = [PointField(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate(names)]
    width = len(points)
    return stamped(
        PointCloud2,
        ns,
        height=1,
        width=width,
        fields=fields,
        point_step=16,
        row_step=16 * width,
        data=points.astype("<f4").tobytes(),
    )


def scan(ns, points):
    """A scan whose rays all point along x, from the rows x, y, z, intensity."""
    ranges, intensities = points[:, 0].tolist(), points[:, 3].tolist()
    return stamped(LaserScan, ns, range_max=100.0, ranges=ranges, intensities=intensities)


def random_points(seed, count=300):
    """Points on a grid of 1/32 m that are on no face of a voxel; some are outside of the grid."""
    random = np.random.default_rng(seed)
    places = (random.integers(-32, 160, (count, 3)) + 0.5) / 32
    return np.column_stack([places, random.integers(0, 200, count)])


def in_base(topic, points):
    """The points x, y, z, intensity of a message in the base frame."""
    places, intensity = points[:, :3], points[:, 3:]
    if topic == "/rear":
        places = places @ TURN.T + SHIFT
    if topic == "/scan":
        # Nothing comes back from less than 0 m.
        returned = places[:, 0] > 0
        places, intensity = places[returned], intensity[returned]
        places = places * [1, 0, 0] + SCAN_SHIFT
    return np.hstack([places, intensity])


def expected_grid(*clouds):
    """The grid of these clouds, (topic, points), in this order, by a plain loop."""
    grid, voxels = np.zeros((4, SHAPE[2], SHAPE[1], SHAPE[0])), {}
    for x, y, z, intensity in np.vstack([in_base(*given) for given in clouds]):
        voxel = tuple(np.floor(np.array([x, y, z]) / SIZE).astype(int))
        if all(0 <= at < n for at, n in zip(voxel, SHAPE)):
            voxels.setdefault(voxel, []).append((intensity, z))
    for (x, y, z), inside in voxels.items():
        intensity, height = zip(*inside)
        grid[:, z, y, x] = len(inside), np.mean(intensity), intensity[-1], max(height)
    return grid


def check(step, valid, inputs, *clouds):
    """Checks a step's validity and inputs, and that it holds these clouds if it is valid."""
    assert (step.valid, step.inputs_valid) == ([valid], [inputs])
    if valid:
        np.testing.assert_allclose(step.array[0], expected_grid(*clouds), rtol=1e-6)
    else:
        assert not step.array.any()


def test_clouds_of_several_topics_are_one_grid():
    fusion = InProcess({"streams": STREAMS})
    front, rear, ranges = (random_points(seed) for seed in range(3))
    assert np.count_nonzero(expected_grid(("/rear", rear))[0]) > 15
    fusion.send("/front", cloud(T0 - 5 * MS, front))
    got = fusion.tick(T0)
    check(got["whole"], False, 0)
    check(got["either"], True, FRONT, ("/front", front))
    check(got["ahead"], False, 0)

    fusion.send("/scan", scan(T0 + 4 * MS, ranges))
    # It comes after the row of the scan, and belongs in it.
    fusion.send("/rear", cloud(T0 + 2 * MS, rear))
    got = fusion.tick(T0 + 10 * MS)
    everything = [("/front", front), ("/rear", rear), ("/scan", ranges)]
    for name in ("whole", "either", "ahead"):
        check(got[name], True, FRONT | REAR | SCAN, *everything)
        assert got[name].age_ns == [6 * MS], "that of the newest row"

    # The scan may be 20 ms old: the row at 30 ms is without it.
    newer = random_points(3)
    fusion.send("/front", cloud(T0 + 30 * MS, newer))
    got = fusion.tick(T0 + 30 * MS)
    check(got["whole"], False, 0)
    check(got["either"], True, FRONT | REAR, ("/front", newer), ("/rear", rear))
    check(got["ahead"], False, 0)


def test_an_input_that_stops_is_named_and_its_part_left_out(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": STREAMS}).warm_up()
    points = random_points(4)

    def send(ns, rear):
        fusion.send("/front", cloud(ns, points))
        fusion.send("/scan", scan(ns, points))
        if rear:
            fusion.send("/rear", cloud(ns, points))
        return fusion.tick(ns)

    for k in range(4):
        got = send(T0 + 10 * k * MS, rear=True)
    assert [got[name].valid for name in STREAMS] == [[True]] * 3
    for k in range(4, 11):
        got = send(T0 + 10 * k * MS, rear=False)
        # The last cloud of the rear lidar was at 30 ms and may be 50 ms old.
        late = k > 8
        bits = FRONT | SCAN if late else FRONT | REAR | SCAN
        held = [("/front", points), *([] if late else [("/rear", points)]), ("/scan", points)]
        check(got["whole"], not late, 0 if late else bits, *held)
        check(got["either"], True, bits, *held)
        check(got["ahead"], True, bits, *held)
    fusion.until(lambda: fusion.value("whole", "invalid.incomplete") > 0, "the reason is counted")
    # After 4 s without a cloud the lidar is silent.
    for k in range(1, 9):
        send(T0 + 100 * MS + 500 * k * MS, rear=False)
    for name in ("whole", "either"):
        fusion.until(
            lambda name=name: "nothing comes from /rear" in fusion.status[name][1],
            "the silent input is named",
        )
    for name in ("whole", "either"):
        assert ": stopped after 4 messages; " in fusion.status[f"{name} /rear"][1]
    lacks = "rows lack the clouds of /rear (stopped "
    fusion.until(lambda: any(lacks in words for _, words in fusion.said), "what the rows lack")


def test_malformed_clouds_are_counted_and_change_nothing():
    fusion = InProcess({"streams": STREAMS})
    points = random_points(5)
    fusion.send("/front", cloud(T0, points))
    fusion.send("/rear", cloud(T0, points))
    fusion.send("/scan", scan(T0, points))
    before = fusion.tick(T0)["whole"]
    bad = cloud(T0 + 5 * MS, points)
    bad.width += 1
    bad.row_step += 16
    fusion.send("/rear", bad)
    bad = scan(T0 + 5 * MS, points)
    bad.intensities = bad.intensities[:-1]
    fusion.send("/scan", bad)
    fusion.send("/front", cloud(0, points))
    got = fusion.tick(T0 + 10 * MS)["whole"]
    assert (got.valid, got.age_ns) == ([True], [10 * MS])
    np.testing.assert_array_equal(got.array, before.array)
    assert fusion.value("whole[0]", "dropped.zero_stamp") == 1
    assert fusion.value("whole[1]", "dropped.malformed") == 1
    assert fusion.value("whole[2]", "dropped.malformed") == 1
