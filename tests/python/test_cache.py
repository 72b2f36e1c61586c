"""`robocache.EpisodeCache`: windows are the bits that the node served, and follow the plain rule elsewhere."""

import json
import pickle
import shutil

import numpy as np
import pytest
import test_windows
import zarr
from bags import MS, T0, header, joints, made, wrench, write_bag
from configs import counts
from replays import replay
from windows import Ring, segment

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache

# Beside the streams of test_windows: quaternions, angles, operators of all kinds, sparse voxels.
MORE = """\
  turned: &turned
    type: geometry_msgs/PoseStamped
    topic: /pose
    fields: [orientation]
    strategy: slerp
    max_age_ms: 60
    max_gap_ms: 90
    lag_ms: 15
    dtype: f32
  pose:
    <<: *turned
    fields: [position, orientation]
    history: {steps: 4, step_ms: 7}
    dtype: f16
    operators: [{rotation_6d: rows}]
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
"""
SPARSE = counts(
    "sparse",
    "topic: /front",
    "f16",
    max_voxels=20,
    more="    history: {steps: 2, step_ms: 30}\n",
)
CONFIG = test_windows.CONFIG + MORE + SPARSE


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
    with pytest.raises(ValueError, match="expected .* format 3; found .* format 9"):
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
    root["attributes"]["robocache"]["format_version"] = 4
    (store / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(
        ValueError, match="rows of format 4; expected format 5: replay or import it again"
    ):
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


@pytest.mark.parametrize("text", ["[]", '{"attributes": []}', "{}"])
def test_a_store_without_a_description_is_an_error(tmp_path, text):
    (tmp_path / "rows.zarr").mkdir()
    (tmp_path / "rows.zarr" / "zarr.json").write_text(text)
    with pytest.raises(ValueError, match="expected"):
        robocache.EpisodeCache.load(tmp_path / "rows.zarr")
