"""`robocache replay --format zarr | rows`: stores that zarr-python and xarray read.

Rows and ticks are worked out here from the messages with NumPy, SciPy and Pillow. Tensors must also be those of MCAP.
"""

import fcntl
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import warnings

import configuration
import numpy as np
import pytest
import xarray
import zarr
from bags import MS, T0, clock, header, image, made, unorganized, write_bag
from PIL import Image as Picture
from scipy.interpolate import interp1d
from test_replay import replay, tensors

PERIOD = 10 * MS
LAG = 20 * MS
CONFIG = """
rate_hz: 100
streams:
  arm:
    type: sensor_msgs/JointState
    topic: /joints
    groups: {arm: [a, b], gripper: [g]}
    max_age_ms: 50
    strategy: linear
    lag_ms: 20
    history: {steps: 2, step_ms: 10}
    dtype: bf16
  camera:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 100
    strategy: hold
    dtype: u8
    image: {resize: {width: 96, height: 72, fit: stretch, filter: pil_bilinear}, layout: hwc}
  grid:
    type: sensor_msgs/PointCloud2
    topic: /cloud
    max_age_ms: 100
    dtype: f16
    cloud: {origin_m: [0, 0, 0], size_m: 0.5, shape: [8, 6, 4], channels: [{reduce: count}]}
  cells:
    type: sensor_msgs/PointCloud2
    topic: /cloud
    max_age_ms: 100
    dtype: f32
    cloud:
      origin_m: [0, 0, 0]
      size_m: 0.5
      shape: [8, 6, 4]
      output: sparse
      max_voxels: 32
      channels: [{reduce: count}]
"""


