"""`robocache.EpisodeCache`: windows are the bits that the node served, and follow the plain rule elsewhere."""

import json
import pickle
import shutil

import numpy as np
import pytest
import test_windows
import zarr
from bags import MS, T0, header, made, wrench, write_bag
from test_replay import replay
from test_stores import joints
from windows import Ring

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache

# Beside the streams of test_windows: quaternions, angles, operators of all kinds, sparse voxels.
MORE = """
  pose:
    type: geometry_msgs/PoseStamped
    topic: /pose
    strategy: slerp
    max_age_ms: 60
    max_gap_ms: 90
    lag_ms: 15
    history: {steps: 4, step_ms: 7}
    dtype: f16
    operators: [{rotation_6d: rows}]
  turned:
    type: geometry_msgs/PoseStamped
    topic: /pose
    fields: [orientation]
    strategy: slerp
    max_age_ms: 60
    max_gap_ms: 90
    lag_ms: 15
    dtype: f32
  angles:
    type: sensor_msgs/JointState
    topic: /joints
    groups: {arm: [b, a], gripper: [g]}
    strategy: linear
    max_age_ms: 30
    max_gap_ms: 40
    lag_ms: 20
    fill: last
    history: {steps: 4, step_ms: 9}
    angular: [a, g]
    operators: [{unwrap: true, of: [a, g]}, {clamp: [-1, 1], of: [b]}, {scale: 3}]
    dtype: bf16
  ahead:
    type: geometry_msgs/WrenchStamped
    topic: /wrench
    max_age_ms: 25
    strategy: hold
    horizon: {steps: 3, step_ms: 20}
    dtype: f16
  sparse:
    type: sensor_msgs/PointCloud2
    topic: /front
    max_age_ms: 100
    dtype: f16
    history: {steps: 2, step_ms: 30}
    cloud:
      origin_m: [0, 0, 0]
      size_m: 0.5
      shape: [8, 6, 4]
      output: sparse
      max_voxels: 20
      channels: [{reduce: count}]
"""
CONFIG = test_windows.CONFIG + MORE


def bag(path, seed, simulated):
    """A bag of test_windows, with poses."""
    random = np.random.default_rng(seed + 100)
    begin, received = (5000 * MS, T0) if simulated else (T0, T0)
    original = test_windows.messages

    def messages(of_bag, begin, received, seconds=1):
        sent = original(of_bag, begin, received, seconds)
        for at in range(0, 1000 * seconds, 17):
            turn = random.normal(size=4)
            x, y, z, w = turn / np.linalg.norm(turn)
            pose = made(
                "geometry_msgs/msg/Pose",
                position=made("geometry_msgs/msg/Point", x=float(at), y=0.0, z=0.0),
                orientation=made("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w),
            )
            ns = begin + at * MS
            pose = made("geometry_msgs/msg/PoseStamped", header=header(ns), pose=pose)
            sent.append(("/pose", received + at * MS + int(random.integers(1, 40)) * MS, pose))
        return sent

    test_windows.messages = messages
    try:
        return test_windows.bag(path, seed, simulated)
    finally:
        test_windows.messages = original


@pytest.fixture(scope="module", params=[False, True], ids=["live", "simulated"])
def stores(request, tmp_path_factory):
    """The folder with tensors.zarr and rows.zarr of two bags."""
    folder = tmp_path_factory.mktemp("stores")
    bags = [bag(folder / f"bag{seed}", seed, request.param) for seed in (1, 2)]
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    for kind in ("zarr", "rows"):
        replay(config, folder / "out", *bags, options=["--format", kind])
    return folder / "out"


@pytest.fixture(scope="module")
def cache(stores):
    return robocache.EpisodeCache.load(stores / "rows.zarr")


def ticks(store):
    """Per tick: the number of the episode, the instant, the epoch."""
    about = zarr.open_group(store, mode="r").attrs["robocache"]
    ends = zarr.open_group(store, mode="r")["meta/episode_ends"][:]
    data = zarr.open_group(store, mode="r")["data"]
    last = np.cumsum([len(episode["breaks"]) + 1 for episode in about["episodes"]]) - 1
    episodes = np.searchsorted(ends[last], np.arange(ends[-1]), side="right")
    return episodes, data["stamp_ns"][:], data["epoch"][:]


def test_rows_that_are_not_finite_are_refused():
    rows = np.zeros((4, 3), np.float32)
    rows[2, 1] = np.nan
    streams = {"arm": {"rows": rows, "stamp_ns": np.arange(4) * MS}}
    with pytest.raises(
        ValueError, match=r"rows of 'arm': expected finite .* nan in row 2, element \[1\]"
    ):
        robocache.EpisodeCache.from_arrays(streams, [4])


def test_a_saved_cache_may_lack_a_stream(tmp_path):
    streams = {
        name: {"rows": np.ones((rows, 2), np.float32), "stamp_ns": np.arange(rows) * MS}
        for name, rows in (("there", 5), ("gone", 0))
    }
    cache = robocache.EpisodeCache.from_arrays(streams, {"there": [5], "gone": [0]})
    cache.save(tmp_path / "cache")
    windows = robocache.EpisodeCache.load(tmp_path / "cache").windows([0], [3 * MS])
    assert windows["there"].valid.all() and not windows["gone"].valid.any()


def test_items_and_configurations_must_have_their_shape():
    streams = {"arm": {"rows": np.zeros((4, 3), np.float32), "stamp_ns": np.arange(4) * MS}}
    cache = robocache.EpisodeCache.from_arrays(streams, [4])
    with pytest.raises(ValueError, match="target_ns: expected one dimension"):
        cache.windows(np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64))
    with pytest.raises(ValueError, match="config: expected a stream or more"):
        cache.windows([0], [0], {})


