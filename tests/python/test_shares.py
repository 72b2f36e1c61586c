"""Parts of a store: only their rows are read, and their windows are those of the whole; stores that go to files."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import waiting
from bags import MS
from random_episodes import parts
from same_files import expect_same
from test_cache import cache, stores  # noqa: F401 (fixtures)

import robocache

PROCESS = """
import json, sys
import robocache
from random_episodes import parts

path, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cache = robocache.EpisodeCache.load(path, share=(rank, world))
sampler = robocache.WindowSampler.of(cache, period_ns=7_000_000, batch_size=5, seed=3, drop_last=False)
items = [sampler.batch(0, number) for number in range(len(sampler))]
windows = cache.windows(*items[0][:2], epochs=items[0][2], rows="strict")
print(json.dumps({
    "names": [about["name"] for about in cache.episodes],
    "rows": {name: cache.size(name)[0] for name in cache.streams},
    "items": [[int(e) * world + rank, int(at), int(of)] for batch in items for e, at, of in zip(*batch)],
    "first": {f"{name} {part}": own.hex() for (name, part), own in parts(windows).items()},
}))
"""


def test_two_processes_load_their_shares(stores, cache):  # noqa: F811 (fixtures)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    path = stores / "rows.zarr"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(path), str(rank), "2"],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for rank in range(2)
    ]
    found = [json.loads(waiting.communicate(rank, "a rank")[0]) for rank in ranks]
    names = [about["name"] for about in cache.episodes]
    assert [own["names"] for own in found] == [names[0::2], names[1::2]]
    for name in cache.streams:
        rows = [own["rows"][name] for own in found]
        assert sum(rows) == cache.size(name)[0] and all(rows), name
    sampler = robocache.WindowSampler.of(cache, period_ns=7 * MS, batch_size=1)
    batches = [sampler.batch(0, number) for number in range(len(sampler))]
    every = sorted(tuple(int(each[0]) for each in batch) for batch in batches)
    items = [tuple(item) for own in found for item in own["items"]]
    assert sorted(items) == every
    for own in found:
        episodes, instants, epochs = np.array(own["items"][:5]).T
        whole = parts(cache.windows(episodes, instants, epochs=epochs, rows="strict"))
        assert {f"{name} {part}": value.hex() for (name, part), value in whole.items()} == own[
            "first"
        ]


def test_a_store_goes_to_files_without_its_rows_in_memory(stores, cache, tmp_path):  # noqa: F811
    store = stores / "rows.zarr"
    made = robocache.EpisodeCache.convert(store, tmp_path / "all")
    cache.save(tmp_path / "saved")
    expect_same(tmp_path / "all", tmp_path / "saved")
    assert not list(tmp_path.glob(".episodes-*"))
    with pytest.raises(OSError, match="exists"):
        robocache.EpisodeCache.convert(store, tmp_path / "all")
    episodes = np.array([0, 1, 0, 1])
    first = np.array([cache.episodes[e]["spans"][0][1] for e in episodes])
    instants = first + np.array([300, 400, 500, 600]) * MS
    assert parts(made.windows(episodes, instants)) == parts(cache.windows(episodes, instants))
    robocache.EpisodeCache.load(tmp_path / "all", verify=True)
    # One episode of a store, of the folder, and in a folder of its own.
    alone = [
        robocache.EpisodeCache.load(store, ["arm", "sparse"], episodes=[1]),
        robocache.EpisodeCache.load(tmp_path / "all", episodes=slice(1, None)),
        robocache.EpisodeCache.convert(store, tmp_path / "one", ["arm", "sparse"], episodes=[1]),
    ]
    config = {"arm": {}, "sparse": {}}
    expected = parts(cache.windows([1, 1], instants[1::2], config))
    for one in alone:
        assert [about["name"] for about in one.episodes] == [cache.episodes[1]["name"]]
        assert parts(one.windows([0, 0], instants[1::2], config)) == expected
        for name, numbers in one.statistics(["arm"])["arm"].items():
            assert (numbers == alone[0].statistics(["arm"])["arm"][name]).all()
    # When the first row of any stream came: two of them have fewer streams.
    assert alone[1].episodes[0]["spans"] == cache.episodes[1]["spans"]
    assert alone[0].size("arm")[0] < cache.size("arm")[0]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"episodes": [2]}, "episodes: expected numbers from 0 to 1, found 2"),
        ({"episodes": [1, 0]}, "episodes: expected numbers that increase, found 0 after 1"),
        ({"episodes": [0, 0]}, "expected numbers that increase"),
        ({"episodes": [-1]}, "episodes: expected numbers of 0 or more, found -1"),
        ({"episodes": (0, 2)}, "episodes: expected numbers from 0 to 1, found 2"),
        ({"episodes": ["bag9"]}, "episodes: expected names of bag1, bag2, found 'bag9'"),
        ({"episodes": "bag1"}, "episodes: expected a list of names, found the text 'bag1'"),
        ({"episodes": [0], "split": "val"}, "episodes: expected None with a split"),
        ({"split": "val"}, "split: expected .*splits.json, which `robocache import` writes"),
        (
            {"share": (2, 3)},
            "share: expected an episode or more for each of 3 ranks, found 2 in all and none for rank 2",
        ),
        ({"share": (1, 2), "episodes": [0]}, "each of 2 ranks, found 1 in all and none for rank 1"),
        ({"share": (2, 2)}, r"share: expected \(rank, world\) with rank below world"),
        ({"share": (0, 1, 2)}, r"share: expected a pair \(rank, world\)"),
        ({"share": 3}, r"share: expected a pair \(rank, world\) of whole numbers, found 3"),
        ({"share": (0.5, 2)}, r"share: expected a pair \(rank, world\) of whole numbers, found"),
        ({"episodes": 0}, "episodes: expected a list of numbers or names, or a slice, found 0"),
        ({"episodes": []}, r"episodes: expected one or more of 2, found none: \[\]"),
        ({"episodes": slice(5, 9)}, "episodes: expected one or more of 2, found none: slice"),
    ],
)
def test_wrong_shares_are_told(stores, asked, message):  # noqa: F811
    with pytest.raises((ValueError, TypeError), match=message):
        robocache.EpisodeCache.load(stores / "rows.zarr", **asked)


def names_of(cache):  # noqa: F811
    return [episode["name"] for episode in cache.episodes]


def test_a_tuple_is_numbers_and_names_and_splits_choose(stores, tmp_path):  # noqa: F811
    load = robocache.EpisodeCache.load
    whole = load(stores / "rows.zarr")
    first, second = names_of(whole)
    folder = tmp_path / "data"
    shutil.copytree(stores / "rows.zarr", folder / "rows.zarr")
    (folder / "splits.json").write_text(json.dumps({"train": [second, "other"], "val": ["other"]}))
    whole.save(folder / "saved")
    for path in (folder / "rows.zarr", folder / "saved"):
        assert names_of(load(path, episodes=(0, 1))) == [first, second]
        assert names_of(load(path, episodes=(1,))) == [second]
        assert names_of(load(path, episodes=[second])) == [second]
        assert names_of(load(path, episodes=np.array([second, first]))) == [first, second]
        assert names_of(load(path, episodes=slice(1, None))) == [second]
        train = load(path, split="train")
        assert names_of(train) == [second] and train.share is None
        assert names_of(pickle.loads(pickle.dumps(train))) == [second]
        assert names_of(load(path, share=(1, 2))) == [second]
        assert names_of(load(path, episodes=[1], share=(0, 2))) == [second]
        with pytest.raises(ValueError, match="split: expected one of train, val, found 'tset'"):
            load(path, split="tset")
        with pytest.raises(ValueError, match="split: expected an episode of 'val'"):
            load(path, split="val")
        with pytest.raises(TypeError, match="unexpected keyword argument 'compress'"):
            load(path, compress=True)
    with pytest.raises(TypeError, match="device: expected one for memory, found None"):
        load(folder / "rows.zarr", memory="pinned")


def test_statistics_of_a_share_say_so(stores):  # noqa: F811
    share = robocache.EpisodeCache.load(stores / "rows.zarr", share=(1, 2))
    with pytest.warns(RuntimeWarning, match="statistics of a share: these are of rank 1 of 2"):
        told = share.statistics(["arm"])
    text = json.dumps(told, default=np.ndarray.tolist)
    assert json.loads(text)["arm"]["mean"] == told["arm"]["mean"].tolist()


def test_a_share_is_sampled_as_it_is(stores, monkeypatch):  # noqa: F811
    monkeypatch.setenv("WORLD_SIZE", "2")  # a share has the rank already
    share = robocache.EpisodeCache.load(stores / "rows.zarr", share=(1, 2))
    options = {"period_ns": 7 * MS, "batch_size": 4}
    with pytest.raises(ValueError, match="rank: expected none"):
        robocache.WindowSampler.of(share, rank=1, world=2, **options)
    sampler = robocache.WindowSampler.of(share, **options)
    fewer = robocache.WindowSampler.of(share, batches=3, **options)
    assert len(sampler) > len(fewer) == 3
    assert (fewer.batch(1, 2)[1] == sampler.batch(1, 2)[1]).all()
    with pytest.raises(IndexError):
        fewer.batch(0, 3)
    with pytest.raises(ValueError, match="batches: expected 1 to"):
        robocache.WindowSampler.of(share, batches=len(sampler) + 1, **options)


def test_one_load_never_has_rows_of_two_stores(stores, tmp_path):  # noqa: F811
    """A replay that is done puts a new store in the place of the old one, while another program reads that."""
    store, new = tmp_path / "rows.zarr", tmp_path / "rows.zarr.partial"
    shutil.copytree(stores / "rows.zarr", store)
    shutil.copytree(stores / "rows.zarr", new)
    # A reader of this file waits until a process writes it.
    (gate,) = (store / "streams/arm/0/rows").glob("zarr.json")
    text = gate.read_text()
    gate.unlink()
    os.mkfifo(gate)

    def replace():
        with gate.open("w") as file:  # it opens when the load is here
            store.rename(tmp_path / "rows.zarr.old")
            new.rename(store)
            file.write(text)

    # If the load does not come, nobody waits for this thread.
    replay = threading.Thread(target=replace, daemon=True)
    replay.start()
    with pytest.raises(ValueError, match=r"rows.zarr: expected one store, found that a replay"):
        robocache.EpisodeCache.load(store)
    replay.join()
    assert robocache.EpisodeCache.load(store).episodes


def test_episodes_chosen_of_another_store_are_told(stores, tmp_path):  # noqa: F811
    """Between the count of the episodes and the load, a replay may put a store of other episodes there."""
    count = len(robocache.EpisodeCache.load(stores / "rows.zarr").episodes)
    native = robocache._native.Episodes
    said = (
        f"episodes: expected {count + 1}, as when they were chosen, found {count}; load them again"
    )
    with pytest.raises(ValueError, match=said):
        native.of_store(stores / "rows.zarr", None, None, [0], count + 1)
    with pytest.raises(ValueError, match=said):
        native.convert(stores / "rows.zarr", tmp_path / "folder", None, None, [0], count + 1)
    robocache.EpisodeCache.load(stores / "rows.zarr").save(tmp_path / "saved")
    with pytest.raises(ValueError, match=said):
        native.open(tmp_path / "saved", False, [0], count + 1)
    assert native.open(tmp_path / "saved", False, [0], count)


def test_the_time_to_open_a_folder_grows_with_its_episodes_and_not_their_square(tmp_path):
    seconds = {}
    for count in (2_500, 40_000):
        state = {"rows": np.zeros((count, 1), np.float32), "stamp_ns": np.zeros(count, np.int64)}
        saved = tmp_path / f"{count}"
        robocache.EpisodeCache.from_arrays({"state": state}, [1] * count).save(saved)
        options = [{}, {"episodes": slice(0, None, 2)}]
        for at, option in enumerate(options):
            took = []
            for _ in range(3):
                begun = time.process_time()
                robocache.EpisodeCache.load(saved, **option)
                took.append(time.process_time() - begun)
            seconds[at, count] = min(took)
    for at in range(2):
        # 16 times as many: about 16 times as long, or 256 times.
        assert seconds[at, 40_000] < 100 * seconds[at, 2_500], seconds


def test_statistics_are_of_the_episodes_that_are_named(tmp_path):
    lengths = [30, 1, 0, 50]
    rows = np.random.default_rng(3).normal(size=(81, 2)).astype(np.float32)
    stamps = np.concatenate([np.arange(length) for length in lengths]) * MS
    state = {"rows": rows, "stamp_ns": stamps}
    made = robocache.EpisodeCache.from_arrays({"state": state}, lengths)
    made.save(tmp_path / "saved")
    for cache in (made, robocache.EpisodeCache.load(tmp_path / "saved")):  # noqa: F402
        for episodes, expected in (
            (slice(None, -1), rows[:31]),
            ([0, 3], np.concatenate([rows[:30], rows[31:]])),
            (np.array([1]), rows[30:31]),
            ((1, 3), rows[[30, *range(31, 81)]]),
            (["000001", "000003"], rows[[30, *range(31, 81)]]),
            (None, rows),
        ):
            told = cache.statistics(episodes=episodes)["state"]
            assert told["count"].tolist() == [len(expected)] * 2
            np.testing.assert_allclose(told["mean"], expected.mean(axis=0, dtype="f8"), atol=1e-9)
            np.testing.assert_allclose(told["std"], expected.std(axis=0, dtype="f8"), atol=1e-9)
            assert (told["max"] == expected.max(axis=0)).all()
        with pytest.raises(ValueError, match="episodes: expected numbers from 0 to 3, found 4"):
            cache.statistics(episodes=[4])
    # Of those that were loaded, by their numbers in the cache.
    part = robocache.EpisodeCache.load(tmp_path / "saved", episodes=[1, 3])
    assert part.statistics(episodes=[1])["state"]["count"].tolist() == [50, 50]


def test_the_step_whose_angles_stay_is_named(cache):  # noqa: F811
    offsets = [-40 * MS, -20 * MS, 0]
    with pytest.raises(ValueError, match="present of 'angles': expected the number of the step"):
        cache.plan({"angles": {"offsets_ns": offsets}})
    with pytest.raises(ValueError, match="present of 'angles': expected a step of 3, found 3"):
        cache.plan({"angles": {"offsets_ns": offsets, "present": 3}})
    with pytest.raises(ValueError, match="expected offsets_ns beside it"):
        cache.plan({"angles": {"present": 1}})
    at = cache.episodes[0]["spans"][0][1] + np.arange(200, 900, 13) * MS
    named = {"angles": {"offsets_ns": offsets, "present": 1}}
    usual = {
        "angles": {
            "history": {"steps": 2, "step_ms": 20},
            "horizon": {"steps": 2, "step_ms": 20},
            "lag_ms": 20,
        }
    }
    numbers = np.zeros(len(at), np.int64)
    assert parts(cache.windows(numbers, at, named)) == parts(cache.windows(numbers, at, usual))


def test_a_cache_that_each_worker_would_load_again_says_so(stores, tmp_path, monkeypatch):  # noqa: F811
    """Python 3.14 starts workers by `forkserver`: they get the cache by its pickle."""
    monkeypatch.setattr("robocache.training.cache._HELD_BYTES", 1000)
    load = robocache.EpisodeCache.load
    with pytest.warns(RuntimeWarning, match=r"loads its \d+.\d GB again: load it with compressed"):
        pickle.dumps(load(stores / "rows.zarr"))
    load(stores / "rows.zarr").save(tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(load(tmp_path / "saved", share=(1, 2))))
        monkeypatch.undo()  # what is small is loaded again without a word
        pickle.dumps(load(stores / "rows.zarr"))
    assert again.share == (1, 2) and len(again.episodes) == 1
