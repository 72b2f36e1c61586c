"""`EpisodeCache.load(..., compressed=True)`: the same windows of rows that stay compressed in the store."""

import json
import pickle
import shutil

import numpy as np
import pytest
from bags import MS, T0, image, wrench, write_bag
from configs import WRENCH, camera, configuration
from replays import replay
from same_files import expect_same

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache

#: A row of 27 KB of bytes, and one of 108 KB of floats, with two steps.
BRIGHT = """\
  bright:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 150
    strategy: nearest
    dtype: f32
    lag_ms: 40
    history: {steps: 2, step_ms: 50}
    image: {resize: {width: 96, height: 96, fit: stretch, filter: pil_bilinear}, mean: [0.4, 0.5, 0.6], std: [0.2, 0.3, 0.2]}
"""
CONFIG = configuration(
    WRENCH,
    camera(96, 96, more="    history: {steps: 4, step_ms: 30}\n"),
    BRIGHT,
    rate_hz=50,
)


def bag(path, seed):
    """A second of images at 20 Hz, some of them late or twice the same, and of forces."""
    random = np.random.default_rng(seed)
    base = random.integers(0, 255, (12, 12, 3), dtype=np.uint8).repeat(9, 0).repeat(9, 1)
    messages = []
    for at in range(0, 1000, 10):
        messages.append(("/wrench", T0 + at * MS, wrench(T0 + at * MS, at, 0, 0)))
    for number in range(20):
        pixels = base if number in (7, 8) else np.roll(base, 5 * number, axis=1)
        ns = T0 + number * 50 * MS
        late = int(random.integers(0, 70)) * MS
        messages.append(("/camera", ns + late, image(ns, np.ascontiguousarray(pixels))))
    return write_bag(path, sorted(messages, key=lambda message: message[1]))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compressed")
    bags = [bag(folder / f"bag{seed}", seed) for seed in (1, 2, 3)]
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    replay(config, folder / "out", *bags, options=["--format", "rows"])
    return folder / "out" / "rows.zarr"


@pytest.fixture(scope="module")
def both(store):
    """A cache in memory, and one whose images are compressed."""
    load = robocache.EpisodeCache.load
    return load(store), load(store, compressed=True)


def assert_equal(one, other):
    assert set(one) == set(other)
    for name in one:
        for what in ("array", "valid", "age_ns", "target_ns"):
            expected, found = getattr(one[name], what), getattr(other[name], what)
            assert expected.tobytes() == found.tobytes(), (name, what)


CHOICES = [
    None,
    {"camera": {"offsets_ns": [-80 * MS, -70 * MS, 0, 0]}, "bright": {"strategy": "hold"}},
    {"bright": {"dtype": "f16", "history": {"steps": 3, "step_ms": 20}}, "wrench": {}},
    {"bright": {"dtype": "bf16"}},
]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("threads", [1, 3])
def test_windows_are_those_of_rows_in_memory(both, choice, threads):
    memory, compressed = both
    random = np.random.default_rng(5)
    episodes = random.integers(0, 3, 200)
    instants = T0 + random.integers(-100, 1100, 200) * MS
    given = {"threads": threads, "seed": 3, "jitter_ns": 2 * MS}
    expected = memory.windows(episodes, instants, choice, **given)
    found = compressed.windows(episodes, instants, choice, **given)
    assert_equal(expected, found)
    images = [name for name in expected if name != "wrench"]
    for name in images:
        assert expected[name].valid.any() and expected[name].array.any(), name
        assert not expected[name].valid.all(), name


def test_only_images_are_compressed(both, store):
    memory, compressed = both
    assert set(memory.memory.values()) == {"host"}
    assert compressed.memory == {"bright": "compressed", "camera": "compressed", "wrench": "host"}
    assert compressed.size("camera") == memory.size("camera")
    assert compressed.statistics()["wrench"]["mean"] == pytest.approx(
        memory.statistics()["wrench"]["mean"]
    )
    chosen = robocache.EpisodeCache.load(store, episodes=[0, 2], compressed=True)
    expected = memory.windows([0, 2], [T0 + 500 * MS] * 2)
    assert_equal(expected, chosen.windows([0, 1], [T0 + 500 * MS] * 2))


def test_it_is_sent_and_saved_as_any_other(both, tmp_path):
    memory, compressed = both
    again = pickle.loads(pickle.dumps(compressed))
    assert again.memory == compressed.memory
    for name, cache in (("memory", memory), ("compressed", compressed)):
        cache.save(tmp_path / name)
    expect_same(tmp_path / "compressed", tmp_path / "memory")
    with pytest.raises(ValueError, match="expected a store of"):
        robocache.EpisodeCache.load(tmp_path / "memory", compressed=True)


def test_a_store_may_be_replaced_meanwhile(store, both, tmp_path):
    copy = tmp_path / "rows.zarr"
    shutil.copytree(store, copy)
    cache = robocache.EpisodeCache.load(copy, compressed=True)
    shutil.rmtree(copy)
    asked = ([0, 1, 2], [T0 + 700 * MS] * 3)
    assert_equal(both[0].windows(*asked), cache.windows(*asked))


@pytest.mark.parametrize("choice", [{"camera": {}}, {"bright": {"dtype": "f16"}}])
def test_a_damaged_row_is_an_error_of_the_windows_that_need_it(store, tmp_path, choice):
    copy = tmp_path / "rows.zarr"
    shutil.copytree(store, copy)
    (name,) = choice
    folder = copy / "streams" / name / "0" / "rows"
    shard = next(path for path in folder.iterdir() if path.name.startswith("c.0"))
    data = bytearray(shard.read_bytes())
    data[40] ^= 1  # in the first row's chunk
    shard.write_bytes(data)
    load = robocache.EpisodeCache.load
    with pytest.raises(ValueError, match="the checksum of a chunk is wrong"):
        load(copy)
    cache = load(copy, compressed=True)
    if "dtype" in choice[name]:  # all rows are read then
        with pytest.raises(ValueError, match="the checksum of a chunk is wrong"):
            cache.windows([0], [T0 + 900 * MS], choice)
        return
    cache.windows([0, 1], [T0 + 900 * MS] * 2, choice)
    with pytest.raises(ValueError, match=f"row 0 of '{name}'.*the checksum of a chunk is wrong"):
        cache.windows([1, 0], [T0 + 900 * MS, T0 + 40 * MS], choice)


def test_a_number_that_is_not_finite_is_an_error_of_the_windows_that_need_it(store, tmp_path):
    """Another writer may have made the store: zarr-python here."""
    import zarr

    copy = tmp_path / "rows.zarr"
    shutil.copytree(store, copy)
    rows = zarr.open_group(copy, mode="r+")["streams/bright/0/rows"]
    changed = rows[0]
    changed[1, 2, 3] = np.inf
    rows[0] = changed
    cache = robocache.EpisodeCache.load(copy, compressed=True)
    with pytest.raises(ValueError, match="row 0 of 'bright'.*not finite"):
        cache.windows([0], [T0 + 90 * MS], {"bright": {}})


def test_an_index_that_lies_is_an_error(store, tmp_path):
    copy = tmp_path / "rows.zarr"
    shutil.copytree(store, copy)
    folder = copy / "streams" / "camera" / "0" / "rows"
    about = json.loads((folder / "zarr.json").read_text())
    # Three episodes of 20 rows. Each begins with a shard of its own.
    assert about["shape"][0] == 2 * 1024 + 20
    shard = next(path for path in folder.iterdir() if path.name.startswith("c.0"))
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(ValueError, match="index"):
        robocache.EpisodeCache.load(copy, compressed=True)