@pytest.mark.parametrize("threads", [1, 3])
def test_windows_are_the_bits_of_every_tick(stores, cache, threads):
    episodes, instants, epochs = ticks(stores / "tensors.zarr")
    data = zarr.open_group(stores / "tensors.zarr", mode="r")["data"]
    batch = cache.windows(episodes, instants, rows="strict", epochs=epochs, threads=threads)
    assert len(instants) > 150 and set(batch) == set(cache.streams)
    for name in batch:
        segment = batch[name]
        served = data[name][:]
        assert segment.array.tobytes() == served.tobytes(), name
        assert (segment.valid == data[f"{name}.valid"][:]).all(), name
        assert (segment.age_ns == data[f"{name}.age_ns"][:]).all(), name
        assert (segment.target_ns == data[f"{name}.target_ns"][:]).all(), name
        assert segment.valid.any() and not segment.valid.all(), name
        assert segment.array.ctypes.data % 64 == 0
    sparse = batch["sparse"]
    assert (sparse.coordinates == data["sparse.coordinates"][:]).all()
    assert (sparse.count == data["sparse.count"][:]).all() and sparse.count.any()
    # Of the streams here, `ahead` alone has targets after the tick and no plan.
    usual = cache.windows(episodes, instants, epochs=epochs)
    for name in usual:
        same = usual[name].array.tobytes() == batch[name].array.tobytes()
        assert same == (name != "ahead"), name
    assert (usual["ahead"].array[:, 0] == batch["ahead"].array[:, 0]).all()
    assert usual["ahead"].valid.sum() > batch["ahead"].valid.sum()


def test_random_instants_follow_the_plain_rule(stores, cache):
    store = zarr.open_group(stores / "rows.zarr", mode="r")["streams"]
    random = np.random.default_rng(3)
    names = ["arm", "half", "tool", "camera", "plan"]
    rings = {
        name: [[Ring(group, e) for _, group in sorted(store[name].groups())] for e in (0, 1)]
        for name in names
    }
    episodes = random.integers(0, 2, 150)
    first = np.array([each["spans"][0][1] for each in cache.episodes])
    instants = first[episodes] + random.integers(0, 1200 * MS, 150)
    epochs = np.array([cache.episodes[e]["spans"][0][0] for e in episodes])
    batch = cache.windows(
        episodes, instants, {name: {} for name in names}, epochs=epochs, rows="strict"
    )
    from windows import segment

    for name in names:
        for at in range(150):
            values, valid, ages = segment(
                rings[name][episodes[at]], int(instants[at]), int(epochs[at])
            )
            found = batch[name]
            assert found.valid[at].tolist() == valid and found.age_ns[at].tolist() == ages
            expected = values.astype(found.array.dtype).reshape(found.array[at].shape)
            assert expected.tobytes() == found.array[at].tobytes(), (name, at)


