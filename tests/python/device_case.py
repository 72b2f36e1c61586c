"""The same arrays through pipelines whose outputs are at different places; on a machine with a GPU."""

import ctypes

import numpy as np

CLOUD = {"origin_m": [-2, -2, -2], "size_m": 0.5, "shape": [8, 8, 8]}
CONFIG = {
    "rate_hz": 100,
    "lag_ms": 10,
    "streams": {
        "joints": {
            "type": "sensor_msgs/msg/JointState",
            "topic": "/joints",
            "joints": ["a", "b", "c"],
            "max_age_ms": 500,
            "history": {"steps": 3, "step_ms": 10},
        },
        "wrench": {
            "type": "geometry_msgs/WrenchStamped",
            "topic": "/wrench",
            "max_age_ms": 500,
            "dtype": "bf16",
            "strategy": "hold",
        },
        "camera": {
            "type": "sensor_msgs/msg/Image",
            "topic": "/camera",
            "max_age_ms": 500,
            "dtype": "f16",
            "history": {"steps": 2, "step_ms": 40},
            "image": {"resize": {"width": 32, "height": 24}},
        },
        "depth": {
            "type": "sensor_msgs/msg/Image",
            "topic": "/depth",
            "max_age_ms": 500,
            "image": {"depth": {}, "resize": {"width": 16, "height": 12}},
        },
        "lidar": {
            "type": "sensor_msgs/PointCloud2",
            "topic": "/lidar",
            "max_age_ms": 500,
            "cloud": {**CLOUD, "channels": [{"reduce": "count"}]},
        },
        "sparse": {
            "type": "sensor_msgs/PointCloud2",
            "topic": "/sparse",
            "max_age_ms": 500,
            "cloud": {
                **CLOUD,
                "output": "sparse",
                "max_voxels": 40,
                "channels": [{"reduce": "count"}],
            },
        },
    },
}
START_NS = 1_795_000_000_000_000_000


def has_gpu():
    """Whether the driver shows a GPU. It does not ask robocache: if that is broken, tests must fail, not skip."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


def push(pipelines, seed, count):
    """Gives the arrays of an instant to all pipelines. Yields the tick after each."""
    random = np.random.default_rng(seed)
    for at in range(count):
        now = START_NS + at * 10_000_000
        arrays = {"joints": random.normal(size=3), "wrench": random.normal(size=6)}
        if at % 3 == 0:
            arrays["camera"] = random.integers(0, 256, (48, 64, 3)).astype(np.uint8)
            arrays["depth"] = random.integers(0, 5000, (24, 32)).astype(np.uint16)
        if at % 4 == 1:
            arrays["lidar"] = random.uniform(-2.2, 2.2, (300, 3)).astype(np.float32)
            arrays["sparse"] = random.uniform(-2.2, 2.2, (30, 3)).astype(np.float32)
        for pipeline in pipelines:
            for name, array in arrays.items():
                result = pipeline.push_array(name, array, now)
                assert result.accepted, (name, result)
        yield pipelines[0].number_at(now) + 1


def same(found, expected):
    """Checks that two tensors on the host are equal, bit for bit."""
    assert (found.tick, found.stamp_ns) == (expected.tick, expected.stamp_ns)
    assert found.data.tobytes() == expected.data.tobytes()
    for name, segment in expected.segments.items():
        for part in ("valid", "target_ns", "age_ns", "count", "inputs_valid"):
            assert (getattr(found[name], part) == getattr(segment, part)).all(), (name, part)
