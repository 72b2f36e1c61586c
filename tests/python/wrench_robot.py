"""A robot with a wrench and a camera: its configuration, its messages, its bag."""

import numpy as np
import pytest
from bags import MS, T0, image, wrench, write_bag
from configs import WRENCH, camera, configuration

PERIOD = 10 * MS
LAG = 20 * MS
CONFIG = configuration(WRENCH, camera(16, 12))


@pytest.fixture(name="config")
def config_fixture(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def segment(tensor, name):
    """The values and the first step's validity, target and age."""
    kinds = {(2, 32): "<f4", (1, 8): "u1"}
    data = bytes(tensor.data)
    (part,) = [part for part in tensor.segments if part.name == name]
    kind = kinds[part.dtype_code, part.dtype_bits]
    size = int(np.prod(part.shape)) * part.dtype_bits // 8
    values = np.frombuffer(data[part.byte_offset : part.byte_offset + size], kind)
    return values.reshape(part.shape)[0], (part.valid[0], part.target_ns[0], part.age_ns[0])


def pixels(seed):
    return np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)


def robot(count=500, seed=1):
    """Wrenches at 3 ms with jitter, and images at 33 ms: (topic, receive stamp, message)."""
    random = np.random.default_rng(seed)
    messages = []
    for k in range(count):
        ns = T0 + 3 * MS * k + int(random.integers(0, MS))
        force = random.normal(size=3).astype(np.float32)
        messages.append(("/wrench", ns + MS + int(random.integers(0, 5 * MS)), wrench(ns, *force)))
    for k in range(count // 11):
        ns = T0 + 33 * MS * k
        messages.append(("/camera", ns + 8 * MS, image(ns, pixels(1000 * seed + k))))
    return sorted(messages, key=lambda entry: entry[1])


@pytest.fixture(scope="module", name="messages")
def messages_fixture():
    return robot()


@pytest.fixture(scope="module", name="bag")
def bag_fixture(messages, tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("bags") / "robot", messages)
