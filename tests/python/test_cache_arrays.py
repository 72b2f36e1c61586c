"""`robocache.EpisodeCache` of arrays: what NumPy says of their windows, and the errors for wrong arguments."""

import pickle
import threading

import numpy as np
import pytest
from bags import MS, T0, wrench, write_bag
from replays import replay

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache
from robocache.training import cache, cache_input


def test_rows_that_are_not_finite_are_refused():
    rows = np.zeros((4, 3), np.float32)
    rows[2, 1] = np.nan
    streams = {"arm": {"rows": rows, "stamp_ns": np.arange(4) * MS}}
    with pytest.raises(
        ValueError, match=r"rows of 'arm' in group 0: expected finite .* NaN in row 2, element 1"
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
    # Rows that came with their stamps: the next one is still missing, and the one before is held.
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


def test_windows_go_where_the_caller_says():
    cache, *_ = made_of_arrays()
    items = [0, 2, 0], [50 * MS, 70 * MS, 200 * MS]
    expected = cache.windows(*items)
    size = len(expected.buffer)
    for out in (np.full(size + 9, 7, np.uint8), bytearray(b"\7" * (size + 9))):
        found = cache.windows(*items, out=out)
        assert np.shares_memory(found.buffer, np.frombuffer(out, np.uint8))
        assert bytes(out[size:]) == b"\7" * 9  # nothing is written beyond
        for name in expected:
            assert (found[name].array == expected[name].array).all()
            assert (found[name].valid == expected[name].valid).all()
            assert (found[name].age_ns == expected[name].age_ns).all()
    longer = np.zeros(2 * size + 16, np.uint8)
    frozen = longer.copy()
    frozen.flags.writeable = False
    for wrong, message in [
        (longer[: size - 1], f"of {size} bytes or more .* found uint8 of the shape .{size - 1}.$"),
        (longer[:size].view(np.int8), "found int8"),
        (longer[: 2 * size].reshape(2, size), "of the shape"),
        (longer[::2], "found one with gaps"),
        (longer[1:], "multiple of 8"),
        (frozen, "found one that is read-only"),
        (bytes(size), "found one that is read-only"),
    ]:
        with pytest.raises(ValueError, match=f"out: expected a contiguous uint8 array .*{message}"):
            cache.windows(*items, out=wrong)
    with pytest.raises(TypeError, match="out: expected a contiguous uint8 array .* found list"):
        cache.windows(*items, out=[0] * size)


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
    with pytest.raises(ValueError, match="episodes: expected one or more of 2, found none"):
        cache.statistics(episodes=slice(None, -2))


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
        (
            ([0], [0], {"state": {"strategy": "best"}}),
            {},
            "strategy of 'state': expected one of hold",
        ),
        (([0], [0], {"picture": {"strategy": "linear", "max_gap_ms": 1}}), {}, "no float"),
        (([0], [0], {"picture": {"dtype": "f32"}}), {}, "rows of the type of the output"),
        (([0], [0], {"state": {"max_age_ms": -1}}), {}, "max_age_ns of 'state'"),
        (([0], [0]), {"rows": "some"}, "rows: expected one of"),
        (([0], [0]), {"epochs": [7]}, "epoch of episode 0: expected one of 0, found 7"),
        (([0], [0]), {"epochs": [0, 0]}, "epochs: expected 1"),
        (([0], [0]), {"latency_ns": {"nothing": 1}}, "latency_ns: expected streams"),
    ],
)
def test_bad_arguments_are_told(arguments, options, message):
    cache, *_ = made_of_arrays()
    with pytest.raises(ValueError, match=message):
        cache.windows(*arguments, **options)


@pytest.mark.parametrize(
    ("episode", "found"),
    [
        ({"name": "a", "instruction": "pick"}, "the key 'instruction'"),
        ({"task": "pick"}, "no name"),
    ],
)
def test_an_unknown_key_of_an_episode_is_told(episode, found):
    stream = {"rows": np.zeros((2, 1), np.float32), "stamp_ns": np.zeros(2, np.int64)}
    known = "bag, begins_ns, colours, marks, name, spans, task, tasks"
    said = f"expected name, and of {known} what is known, found {found} in the dict of episode 1"
    with pytest.raises(ValueError, match=said):
        robocache.EpisodeCache.from_arrays(
            {"state": stream}, [1, 1], episodes=[{"name": "b", "task": "place"}, episode]
        )


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


