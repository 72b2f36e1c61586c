"""A robot with joints, a camera and clouds: its configuration, its messages, its bags."""

import numpy as np
import pytest
from bags import MS, T0, header, image, joints, made, unorganized, write_bag
from configs import camera, configuration, counts

PERIOD = 10 * MS
ARM = """\
  arm:
    type: sensor_msgs/JointState
    topic: /joints
    groups: {arm: [a, b], gripper: [g]}
    max_age_ms: 50
    strategy: linear
    lag_ms: 20
    history: {steps: 2, step_ms: 10}
    dtype: bf16
"""
ZARR, ROWS = ("--format", "zarr"), ("--format", "rows")
CONFIG = configuration(
    ARM,
    camera(96, 72),
    counts("grid", "topic: /cloud", "f16"),
    counts("cells", "topic: /cloud", "f32", max_voxels=32),
)


def cloud(ns, points):
    points = np.ascontiguousarray(points, dtype="<f4")
    field = "sensor_msgs/msg/PointField"
    fields = [
        made(field, name=name, offset=4 * k, datatype=7, count=1) for k, name in enumerate("xyz")
    ]
    return unorganized(header(ns), fields, points)


def robot(count=300, seed=1):
    """(topic, receive stamp, message): joints at 4 ms, the gripper at 20 ms, images and clouds."""
    random = np.random.default_rng(seed)
    messages = []
    for k in range(count):
        ns = T0 + 4 * MS * k
        arm = joints(ns, a=float(random.normal()), b=float(random.normal()))
        messages.append(("/joints", ns + MS + int(random.integers(0, 6 * MS)), arm))
        if k % 5 == 0:
            messages.append(("/joints", ns + 2 * MS, joints(ns + MS, g=float(random.normal()))))
        if k % 9 == 0:
            pixels = random.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            messages.append(("/camera", ns + 8 * MS, image(ns, pixels)))
        if k % 25 == 0:
            points = random.uniform(0.01, 0.99, (20, 3)) * [4, 3, 2]
            messages.append(("/cloud", ns + 9 * MS, cloud(ns, points)))
    return sorted(messages, key=lambda entry: entry[1])


@pytest.fixture(name="config")
def config_fixture(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module", name="episodes")
def episodes_fixture():
    return [robot(seed=1), robot(200, seed=2), robot(250, seed=3)]


@pytest.fixture(scope="module", name="bags")
def bags_fixture(episodes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bags")
    return [write_bag(folder / f"robot{k}", messages) for k, messages in enumerate(episodes)]
