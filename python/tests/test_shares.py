"""Parts of a store: only their rows are read, and their windows are those of the whole; stores that go to files."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from bags import MS
from random_episodes import parts
from test_cache import cache, stores  # noqa: F401 (fixtures)

import robocache

PROCESS = """
import json, sys
import robocache
from random_episodes import parts

path, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cache = robocache.EpisodeCache.load(path, episodes=(rank, world))
sampler = robocache.WindowSampler.of(cache, period_ns=7_000_000, batch_size=5, seed=3, drop_last=False)
items = [sampler.batch(0, number) for number in range(len(sampler))]
windows = cache.windows(*items[0], rows="strict")
print(json.dumps({
    "names": [about["name"] for about in cache.episodes],
    "rows": {name: cache.size(name)[0] for name in cache.streams},
    "items": [[int(e) * world + rank, int(at)] for batch in items for e, at in zip(*batch)],
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
    found = [json.loads(rank.communicate()[0]) for rank in ranks]
    names = [about["name"] for about in cache.episodes]
    assert [own["names"] for own in found] == [names[0::2], names[1::2]]
    for name in cache.streams:
        rows = [own["rows"][name] for own in found]
        assert sum(rows) == cache.size(name)[0] and all(rows), name
    sampler = robocache.WindowSampler.of(cache, period_ns=7 * MS, batch_size=1)
    every = sorted(
        (int(e[0]), int(at[0])) for e, at in (sampler.batch(0, n) for n in range(len(sampler)))
    )
    items = [tuple(item) for own in found for item in own["items"]]
    assert sorted(items) == every
    for own in found:
        episodes, instants = np.array(own["items"][:5]).T
        whole = parts(cache.windows(episodes, instants, rows="strict"))
        assert {f"{name} {part}": value.hex() for (name, part), value in whole.items()} == own[
            "first"
        ]


def test_a_store_goes_to_files_without_its_rows_in_memory(stores, cache, tmp_path):  # noqa: F811
    store = stores / "rows.zarr"
    made = robocache.EpisodeCache.convert(store, tmp_path / "all")
    cache.save(tmp_path / "saved")
    saved = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "all").iterdir()} == saved
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
    ("episodes", "message"),
    [
        ([2], "episodes: expected numbers from 0 to 1, found 2"),
        ([1, 0], "episodes: expected numbers that increase, found 0 after 1"),
        ([0, 0], "expected numbers that increase"),
        ([-1], "episodes: expected numbers of 0 or more, found -1"),
        ((2, 2), r"expected \(rank, world\)"),
        ((0, 1, 2), r"expected \(rank, world\)"),
    ],
)
def test_wrong_shares_are_told(stores, episodes, message):  # noqa: F811
    with pytest.raises(ValueError, match=message):
        robocache.EpisodeCache.load(stores / "rows.zarr", episodes=episodes)


def test_a_share_is_sampled_as_it_is(stores):  # noqa: F811
    share = robocache.EpisodeCache.load(stores / "rows.zarr", episodes=(1, 2))
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