@pytest.mark.parametrize(
    ("error", "message", "changed"),
    [
        (TypeError, "epochs: expected integers, found float64", {"epochs": [0.9]}),
        (ValueError, "target_ns: expected at most 9223372036854775807, found 18446744073709551615",
         {"target_ns": np.array([2**64 - 1], np.uint64)}),
        (ValueError, "episodes: expected at most .*, found 18446744073709551615",
         {"episodes": np.array([2**64 - 1], np.uint64)}),
        (ValueError, "epochs: expected at most .*, found 18446744073709551615",
         {"epochs": np.array([2**64 - 1], np.uint64)}),
        (TypeError, "offsets_ns of 'state': expected integers", {"config": {"state": {"offsets_ns": [-0.5]}}}),
    ],
)  # fmt: skip
def test_numbers_that_int64_does_not_hold_are_told(error, message, changed):
    state = {"rows": np.zeros((9, 1), np.float32), "stamp_ns": np.arange(9) * 10 * MS}
    cache = robocache.EpisodeCache.from_arrays({"state": state}, [9])
    asked = {"episodes": [0], "target_ns": [50 * MS]}
    assert cache.windows(**asked, epochs=np.zeros(1, np.uint64))["state"].valid.all()
    with pytest.raises(error, match=message):
        cache.windows(**{**asked, **changed})


@pytest.mark.parametrize(
    ("error", "message", "config"),
    [
        (TypeError, r"config: expected a dict by stream, found \['state'\]", ["state"]),
        (TypeError, "'state': expected a dict, found 16", {"state": 16}),
        (ValueError, "horizon of 'state': expected steps .* found 16", {"state": {"horizon": 16}}),
    ],
)
def test_windows_of_another_kind_are_told(error, message, config):
    state = {"rows": np.zeros((9, 1), np.float32), "stamp_ns": np.arange(9) * 10 * MS}
    cache = robocache.EpisodeCache.from_arrays({"state": state}, [9])
    with pytest.raises(error, match=message):
        cache.windows([0], [50 * MS], config)


def test_bf16_says_that_its_array_has_bits():
    rows = np.full((9, 1), 0.279, np.float32)
    state = {"rows": rows, "stamp_ns": np.arange(9) * 10 * MS}
    cache = robocache.EpisodeCache.from_arrays({"state": state}, [9])
    halved = cache.windows([0], [50 * MS], {"state": {"dtype": "bf16"}})["state"]
    assert halved.array.tolist() == [[[16015]]] and "array: bits as uint16" in repr(halved)
    assert halved.float32().dtype == np.float32 and abs(halved.float32()[0, 0, 0] - 0.279) < 1e-3
    whole = cache.windows([0], [50 * MS])["state"]
    assert "bits" not in repr(whole)
    # A copy: what is done to it changes no batch.
    assert not np.shares_memory(whole.float32(), whole.array)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert (halved.array.view(ml_dtypes.bfloat16).astype(np.float32) == halved.float32()).all()


@pytest.mark.parametrize(("value", "text"), [(100_020.0, "1.0002e5"), (-65_520.0, "-6.552e4")])
def test_a_type_that_does_not_hold_all_rows_is_refused(value, text):
    rows = np.full((5, 2), 65_519.0, np.float32)
    rows[3, 1] = value
    stamps = np.arange(5) * 10 * MS
    stream = {"rows": rows, "stamp_ns": stamps, "strategy": "hold"}
    cache = robocache.EpisodeCache.from_arrays({"x": stream}, [5])
    match = f"dtype of 'x': expected one that holds all values, found f16 for {text} of row 3"
    with pytest.raises(ValueError, match=match):
        cache.windows([0], [30 * MS], {"x": {"dtype": "f16"}})
    found = cache.windows([0], [30 * MS], {"x": {"dtype": "bf16"}})
    assert np.isfinite(found["x"].float32()).all()
    # A grid is read for bf16, too.
    grid = {**stream, "rows": rows.reshape(5, 1, 2).copy()}
    grid["rows"][2, 0, 0] = 3.4e38
    grids = robocache.EpisodeCache.from_arrays({"x": grid}, [5])
    with pytest.raises(ValueError, match="expected one that holds all values, found bf16 for 3.39"):
        grids.windows([0], [30 * MS], {"x": {"dtype": "bf16"}})
    rows[3, 1] = 65_519.0
    cache = robocache.EpisodeCache.from_arrays({"x": stream}, [5])
    found = cache.windows([0], [30 * MS], {"x": {"dtype": "f16"}})
    assert (found["x"].array == 65_504).all() and found["x"].valid.all()