def joints(ns, **positions):
    values = np.array(list(positions.values()), dtype=np.float64)
    none = np.array([], dtype=np.float64)
    kind = "sensor_msgs/msg/JointState"
    return made(
        kind, header=header(ns), name=list(positions), position=values, velocity=none, effort=none
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


def stamp_of(message):
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def of_topic(messages, topic):
    """Stamp to the last message with it, in the order of the stamps."""
    newest = {stamp_of(m): m for name, _, m in messages if name == topic}
    return dict(sorted(newest.items()))


def resized(message):
    picture = Picture.fromarray(message.data.reshape(48, 64, 3))
    return np.asarray(picture.resize((96, 72), Picture.BILINEAR))


def voxels(message):
    """[z, y, x]: points per voxel."""
    points = message.data.view("<f4").reshape(-1, 3)
    edges = [np.arange(n + 1) / 2 for n in (4, 6, 8)]
    return np.histogramdd(points[:, ::-1].astype(np.float64), edges)[0]


def opened(path, group):
    """A group by xarray, which must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xarray.open_zarr(path, group=group).load()


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def bf16(bits):
    return (np.asarray(bits, dtype=np.uint32) << 16).view(np.float32)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def episodes():
    return [robot(seed=1), robot(200, seed=2), robot(250, seed=3)]


@pytest.fixture(scope="module")
def bags(episodes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bags")
    return [write_bag(folder / f"robot{k}", messages) for k, messages in enumerate(episodes)]


ZARR, ROWS = ("--format", "zarr"), ("--format", "rows")


def test_rows_are_what_numpy_and_pillow_say(config, bags, episodes, tmp_path):
    outcomes = replay(config, tmp_path / "out", *bags, options=ROWS)
    assert [outcome for outcome, _ in outcomes] == ["done"] * 3
    store = tmp_path / "out/rows.zarr"
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"rows.zarr", "replay.json"}
    about = zarr.open_group(store, mode="r").attrs["robocache"]
    assert (about["kind"], about["format_version"]) == ("rows", 3)
    assert about["configuration"] == CONFIG
    assert [episode["name"] for episode in about["episodes"]] == ["robot0", "robot1", "robot2"]

    groups = {
        name: opened(store, f"streams/{name}")
        for name in ("arm/0", "arm/1", "camera/0", "grid/0", "cells/0")
    }
    for ring in groups.values():
        assert (ring.epoch == 0).all() and (ring.input == 0).all() and not ring.replaced.any()
        assert (ring.received_ns < ring.left_ns).all()
    for k, messages in enumerate(episodes):
        for name, topic in [("camera/0", "/camera"), ("grid/0", "/cloud"), ("cells/0", "/cloud")]:
            ring, sent = part(groups[name], k), of_topic(messages, topic)
            assert ring.stamp_ns.values.tolist() == list(sent)
            for at, message in enumerate(sent.values()):
                row = ring.rows.values[at]
                if topic == "/camera":
                    np.testing.assert_array_equal(row, resized(message))
                elif name == "grid/0":
                    np.testing.assert_array_equal(row[0], voxels(message))
                else:
                    expected = voxels(message)
                    where = np.argwhere(expected)
                    assert ring["count"].values[at] == len(where)
                    np.testing.assert_array_equal(ring.coordinates.values[at][: len(where)], where)
                    counts = expected[tuple(where.T)]
                    np.testing.assert_array_equal(row[: len(where), 0], counts)
                    assert not row[len(where) :].any()
        for group, channels in [(0, ["a", "b"]), (1, ["g"])]:
            ring = part(groups[f"arm/{group}"], k)
            sent = {
                stamp_of(m): m.position
                for topic, _, m in messages
                if topic == "/joints" and m.name == channels
            }
            stamps = sorted(sent)
            assert ring.stamp_ns.values.tolist() == stamps
            expected = np.array([sent[ns] for ns in stamps]).astype("<f4")
            # Rows that are interpolated are not yet rounded to the stream's type.
            assert ring.rows.dtype == np.float32
            np.testing.assert_array_equal(ring.rows.values, expected)
            known = ring.rows.attrs["ring"]
            assert [name.split(".")[0] for name in known["channels"]] == channels


def part(ring, episode):
    """The rows of an episode."""
    ends = ring.episode_ends.values
    start = ends[episode - 1] if episode else 0
    return ring.isel(row=slice(start, ends[episode]))


def test_tensors_are_those_of_mcap_and_scipy(config, bags, episodes, tmp_path):
    out = tmp_path / "out"
    replay(config, out, *bags)
    replay(config, out, *bags, options=ZARR)
    data = opened(out / "tensors.zarr", "data")
    ends = zarr.open_group(out / "tensors.zarr", mode="r")["meta/episode_ends"]
    assert ends.dtype == np.int64
    ends = ends[:].tolist()
    # As UMI's ReplayBuffer wants it: all arrays of `data` are as long as the last end says.
    for _, array in zarr.open_group(out / "tensors.zarr", mode="r")["data"].arrays():
        assert array.shape[0] == ends[-1]
    ticks = [tensor for bag in bags for tensor in tensors(out / f"{bag.name}.mcap")]
    counts = [len(tensors(out / f"{bag.name}.mcap")) for bag in bags]
    assert ends == np.cumsum(counts).tolist() and len(ticks) == ends[-1] > 200
    assert data.tick.values.tolist() == [tensor.tick for tensor in ticks]
    assert data.stamp_ns.values.tolist() == [PERIOD * tensor.tick for tensor in ticks]
    for at, tensor in enumerate(ticks):
        content = bytes(tensor.data)
        for segment in tensor.segments:
            size = int(np.prod(segment.shape)) * segment.dtype_bits // 8
            got = data[segment.name].values[at]
            assert list(got.shape) == list(segment.shape)
            assert got.tobytes() == content[segment.byte_offset : segment.byte_offset + size]
            if segment.name.endswith(".coordinates"):
                continue
            for name in ("valid", "target_ns", "age_ns"):
                known = data[f"{segment.name}.{name}"].values[at].tolist()
                assert known == list(getattr(segment, name)), (segment.name, name)
        (cells,) = [segment for segment in tensor.segments if segment.name == "cells"]
        assert data["cells.count"].values[at].tolist() == list(cells.count)
    assert data.arm.attrs["segment"]["dtype"] == "bf16" and data.arm.dtype == np.uint16
    assert [c.split(".")[0] for c in data.arm.attrs["segment"]["channels"]] == ["a", "b", "g"]

    # Where both neighbours of a target had come, a value is SciPy's, up to the rounding to bf16.
    joined = {}
    for topic, _, m in episodes[0]:
        if topic == "/joints" and m.name == ["a", "b"]:
            joined[stamp_of(m) - T0] = m.position
    line = interp1d(sorted(joined), [joined[ns] for ns in sorted(joined)], axis=0)
    values, checked = bf16(data.arm.values), 0
    for at in range(ends[0]):
        target = data["arm.target_ns"].values[at] - T0
        if data["arm.valid"].values[at].all():
            np.testing.assert_allclose(values[at, :, :2], line(target), rtol=1 / 128, atol=1e-3)
            checked += 1
    assert checked > 80

    # The same numbers as f32.
    replay(config, tmp_path / "f32", *bags, options=[*ZARR, "--bf16", "f32"])
    widened = opened(tmp_path / "f32/tensors.zarr", "data")
    np.testing.assert_array_equal(widened.arm.values, values)


@pytest.mark.parametrize("store", ["tensors.zarr", "rows.zarr"])
def test_bytes_depend_neither_on_jobs_nor_on_interruptions(config, bags, tmp_path, store):
    options = ZARR if store == "tensors.zarr" else ROWS
    one, many, broken = tmp_path / "one", tmp_path / "many", tmp_path / "broken"
    replay(config, one, *bags, options=[*options, "--jobs", 1])
    replay(config, many, *bags, options=[*options, "--jobs", 3])
    expected = files(one / store)
    assert len(expected) > 30 and files(many / store) == expected

    inode = (one / store / "zarr.json").stat().st_ino
    outcomes = replay(config, one, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept"] * 3
    assert (one / store / "zarr.json").stat().st_ino == inode

    # The first run has a bad episode: the others are there, and are kept for the next one.
    bad = tmp_path / "robot1.mcap"
    bad.write_bytes(b"no bag at all" * 10)
    given = [bags[0], bad, bags[2]]
    outcomes = replay(config, broken, *given, expect=1, options=options)
    assert [outcome for outcome, _ in outcomes] == ["done", "failed", "done"]
    about = zarr.open_group(broken / store, mode="r").attrs["robocache"]
    assert [episode["name"] for episode in about["episodes"]] == ["robot0", "robot2"]
    outcomes = replay(config, broken, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "kept"]
    assert files(broken / store) == expected
    assert {p.name for p in broken.iterdir()} == {store, "replay.json"}

    # Another configuration makes all again.
    config.write_text(CONFIG.replace("max_age_ms: 50", "max_age_ms: 40"))
    outcomes = replay(config, one, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["done"] * 3
    text = zarr.open_group(one / store, mode="r").attrs["robocache"]["configuration"]
    assert "max_age_ms: 40" in text


def test_a_store_never_replaces_what_this_run_does_not_have(config, bags, tmp_path):
    out = tmp_path / "out"
    replay(config, out, *bags[:2], options=ROWS)
    before = files(out / "rows.zarr")
    said = replay(config, out, bags[2], expect=1, options=ROWS)
    assert "has the episode 'robot0' of " in said
    assert files(out / "rows.zarr") == before
    # More episodes are no loss.
    replay(config, out, *bags, options=ROWS)
    shutil.copytree(out / "rows.zarr", tmp_path / "other/rows.zarr")
    said = replay(config, tmp_path / "other", *bags, expect=1, options=ROWS)
    assert "is no result of an earlier run" in said


@pytest.mark.parametrize("options", [ZARR, ROWS])
def test_a_full_disk_is_an_error_and_leaves_no_store(config, bags, tmp_path, options):
    def limit(size):
        def before():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return before

    out = tmp_path / "out"
    outcomes = replay(config, out, *bags, expect=1, options=options, preexec_fn=limit(100_000))
    assert {outcome for outcome, _ in outcomes} == {"failed"}
    assert all("File too large" in failure["error"] for _, failure in outcomes)
    assert [p for p in out.rglob("*") if p.is_file()] == []
    # The parts fit, and the store does not.
    replay(config, tmp_path / "whole", *bags, options=options)
    largest = max(len(content) for content in files(tmp_path / "whole").values())
    outcomes, said = run(config, out, *bags, options=options, preexec_fn=limit(largest - 1))
    # The command still says what became of each episode.
    assert {outcome for outcome, _ in outcomes} == {"done"} and "no new store" in said
    assert "File too large" in said
    assert not list(out.glob("*.zarr")) and not list(out.glob("*.partial"))
    outcomes = replay(config, out, *bags, options=options)
    assert {outcome for outcome, _ in outcomes} == {"kept"}


def run(config, out, *bags, options=(), **kwargs):
    """A run that ends with 1: what it says of each episode, and on stderr."""
    command = [configuration.program(), "replay", *bags, "--config", config, "--out", out, "--json"]
    command = [str(word) for word in [*command, *options]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return [next(iter(outcome.items())) for outcome in json.loads(done.stdout)], done.stderr


def test_a_store_keeps_an_episode_that_fails_later(config, bags, tmp_path):
    own = [shutil.copytree(bag, tmp_path / f"own/{bag.name}") for bag in bags[:2]]
    out = tmp_path / "out"
    replay(config, out, *own, options=ROWS)
    before = files(out / "rows.zarr")
    for file in own[0].iterdir():
        file.write_bytes(b"")
    outcomes, said = run(config, out, *own, bags[2], options=ROWS)
    assert [outcome for outcome, _ in outcomes] == ["failed", "kept", "done"]
    assert "no new store" in said and "has the episode 'robot0' of " in said
    assert files(out / "rows.zarr") == before
    # Another bag of the same name is not that episode.
    other = shutil.copytree(bags[1], tmp_path / "other/robot0")
    said = replay(config, out, other, own[1], expect=1, options=ROWS)
    assert "has the episode 'robot0' of " in said
    assert files(out / "rows.zarr") == before


def test_a_store_whose_replacement_was_interrupted_is_there(config, bags, tmp_path):
    """At each step of the replacement: the ledger says which store it is, and nothing is made again."""
    out, other = tmp_path / "out", tmp_path / "other"
    replay(config, out, *bags[:2], options=ROWS)
    before, ledger = out / "rows.zarr", json.loads((out / "replay.json").read_text())
    replay(config, other, *bags, options=ROWS)
    expected, newer = files(other / "rows.zarr"), json.loads((other / "replay.json").read_text())
    ledger["coming"] = newer["stores"]
    saved = shutil.copytree(before, tmp_path / "saved")
    for step in ("announced", "without a name", "with its name"):
        shutil.rmtree(out)
        out.mkdir()
        # The third episode is a part until the store is complete.
        ledger["episodes"] = newer["episodes"] if step == "with its name" else ledger["episodes"]
        (out / "replay.json").write_text(json.dumps(ledger))
        if step == "announced":
            shutil.copytree(saved, before)
        else:
            shutil.copytree(saved, out / "rows.zarr.old")
        if step == "with its name":
            shutil.copytree(other / "rows.zarr", before)
        outcomes = replay(config, out, *bags, options=ROWS)
        third = "kept" if step == "with its name" else "done"
        assert [outcome for outcome, _ in outcomes] == ["kept", "kept", third], step
        assert files(before) == expected, step
        assert sorted(path.name for path in out.iterdir()) == ["replay.json", "rows.zarr"]


@pytest.mark.parametrize("options", [ZARR, ROWS])
def test_an_episode_that_is_in_the_store_is_not_replayed_again(config, bags, tmp_path, options):
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    store = "tensors.zarr" if options == ZARR else "rows.zarr"
    replay(config, out, bags[0], bags[2], options=options)
    # One more in the middle, and then another order.
    outcomes = replay(config, out, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "kept"]
    replay(config, fresh, *bags, options=options)
    assert files(out / store) == files(fresh / store)
    outcomes = replay(config, out, *bags[::-1], options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept"] * 3
    replay(config, tmp_path / "back", *bags[::-1], options=options)
    assert files(out / store) == files(tmp_path / "back" / store)
    assert {p.name for p in out.iterdir()} == {store, "replay.json"}


def test_a_journal_counts_up_to_where_it_was_broken_off(config, bags, tmp_path):
    out = tmp_path / "out"
    replay(config, out, bags[0])
    ledger = json.loads((out / "replay.json").read_text())
    entry = ledger["episodes"].pop("robot0.mcap")
    line = json.dumps({"Added": {"result": "robot0.mcap", "entry": entry}})
    (out / "replay.json").write_text(json.dumps(ledger))
    # What was broken off does not spoil what follows it.
    (out / "replay.json.journal").write_text(f"\n{line[:50]}\n{line}\n\n{line[:70]}")
    ((outcome, _),) = replay(config, out, bags[0])
    assert outcome == "kept"
    assert sorted(path.name for path in out.iterdir()) == ["replay.json", "robot0.mcap"]
    for text in ("{}", '{"version": "0.1", "episodes": {"robot0": 1}}', '{"format": 9}', "no JSON"):
        (out / "replay.json").write_text(text)
        said = replay(config, out, bags[0], expect=1)
        assert "another version of robocache wrote it" in said


@pytest.mark.parametrize(
    "format_before", ["format 1;", "format 3 of parts 1;", "format 2 of parts 2;"]
)
def test_what_has_an_older_format_is_made_again(config, bags, tmp_path, format_before):
    out = tmp_path / "out"
    replay(config, out, bags[0], options=ROWS)
    expected, ledger = files(out / "rows.zarr"), out / "replay.json"
    now = "format 3 of parts 2;"
    assert ledger.read_text().count(now) == 2
    ledger.write_text(ledger.read_text().replace(now, format_before))
    ((outcome, _),) = replay(config, out, bags[0], options=ROWS)
    assert outcome == "done" and files(out / "rows.zarr") == expected
    assert ledger.read_text().count(now) == 2 and format_before not in ledger.read_text()


def test_open_files_do_not_grow_with_arrays_and_jobs(config, bags, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    copies = [shutil.copytree(bags[k % 3], tmp_path / f"many/{k}") for k in range(12)]
    options = [*ZARR, "--jobs", 12]
    outcomes = replay(config, tmp_path / "out", *copies, options=options, preexec_fn=limit)
    assert [outcome for outcome, _ in outcomes] == ["done"] * 12


def test_damage_in_a_store_is_found(config, bags, tmp_path):
    replay(config, tmp_path / "out", bags[0], options=ROWS)
    path = tmp_path / "out/rows.zarr/streams/camera/0/rows"
    shard = path / "c.0.0.0.0"
    content = bytearray(shard.read_bytes())
    content[len(content) // 4] ^= 1
    shard.write_bytes(content)
    array = zarr.open_array(path, mode="r")
    with pytest.raises(ValueError, match="checksum"):
        array[:]


def place_of_damage(part, column):
    """Where the first record of a column is, or its first large row."""
    text = (part / "part.json").read_bytes()
    listed = json.loads(text[17:])
    paths = [column["path"] for column in listed["tables"][0]["columns"]]
    at, _, _ = listed["content"][0]["streams"][paths.index(column)]["blocks"][0]
    if column == "data/camera":
        (at,) = struct.unpack_from("<Q", (part / "data").read_bytes(), at)
    return at + 5


@pytest.mark.parametrize("damage", ["data/arm", "data/camera", "part.json", "gone"])
def test_a_damaged_part_never_gets_into_a_store(config, bags, tmp_path, damage):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, largest - 1))

    replay(config, tmp_path / "whole", *bags, options=ZARR)
    expected = files(tmp_path / "whole/tensors.zarr")
    largest, out = max(map(len, expected.values())), tmp_path / "out"
    # The parts fit on the disk, and the store does not.
    run(config, out, *bags, options=ZARR, preexec_fn=limit)
    part = out / "tensors.zarr.parts/robot1"
    name = "part.json" if damage == "part.json" else "data"
    content = bytearray((part / name).read_bytes())
    if damage == "gone":
        (part / name).unlink()
    else:
        content[60 if name == "part.json" else place_of_damage(part, damage)] ^= 4
        (part / name).write_bytes(content)
    outcomes, said = run(config, out, *bags, options=ZARR)
    assert [outcome for outcome, _ in outcomes] == ["kept"] * 3
    assert "no new store" in said and "give the same command again" in said and "robot1" in said
    assert ("No such file" if damage == "gone" else "damaged") in said
    assert not list(out.glob("*.zarr"))
    outcomes = replay(config, out, *bags, options=ZARR)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "kept"]
    assert files(out / "tensors.zarr") == expected


def test_one_run_at_a_time_writes_into_a_folder(config, bags, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    held = os.open(out, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    said = replay(config, out, bags[0], expect=1)
    assert "another run writes into it" in said
    os.close(held)
    replay(config, out, bags[0])


def test_an_episode_ends_where_ticks_do_not_follow_each_other(config, tmp_path):
    text = CONFIG.replace("  arm:\n", "  arm:\n    required: true\n", 1)
    assert text != CONFIG
    config.write_text(text)
    messages = [entry for entry in robot(400) if not T0 + 400 * MS < entry[1] < T0 + 700 * MS]
    bag = write_bag(tmp_path / "gap", messages)
    replay(config, tmp_path / "out", bag, options=["--format", "zarr"])
    store = zarr.open_group(tmp_path / "out/tensors.zarr", mode="r")
    ticks, ends = store["data/tick"][:], store["meta/episode_ends"][:]
    breaks = [int(at) + 1 for at in np.flatnonzero(np.diff(ticks) != 1)]
    assert len(breaks) == 1 and list(ends) == [*breaks, len(ticks)]
    assert store.attrs["robocache"]["episodes"][0]["breaks"] == breaks


def test_an_interrupted_run_leaves_no_store_and_goes_on(config, tmp_path):
    bags = [write_bag(tmp_path / f"all/{k}", robot(600, seed=k)) for k in range(6)]
    # More, so that a fast machine has not done all when the signal comes.
    bags += [shutil.copytree(bags[5], tmp_path / f"all/{k}") for k in range(6, 40)]
    command = [configuration.program(), "replay", *bags, "--config", config, "--jobs", "1", *ROWS]
    command = [str(word) for word in [*command, "--out", tmp_path / "out"]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "out/rows.zarr.parts/0").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 1
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"rows.zarr.parts", "replay.json"}
    assert not list((tmp_path / "out").rglob("*.partial"))
    outcomes = replay(config, tmp_path / "out", *bags, options=ROWS)
    assert outcomes[0][0] == "kept" and {outcome for outcome, _ in outcomes} == {"kept", "done"}
    replay(config, tmp_path / "whole", *bags, options=ROWS)
    assert files(tmp_path / "out/rows.zarr") == files(tmp_path / "whole/rows.zarr")


def test_a_row_that_was_replaced_is_there_with_the_time_that_it_was_seen(config, tmp_path):
    sent = [(0, 1.0, 1), (10, 2.0, 11), (5, 3.0, 12), (10, 4.0, 13), (20, 5.0, 21)]
    messages = [
        ("/joints", T0 + received * MS, joints(T0 + ns * MS, a=value, b=value))
        for ns, value, received in sent
    ]
    bag = write_bag(tmp_path / "late", messages)
    ((_, summary),) = replay(config, tmp_path / "out", bag, options=ROWS)
    assert summary["streams"]["arm"]["rows"] == 5 and summary["ticks"] == 0
    ring = opened(tmp_path / "out/rows.zarr", "streams/arm/0")
    assert ((ring.stamp_ns.values - T0) // MS).tolist() == [0, 5, 10, 10, 20]
    assert ring.rows.values[:, 0].tolist() == [1, 3, 2, 4, 5]
    assert ((ring.received_ns.values - T0) // MS).tolist() == [1, 12, 11, 13, 21]
    assert ring.replaced.values.tolist() == [False, False, True, False, False]
    left = ring.left_ns.values
    assert left[2] == T0 + 13 * MS and (np.delete(left, 2) == np.iinfo(np.int64).max).all()
    # Streams that the episode lacks have no rows.
    for name in ("arm/1", "camera/0", "cells/0"):
        ring = opened(tmp_path / "out/rows.zarr", f"streams/{name}")
        assert ring.episode_ends.values.tolist() == [0] and ring.sizes["row"] == 0
    about = zarr.open_group(tmp_path / "out/rows.zarr", mode="r").attrs["robocache"]
    assert about["episodes"][0]["missing"] == ["/camera", "/cloud"]


def test_rows_of_each_epoch_of_a_simulators_clock(config, tmp_path):
    messages = []
    for loop in range(2):
        for k in range(50):
            received = T0 + (100 * loop + k) * 20 * MS
            messages.append(("/clock", received, clock(5 * MS + k * PERIOD)))
            messages.append(("/joints", received + MS, joints((6 + 10 * k) * MS, a=loop, b=k)))
    bag = write_bag(tmp_path / "sim", messages)
    replay(config, tmp_path / "out", bag, options=ROWS)
    ring = opened(tmp_path / "out/rows.zarr", "streams/arm/0")
    assert ring.sizes["row"] == 100
    for loop in range(2):
        own = ring.isel(row=slice(50 * loop, 50 * loop + 50))
        assert (own.rows.values[:, 0] == loop).all() and len(set(own.epoch.values)) == 1
        assert own.rows.values[:, 1].tolist() == list(range(50))
    assert ring.epoch.values[0] < ring.epoch.values[-1]


def test_a_stream_must_not_have_the_name_of_an_array_of_the_ticks(config, bags, tmp_path):
    config.write_text(CONFIG.replace("  camera:\n", "  tick:\n"))
    ((outcome, failure),) = replay(config, tmp_path / "out", bags[0], expect=1, options=ZARR)
    assert outcome == "failed" and "stream 'tick': expected another name" in failure["error"]


def test_the_numbers_of_an_episode_are_in_json(config, bags, tmp_path):
    replay(config, tmp_path / "out", bags[0], options=ZARR)
    ledger = json.loads((tmp_path / "out/replay.json").read_text())
    assert list(ledger["episodes"]) == ["tensors.zarr.parts/robot0"]
    assert [stored["name"] for stored in ledger["stores"]["tensors.zarr"]["episodes"]] == ["robot0"]
