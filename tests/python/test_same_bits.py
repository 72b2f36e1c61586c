"""The same inputs give the same bits on every processor: x86-64 and 64-bit ARM, with any instructions.

tests/golden/same_bits.txt has the digests. If a change must alter bits, write the file again with
`ROBOCACHE_WRITE_DIGESTS=1 pytest tests/python/test_same_bits.py`, and say why in the commit. `make test-arm64` runs
this for ARM.
"""

import hashlib
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from bags import MS, T0, serialized, write_bag
from fixed_robot import BYTES, CONFIG, FILTERS, messages, numbers
from replays import files

import robocache

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "same_bits.txt"
DTYPES = ["float32", "float16", "bfloat16"]


class Digests:
    """Digests by the names of their cases."""

    def __init__(self):
        self._found = {}

    def add(self, name, *parts):
        """Adds bytes or arrays to a case."""
        into = self._found.setdefault(name, hashlib.blake2b(digest_size=8))
        for part in parts:
            into.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())

    def check(self, kind):
        """Compares with the kept digests of this kind."""
        assert self._found, kind
        found = {f"{kind} {name}": into.hexdigest() for name, into in self._found.items()}
        lines = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
        kept = dict(line.rsplit(" ", 1) for line in lines)
        if os.environ.get("ROBOCACHE_WRITE_DIGESTS"):
            others = {name: value for name, value in kept.items() if name.split()[0] != kind}
            text = "".join(f"{name} {value}\n" for name, value in sorted((others | found).items()))
            GOLDEN.write_text(text)
            return
        assert found == {name: kept[name] for name in kept if name.split()[0] == kind}


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("fixed") / "bag", messages())


def test_messages_are_the_same_bytes(bag):
    digests = Digests()
    for topic, received, message in messages():
        digests.add(topic, received.to_bytes(8, "little", signed=True), serialized(message))
    digests.check("message")


def test_tensors_of_a_replay(bag, tmp_path):
    config = tmp_path / "robot.yaml"
    config.write_text(CONFIG)
    (episode,) = robocache.replay(bag, config, backend="cpu", digest=True)
    digests, valid = Digests(), {}
    for tensor in episode:
        digests.add("tensor", tensor.digest.to_bytes(8, "little"))
        for name, segment in tensor.segments.items():
            digests.add(name, segment.array, segment.valid, segment.age_ns, segment.count)
            valid[name] = valid.get(name, 0) + int(segment.valid.sum())
    assert min(valid.values()) > 20, valid
    digests.check("replay")


@pytest.mark.parametrize(
    "images", ["zstd", *(f"jpeg:{q}" for q in (1, 10, 23, 24, 50, 75, 90, 95, 100))]
)
def test_stored_rows(bag, tmp_path, images):
    config = tmp_path / "robot.yaml"
    config.write_text(BYTES)
    out = tmp_path / "out"
    robocache.replay_to([bag], config, out, format="rows", images=images, backend="cpu")
    digests = Digests()
    for path, chunk in sorted(files(out).items()):
        if path.name.startswith("c."):
            digests.add(path.parts[path.parts.index("streams") + 1], chunk)
    digests.check(f"stored_{images}")


def rows_of(random, shape, dtype):
    rows = numbers(random, shape, 4.0, np.float32)
    if dtype == "bfloat16":
        return (rows.view(np.uint32) >> 16).astype(np.uint16)
    return rows.astype(dtype)


def test_resampled_arrays():
    random = np.random.default_rng(11)
    digests = Digests()
    stamps = T0 + np.cumsum(1 + random.integers(0, 20 * MS, (3, 90)), axis=1)
    targets = np.sort(random.integers(T0 - 20 * MS, T0 + 950 * MS, (3, 70)), axis=1)
    lanes = ["linear"] * 3 + ["quaternion"] * 4 + ["angular"] * 2
    for dtype, strategy in itertools.product(DTYPES, ["hold", "nearest", "linear", "slerp"]):
        rows = rows_of(random, (3, 90, 9), dtype)
        given = lanes if strategy == "slerp" else None
        limits = {"max_age_ns": 30 * MS, "max_gap_ns": 25 * MS, "fill": "last", "lanes": given}
        found = robocache.resample(rows, stamps, targets, strategy=strategy, **limits)
        digests.add(f"{dtype} {strategy}", found.values, found.valid, found.age_ns)
    digests.check("resample")


def test_rounding_of_every_kind_of_number():
    """Subnormal, large and tied numbers, and NaN with any bits, as each type."""
    random = np.random.default_rng(12)
    digests = Digests()
    bits = random.integers(0, 2**32, 60_000, dtype=np.uint32)
    ties = (np.arange(2**16, dtype=np.uint32) << 16) | 0x8000
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    for name, values in (("random", bits), ("ties", ties), ("halves", halves + 0x1000)):
        rows = values.view(np.float32).reshape(1, 1, -1)
        stamps = np.array([[T0]])
        for dtype in ("float16", "bfloat16", "float32"):
            found = robocache.resample(rows, stamps, stamps, strategy="hold", dtype=dtype)
            digests.add(f"{name} {dtype}", found.values)
    digests.check("round")


def test_voxels_of_arrays():
    random = np.random.default_rng(13)
    digests = Digests()
    grid = {"origin_m": (-3.0, -3.0, -1.0), "size_m": 0.3, "shape": (20, 20, 7)}
    words = ["count", "occupancy", "mean", "sum", "max", "min", "last"]
    channels = [word if word in words[:2] else f"{word}(intensity)" for word in words]
    for points, dtype in itertools.product(["float32", "float64"], DTYPES):
        cloud = numbers(random, (4000, 4), 4.0, points)
        cloud[::97, 1] = np.nan
        pose = [[0.8, -0.6, 0, 0.1], [0.6, 0.8, 0, 0.2], [0, 0, 1, 0.3]]
        fields = ("x", "y", "z", "intensity")
        found = robocache.voxelize(
            cloud, channels=channels, fields=fields, dtype=dtype, t_base_sensor=pose, **grid
        )
        digests.add(f"{points} {dtype}", found.values, found.dropped)
    digests.check("voxelize")


def test_images_of_arrays():
    random = np.random.default_rng(14)
    digests = Digests()
    mean_std = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    pixels = random.integers(0, 256, (2, 67, 101, 3)).astype(np.uint8)
    sizes = [(224, 224), (50, 33), (101, 67), (13, 200)]
    for name, size, dtype in itertools.product(FILTERS, sizes, DTYPES):
        found = robocache.encode_image(pixels, size=size, filter=name, dtype=dtype, **mean_std)
        digests.add(f"{name} {size[0]}x{size[1]} {dtype}", found)
    digests.check("image")