def test_operators_may_leave_a_type(tmp_path):
    """What counts is the value of a step, after the operators: 65,504 is the largest of f16."""
    stamps = [T0 + at * 10 * MS for at in range(9)]
    messages = [("/wrench", ns, wrench(ns, at, 0, 0)) for at, ns in enumerate(stamps)]
    bag = write_bag(tmp_path / "bag", messages)
    asked = {"x": {"dtype": "f16"}}
    for scale, said in ((8_000, None), (9_000, "f16 for 7.2e4 of row 8 in group 0")):
        folder = tmp_path / str(scale)
        folder.mkdir()
        config = folder / "config.yaml"
        config.write_text(f"""
rate_hz: 100
streams:
  x:
    type: geometry_msgs/WrenchStamped
    topic: /wrench
    fields: [force]
    max_age_ms: 50
    dtype: f32
    operators: [{{scale: {scale}}}]
""")
        replay(config, folder, bag, options=["--format", "rows"])
        loaded = robocache.EpisodeCache.load(folder / "rows.zarr")
        if said:
            with pytest.raises(
                ValueError, match=f"expected one that holds all values, found {said}"
            ):
                loaded.windows([0], [stamps[5]], asked)
        else:
            found = loaded.windows([0], [stamps[5]], asked)["x"]
            assert found.valid.all() and found.float32()[0, 0, 0] == 5 * scale


def test_a_channel_of_no_group_is_refused(monkeypatch):
    of_arrays = cache_input.of_arrays

    def wider(*arguments):
        means, columns = of_arrays(*arguments)
        means["row_shape"] = [3]
        means["vector"]["channels"].append({"name": "2", "lane": "linear"})
        return means, columns

    monkeypatch.setattr(cache, "of_arrays", wider)
    stream = {"rows": np.ones((4, 2), np.float32), "stamp_ns": np.arange(4) * 10 * MS}
    with pytest.raises(ValueError, match="'x': expected groups that write each element once"):
        found = robocache.EpisodeCache.from_arrays({"x": stream}, [4])
        found.windows([0], [10 * MS])


def test_windows_behave_as_a_mapping_and_segments_as_arrays():
    cache, rows, *_ = made_of_arrays()
    batch = cache.windows([0, 2], [50 * MS, 70 * MS])
    assert len(batch) == len(list(batch)) == 2 and batch.batch_size == 2
    assert dict(batch.items()).keys() == batch.keys() == {"state", "picture"}
    assert [segment.name for segment in batch.values()] == list(batch)
    assert "state" in batch and "other" not in batch and batch.get("other") is None
    assert batch == batch and batch != cache.windows([0, 2], [50 * MS, 70 * MS])
    state = batch["state"]
    assert state.shape == state.array.shape == (2, 2, 3) and state.ndim == 3 and len(state) == 2
    assert np.asarray(state) is not None and np.shares_memory(np.asarray(state), state.array)
    assert (np.asarray(state) == state.array).all() and (state[1] == state.array[1]).all()
    assert np.asarray(state, np.float64).dtype == np.float64
    assert (np.mean(state) == state.array.mean()) and (state.is_pad == ~state.valid).all()
    half = cache.windows([0], [50 * MS], {"state": {"dtype": "bf16"}})["state"]
    assert np.asarray(half).dtype == np.float32 and (half.numpy() == half.float32()).all()
    assert (half[0, -1] == half.float32()[0, -1]).all()


def test_a_tensor_of_a_pipeline_behaves_as_a_mapping_too():
    steps = {"valid": np.ones(1, bool), "target_ns": np.zeros(1, np.int64)}
    steps |= {"age_ns": np.zeros(1, np.int64), "count": np.ones(1, np.uint32)}
    steps |= {"inputs_valid": np.ones(1, np.uint32)}
    values = np.arange(3, dtype=np.float32).reshape(1, 3)
    segment = robocache.Segment("arm", "f32", values, **steps)
    tensor = robocache.FusedTensor(1, 10, "base", {"arm": segment}, values.view(np.uint8))
    assert dict(tensor) == {"arm": segment} and len(tensor) == 1 and "leg" not in tensor
    assert (np.asarray(tensor["arm"]) == values).all() and len(segment) == 1
    assert (segment[-1] == values[-1]).all() and segment.shape == (1, 3)