def test_a_saved_cache_gives_the_same_windows(cache, tmp_path):
    cache.save(tmp_path / "saved")
    with pytest.raises(OSError, match="exists"):
        cache.save(tmp_path / "saved")
    again = robocache.EpisodeCache.load(tmp_path / "saved", verify=True)
    assert again.streams == cache.streams and again.episodes == cache.episodes
    random = np.random.default_rng(4)
    episodes = random.integers(0, 2, 100)
    first = cache.episodes[0]["spans"][0][1]
    instants = first + random.integers(0, 1500 * MS, 100)
    expected = cache.windows(episodes, instants).buffer
    # What is between two parts is not written.
    for copy in (again, pickle.loads(pickle.dumps(again))):
        found = copy.windows(episodes, instants)
        for name in found:
            assert (
                found[name].array.tobytes()
                == cache.windows(episodes, instants)[name].array.tobytes()
            )
    assert expected.nbytes == found.buffer.nbytes
    assert not list(tmp_path.glob(".episodes-*"))


def crc32c(data):
    """The checksum of the files (Castagnoli), bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def rename(copy):
    """Changes a name in the index, and not its checksum."""
    index = copy / "index.json"
    index.write_text(index.read_text().replace('"name": "arm"', '"name": "leg"'))


def overlap(index):
    """Rows of two episodes that meet."""
    spans = index["streams"][0]["rings"][0]["spans"]
    spans[-1]["begin"] = spans[0]["begin"]


def test_damage_and_other_formats_are_told(cache, stores, tmp_path):
    saved = tmp_path / "saved"
    cache.save(saved)

    def damaged(change):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(saved, copy)
        change(copy)
        return copy

    def of_index(change):
        def apply(copy):
            index = json.loads((copy / "index.json").read_text())
            change(index)
            text = json.dumps(index)
            (copy / "index.json").write_text(text)
            (copy / "index.crc32c").write_text(f"{crc32c(text.encode()):08x}\n")

        return apply

    def flip(name):
        def apply(copy):
            file = copy / name
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)

        return apply

    load = robocache.EpisodeCache.load
    with pytest.raises(ValueError, match=r"index.json: its checksum is wrong"):
        load(damaged(flip("index.crc32c")))
    with pytest.raises(ValueError, match=r"index.json: its checksum is wrong"):
        load(damaged(rename))
    with pytest.raises(ValueError, match=r"index.json: its checksum"):
        load(damaged(lambda copy: (copy / "index.crc32c").unlink()))
    with pytest.raises(ValueError, match="those of one epoch after those"):
        load(damaged(of_index(overlap)))
    with pytest.raises(ValueError, match="expected .* format 2; found .* format 9"):
        load(damaged(of_index(lambda index: index.update(format_version=9))))
    with pytest.raises(ValueError, match="checksum"):
        load(damaged(flip("0.0.stamp_ns")))
    with pytest.raises(ValueError, match="checksum"):
        load(damaged(flip("0.0.rows")), verify=True)
    with pytest.raises(ValueError, match="bytes, found"):
        load(damaged(lambda copy: (copy / "0.0.rows").write_bytes(b"123")))
    with pytest.raises(OSError):
        load(damaged(lambda copy: (copy / "0.0.rows").unlink()))
    with pytest.raises(ValueError, match="rows of an epoch"):
        load(damaged(of_index(lambda i: i["streams"][0]["rings"][0]["spans"][0].update(end=10**9))))
    with pytest.raises(ValueError, match="expected a file of the folder"):
        load(
            damaged(
                of_index(lambda i: i["streams"][0]["rings"][0]["columns"][0].update(file="../x"))
            )
        )
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    # A store of rows: its version, and a chunk.
    store = tmp_path / "rows.zarr"
    shutil.copytree(stores / "rows.zarr", store)
    shard = max(store.rglob("c.*"), key=lambda path: path.stat().st_size)
    data = bytearray(shard.read_bytes())
    data[10] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="checksum"):
        load(store)
    root = json.loads((store / "zarr.json").read_text())
    root["attributes"]["robocache"]["format_version"] = 2
    (store / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(ValueError, match="expected .*rows.*, format 3"):
        load(store)


def test_a_stream_that_an_episode_lacks_is_invalid(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(test_windows.CONFIG)
    both = [
        ("/joints", T0 + k * 10 * MS, joints(T0 + k * 10 * MS, a=k, b=1, g=2)) for k in range(40)
    ]
    force = [("/wrench", T0 + k * 10 * MS, wrench(T0 + k * 10 * MS, k, 0, 0)) for k in range(40)]
    bags = [
        write_bag(tmp_path / "with", sorted(both + force, key=lambda entry: entry[1])),
        write_bag(tmp_path / "without", both),
    ]
    replay(config, tmp_path / "out", *bags, options=["--format", "rows"])
    cache = robocache.EpisodeCache.load(tmp_path / "out/rows.zarr", ["tool", "arm"])
    assert list(cache.streams) == ["arm", "tool"]
    instant = T0 + 200 * MS
    batch = cache.windows([0, 1], [instant, instant])
    assert batch["tool"].valid[:, 0].tolist() == [True, False]
    assert batch["tool"].age_ns[1, 0] == robocache.NO_AGE and not batch["tool"].array[1].any()
    assert batch["arm"].valid.all()
    needs = {"tool": {"required": True}}
    assert cache.windows([0], [instant], needs)["tool"].valid.all()
    with pytest.raises(ValueError, match="rows of 'tool' in episode .*: expected some"):
        cache.windows([0, 1], [instant, instant], needs)
    with pytest.raises(ValueError, match="expected one of .*found camera2"):
        robocache.EpisodeCache.load(tmp_path / "out/rows.zarr", ["camera2"])


def made_of_arrays(lengths=(50, 0, 30)):
    random = np.random.default_rng(2)
    count = sum(lengths)
    stamps = np.concatenate([np.arange(n) * 10 * MS for n in lengths]).astype(np.int64)
    rows = random.normal(size=(count, 3)).astype(np.float32)
    pictures = random.integers(0, 256, (count, 2, 2, 3), dtype=np.uint8)
    streams = {
        "state": {"rows": rows, "stamp_ns": stamps, "history": {"steps": 2, "step_ms": 15}},
        "picture": {"rows": pictures, "stamp_ns": stamps, "max_age_ms": 12},
    }
    return robocache.EpisodeCache.from_arrays(streams, list(lengths)), rows, pictures, stamps


def test_arrays_are_resampled_as_by_numpy():
    cache, rows, pictures, stamps = made_of_arrays()
    instants = np.array([123, 77, 0, 289, 302]) * MS
    batch = cache.windows([0, 2, 1, 2, 2], instants)
    state = batch["state"]
    assert state.valid.tolist() == [
        [True, True],
        [True, True],
        [False] * 2,
        [True, True],
        [True, True],
    ]
    for window, begin, end in ((0, 0, 50), (1, 50, 80), (3, 50, 80)):
        for step, offset in enumerate((-15, 0)):
            target = instants[window] + offset * MS
            expected = [np.interp(target, stamps[begin:end], rows[begin:end, c]) for c in range(3)]
            np.testing.assert_allclose(state.array[window, step], expected, atol=1e-6)
    assert (batch["picture"].array[0, 0] == pictures[12]).all()
    # 12 ms after the last row is the greatest age, and a held value is the row itself.
    assert batch["picture"].valid[:, 0].tolist() == [True, True, False, True, True]
    assert (state.array[4, 1] == rows[79]).all()
    # Rows that came with their stamps: the next one is not there yet, and the one before is held.
    served = cache.windows([0], [123 * MS], {"state": {}}, rows="as_served")["state"]
    assert (served.array[0, 0] == state.array[0, 0]).all()
    assert (served.array[0, 1] == rows[12]).all() and served.age_ns[0, 1] == 3 * MS


def test_a_configuration_chooses_streams_steps_and_types():
    cache, rows, *_ = made_of_arrays()
    config = {
        "state": {
            "history": {"steps": 3, "step_ms": 20},
            "horizon": {"steps": 4, "step_ms": 10},
            "lag_ms": 5,
            "strategy": "hold",
            "dtype": "bf16",
        }
    }
    batch = cache.windows([0], [100 * MS], config)
    assert list(batch) == ["state"] and batch["state"].array.shape == (1, 6, 3)
    offsets = [-45, -25, -5, 5, 15, 25]
    assert batch["state"].target_ns[0].tolist() == [(100 + at) * MS for at in offsets]
    held = [5, 7, 9, 10, 11, 12]
    np.testing.assert_allclose(batch["state"].float32()[0], rows[held], rtol=2**-8)
    moved = cache.windows([0], [100 * MS], {"state": {"offsets_ns": [5, -5]}})["state"]
    assert moved.target_ns[0].tolist() == [100 * MS + 5, 100 * MS - 5]


def test_augmentation_moves_instants_and_streams_reproducibly():
    cache, *_ = made_of_arrays()
    instants = np.full(200, 250 * MS)
    options = {"jitter_ns": 3 * MS, "latency_ns": {"state": (0, 40 * MS), "picture": 7}, "seed": 5}
    one, two = (cache.windows(np.zeros(200, np.int64), instants, **options) for _ in range(2))
    assert one.buffer.tobytes() == two.buffer.tobytes() or all(
        one[name].array.tobytes() == two[name].array.tobytes() for name in one
    )
    moved = one.instants_ns - instants
    assert abs(moved).max() <= 3 * MS and len(set(moved.tolist())) > 100
    late = one.instants_ns - one["state"].target_ns[:, -1]
    assert late.min() >= 0 and late.max() <= 40 * MS and len(set(late.tolist())) > 100
    # The windows are those of the earlier instant.
    plain = cache.windows(np.zeros(200, np.int64), one.instants_ns - late, {"state": {}})
    assert plain["state"].array.tobytes() == one["state"].array.tobytes()
    assert (one.instants_ns - one["picture"].target_ns[:, 0] == 7).all()


def test_statistics_are_those_of_numpy():
    cache, rows, *_ = made_of_arrays((500, 400))
    told = cache.statistics()
    assert list(told) == ["state"]
    wide = rows.astype(np.float64)
    expected = {
        "mean": wide.mean(0),
        "std": wide.std(0),
        "min": wide.min(0),
        "max": wide.max(0),
        "q01": np.quantile(wide, 0.01, axis=0),
        "q99": np.quantile(wide, 0.99, axis=0),
    }
    for name, numbers in expected.items():
        np.testing.assert_allclose(told["state"][name], numbers, rtol=1e-12, atol=1e-12)
    assert told["state"]["count"].tolist() == [900] * 3
    with pytest.raises(ValueError, match="expected a vector"):
        cache.statistics(["picture"])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([3], [0]), {}, "episode: expected a number from 0 to 2, found 3"),
        (([-1], [0]), {}, "episode: expected"),
        (([0, 1], [0]), {}, "episodes: expected 1"),
        (([0], [0], {"nothing": {}}), {}, "stream: expected one of"),
        (([0], [0], {"state": {"histroy": {}}}), {}, "found histroy"),
        (([0], [0], {"state": {"history": {"steps": 0}}}), {}, "history of 'state'"),
        (([0], [0], {"state": {"offsets_ns": []}}), {}, "offsets_ns of 'state'"),
        (([0], [0], {"state": {"strategy": "best"}}), {}, "unknown variant"),
        (([0], [0], {"picture": {"strategy": "linear", "max_gap_ms": 1}}), {}, "no float"),
        (([0], [0], {"picture": {"dtype": "f32"}}), {}, "rows of the type of the output"),
        (([0], [0], {"state": {"max_age_ms": -1}}), {}, "max_age_ns of 'state'"),
        (([0], [0]), {"rows": "some"}, "rows: expected one of"),
        (([0], [0]), {"epochs": [7]}, "epoch of episode 0: expected one of 0, found 7"),
        (([0], [0]), {"epochs": [0, 0]}, "epochs: expected 1"),
        (([0], [0]), {"latency_ns": {"nothing": 1}}, "latency_ns: expected streams"),
        (([0], [0]), {"out": bytearray(3)}, "bytes of the output"),
    ],
)
def test_bad_arguments_are_told(arguments, options, message):
    cache, *_ = made_of_arrays()
    with pytest.raises(ValueError, match=message):
        cache.windows(*arguments, **options)


def test_columns_that_contradict_each_other_are_told():
    make = robocache.EpisodeCache.from_arrays
    rows, stamps = np.zeros((4, 2), np.float32), np.arange(4)
    with pytest.raises(ValueError, match="ends up to 4"):
        make({"a": {"rows": rows, "stamp_ns": stamps}}, [3])
    with pytest.raises(ValueError, match="stamps that do not go back"):
        make({"a": {"rows": rows, "stamp_ns": stamps[::-1].copy()}}, [4])
    with pytest.raises(ValueError, match="rows of 'a' in group 0: expected 32 bytes"):
        make({"a": {"rows": rows[:3], "stamp_ns": stamps}}, [4])
    with pytest.raises(TypeError, match="found float64"):
        make({"a": {"rows": rows.astype(np.float64), "stamp_ns": stamps}}, [4])
    with pytest.raises(ValueError, match="received_ns"):
        make({"a": {"rows": rows, "stamp_ns": stamps, "received_ns": stamps[:2]}}, [4])
    with pytest.raises(TypeError, match="stamp_ns: expected int64"):
        make({"a": {"rows": rows, "stamp_ns": stamps.astype(np.float64)}}, [4])
    with pytest.raises(TypeError, match="save it"):
        pickle.dumps(make({"a": {"rows": rows, "stamp_ns": stamps}}, [4]))


def test_instants_are_integers_and_no_latency_looks_ahead():
    cache, *_ = made_of_arrays()
    with pytest.raises(TypeError, match="target_ns: expected integers, found float64"):
        cache.windows([0], [0.25])
    with pytest.raises(TypeError, match="episodes: expected integers"):
        cache.windows([0.9], [250 * MS])
    for late in (-5, (7, 3)):
        with pytest.raises(ValueError, match="latency_ns of 'state': expected 0 or more"):
            cache.windows([0], [250 * MS], latency_ns={"state": late})


def test_the_elements_of_a_quaternion_are_next_to_each_other():
    lanes = ["quaternion", "linear", *["quaternion"] * 3]
    stamps = np.arange(4, dtype=np.int64)
    stream = {"rows": np.ones((4, 5), np.float32), "stamp_ns": stamps, "strategy": "slerp"}
    with pytest.raises(ValueError):
        robocache.EpisodeCache.from_arrays({"pose": {**stream, "lanes": lanes}}, [4])
    lanes = ["linear", *["quaternion"] * 4]
    robocache.EpisodeCache.from_arrays({"pose": {**stream, "lanes": lanes}}, [4])


@pytest.mark.parametrize("text", ["[]", '{"attributes": []}', "{}"])
def test_a_store_without_a_description_is_an_error(tmp_path, text):
    (tmp_path / "rows.zarr").mkdir()
    (tmp_path / "rows.zarr" / "zarr.json").write_text(text)
    with pytest.raises(ValueError, match="expected"):
        robocache.EpisodeCache.load(tmp_path / "rows.zarr")
