"""`robocache replay --format zarr | rows`: stores that zarr-python and xarray read.

Rows and ticks are worked out here from the messages with NumPy, SciPy and Pillow. Tensors must also be those of MCAP.
"""

import numpy as np
import pytest
import zarr
from arm_robot import (  # noqa: F401
    CONFIG,
    PERIOD,
    ROWS,
    ZARR,
    bags_fixture,
    config_fixture,
    episodes_fixture,
    robot,
)
from bags import MS, T0, clock, joints, write_bag
from PIL import Image as Picture
from replays import opened, replay, stamp_of, tensors
from scipy.interpolate import interp1d


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


def bf16(bits):
    return (np.asarray(bits, dtype=np.uint32) << 16).view(np.float32)


def test_rows_are_what_numpy_and_pillow_say(config, bags, episodes, tmp_path):
    outcomes = replay(config, tmp_path / "out", *bags, options=ROWS)
    assert [outcome for outcome, _ in outcomes] == ["done"] * 3
    store = tmp_path / "out/rows.zarr"
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"rows.zarr", "replay.json"}
    about = zarr.open_group(store, mode="r").attrs["robocache"]
    assert (about["kind"], about["format_version"]) == ("rows", 5)
    assert about["configuration"] == CONFIG
    assert [episode["name"] for episode in about["episodes"]] == ["robot0", "robot1", "robot2"]

    groups = {
        name: opened(store, f"streams/{name}")
        for name in ("arm/0", "arm/1", "camera/0", "grid/0", "cells/0")
    }
    for ring in (part(ring, k) for ring in groups.values() for k in range(3)):
        assert (ring.epoch == 0).all() and (ring.input == 0).all() and not ring.replaced.any()
        assert (ring.received_ns < ring.left_ns).all()
    for ring in groups.values():
        # Rows between two episodes are those of none.
        of_none = np.ones(ring.sizes["row"], bool)
        for k in range(3):
            of_none[part_of(ring, k)] = False
        assert (ring.replaced.values == of_none).all()
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


def part_of(ring, episode):
    """Which rows are those of an episode."""
    return slice(ring.episode_begins.values[episode], ring.episode_ends.values[episode])


def part(ring, episode):
    """The rows of an episode."""
    return ring.isel(row=part_of(ring, episode))


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