def test_the_package_lists_what_it_has():
    names = dir(robocache)
    assert {"EpisodeCache", "WindowSampler", "decode", "contract", "__version__"} <= set(names)
    assert not {"importlib", "annotations", "Any", "TYPE_CHECKING"} & set(names)


def test_statistics_of_no_row_are_told():
    streams = {
        name: {"rows": np.ones((rows, 2), np.float32), "stamp_ns": np.arange(rows) * MS}
        for name, rows in (("there", 5), ("gone", 0))
    }
    cache = robocache.EpisodeCache.from_arrays(streams, {"there": [5], "gone": [0]})
    with pytest.warns(RuntimeWarning, match="statistics: expected rows, found none of gone"):
        cache.statistics()


def pictures():
    """A cache whose batches of 64 windows are larger than what the allocator keeps, and the instants of its rows."""
    rows = np.random.default_rng(5).integers(0, 256, (50, 100, 100, 3), dtype=np.uint8)
    stamps = np.arange(50) * 100 * MS
    streams = {"camera": {"rows": rows, "stamp_ns": stamps}}
    return robocache.EpisodeCache.from_arrays(streams, [50]), rows, stamps


def test_memory_is_used_again_when_no_view_is_left():
    cache, rows, stamps = pictures()
    batch = np.arange(64) % 50
    config = {"camera": {"lag_ms": 0}}
    windows = cache.windows([0] * 64, stamps[batch], config)
    address, view = windows.buffer.ctypes.data, windows["camera"].array[1:, 0]
    del windows
    other = cache.windows([0] * 64, stamps[batch[::-1]], config)
    assert other.buffer.ctypes.data != address
    assert (view == rows[batch[1:]]).all()
    del view
    again = cache.windows([0] * 64, stamps[batch], config)
    assert again.buffer.ctypes.data == address
    assert (other["camera"].array[:, 0] == rows[batch[::-1]]).all()


def test_threads_do_not_share_memory():
    cache, rows, stamps = pictures()
    failures = []

    def work(seed):
        random, held = np.random.default_rng(seed), []
        for size in random.integers(40, 90, 60):
            batch = random.integers(0, 50, size)
            windows = cache.windows([0] * size, stamps[batch], {"camera": {"lag_ms": 0}})
            held.append((batch, windows["camera"].array))
            batch, array = held.pop(0) if len(held) > 2 else held[0]
            if not (array[:, 0] == rows[batch]).all():
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("dtype", [None, "f16"])
def test_bytes_become_numbers_in_0_to_1(dtype):
    rows = np.arange(256, dtype=np.uint8).reshape(4, 4, 4, 4)
    stamps = np.arange(4) * 100 * MS
    streams = {"camera": {"rows": rows, "stamp_ns": stamps, "max_age_ms": 200}}
    cache = robocache.EpisodeCache.from_arrays(streams, [4])
    asked = {"history": {"steps": 3, "step_ms": 100}, "scale": True}
    config = {"camera": asked | ({} if dtype is None else {"dtype": dtype})}
    found = cache.windows([0] * 4, stamps, config)["camera"]
    own = cache.windows([0] * 4, stamps, {"camera": {"history": asked["history"]}})["camera"]
    expected = own.array / np.float32(255)
    assert found.dtype == (dtype or "f32") and expected.dtype == np.float32
    assert (found.array == expected.astype(found.array.dtype)).all()
    assert (found.valid == own.valid).all() and not found.valid.all()
    assert {*np.unique(expected)} == {*(np.arange(256, dtype=np.float32) / np.float32(255))}


def test_what_is_scaled_has_bytes_and_becomes_floats():
    stamps = np.arange(4) * 100 * MS
    streams = {
        "camera": {"rows": np.zeros((4, 2, 2, 3), np.uint8), "stamp_ns": stamps},
        "joints": {"rows": np.zeros((4, 2), np.float32), "stamp_ns": stamps},
    }
    cache = robocache.EpisodeCache.from_arrays(streams, [4])
    with pytest.raises(ValueError, match="scale of 'camera': expected true or false, found 1"):
        cache.plan({"camera": {"scale": 1}})
    for name, dtype, found in (("joints", "f32", "f32 for f32"), ("camera", "u8", "u8 for u8")):
        expected = (
            f"'{name}': expected rows of u8 for floats, as they are scaled, found rows of {found}"
        )
        with pytest.raises(ValueError, match=expected):
            cache.plan({name: {"scale": True, "dtype": dtype}})
