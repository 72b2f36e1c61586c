"""Which episodes and frames a training has, and the texts and tokens of an episode."""

import json

import numpy as np
import pytest

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)

import robocache
from robocache import _native
from robocache.training.selection import Columns

PERIOD = 50_000_000
LENGTHS = [10, 6, 8]


def mark(name, value):
    return {"at_ns": 0, "name": name, "value": value}


EPISODES = [
    {"name": "a", "task": "pick", "marks": [mark("success", "no"), mark("success", "true")]},
    {"name": "b", "task": "place", "marks": [mark("success", "true"), mark("success", "0")]},
    {
        "name": "c",
        "task": "pick",
        "tasks": [{"begin_ns": 0, "task": "pick"}, {"begin_ns": 9, "task": "place"}],
    },
]


def cache_of(offset_ns=0):
    frames = np.concatenate([np.arange(n) for n in LENGTHS])
    streams = {
        "state": {
            "rows": np.stack([frames, frames], -1).astype(np.float32),
            "stamp_ns": (frames + 1) * PERIOD + offset_ns,
        },
        "success": {
            "rows": (frames[:, None] == 7).astype(np.float32),
            "stamp_ns": (frames + 1) * PERIOD + offset_ns,
            "strategy": "hold",
        },
    }
    return robocache.EpisodeCache.from_arrays(streams, LENGTHS, episodes=EPISODES, rate_hz=20)


@pytest.fixture(scope="module")
def cache():
    return cache_of()


def test_episodes_are_selected_by_what_is_known_of_them(cache):
    assert cache.select() == ["a", "b", "c"]
    assert cache.select(tasks="pick") == ["a", "c"]
    assert cache.select(tasks=["place"]) == ["b", "c"]
    assert cache.select(marks={"success": True}) == ["a"]
    assert cache.select(marks={"success": 0}) == ["b"]
    assert cache.select(last={"success": 1}) == ["c"]
    assert cache.select(tasks="pick", where=lambda about: about["name"] != "a") == ["c"]
    sampler = robocache.WindowSampler.of(
        cache, batch_size=1, shuffle=False, episodes=cache.select(tasks="place")
    )
    assert sampler.items == 6 + 8


def test_the_last_value_is_not_that_of_a_history():
    rows = np.array([[0], [0], [1]], np.float32)
    stream = {"rows": rows, "stamp_ns": (np.arange(3) + 1) * PERIOD, "history": {"steps": 3}}
    cache = robocache.EpisodeCache.from_arrays({"success": stream}, [3], rate_hz=20)
    assert cache.select(last={"success": 1}) == [cache.episodes[0]["name"]]


def test_the_last_value_may_be_old():
    """A topic that says once how the episode went."""
    frames = np.arange(100)
    streams = {
        "state": {"rows": np.zeros((100, 1), np.float32), "stamp_ns": (frames + 1) * PERIOD},
        "success": {
            "rows": np.ones((1, 1), np.float32),
            "stamp_ns": np.array([PERIOD]),
            "max_age_ms": 100,
        },
    }
    counts = {"state": [100, 0], "success": [1, 0]}
    cache = robocache.EpisodeCache.from_arrays(streams, counts, episodes=["a", "b"], rate_hz=20)
    assert cache.select(last={"success": 1}) == ["a"]


def test_the_last_value_is_of_the_last_epoch():
    """The clock of a simulator began again: its second run ends at an earlier instant, and failed."""
    stamps = np.concatenate([np.arange(1, 11), np.arange(1, 4)]) * PERIOD
    values = np.array([0] * 9 + [1] + [0] * 3, np.float32)[:, None]
    channel = {"name": "done", "lane": "linear"}
    means = {
        "name": "success",
        "row_shape": [1],
        "coordinates_shape": None,
        "dtype": "f32",
        "row_dtypes": ["f32"],
        "vector": {"channels": [channel], "groups": [{"channels": [0]}]},
        "channels": ["done"],
        "target_offsets_ns": [0],
        "present": 0,
        "strategy": "hold",
        "max_age_ns": PERIOD,
        "max_gap_ns": PERIOD,
        "fill": "zero",
        "plans": False,
        "max_age_ns_of_inputs": None,
        "valid_when": "all",
    }
    columns = {
        "rows": values,
        "stamp_ns": stamps,
        "received_ns": stamps,
        "left_ns": np.full(13, np.iinfo(np.int64).max),
        "replaced": np.zeros(13, bool),
        "epoch": np.array([0] * 10 + [1] * 3, np.int64),
        "episode_ends": np.array([13], np.int64),
    }
    text = json.dumps({"episodes": [{"name": "a"}], "streams": [means]})
    cache = robocache.EpisodeCache(_native.Episodes.of_columns(text, [[columns]]))
    assert len(cache.episodes[0]["spans"]) == 2
    assert cache.select(last={"success": 0}) == ["a"]
    assert cache.select(last={"success": 1}) == []


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"tasks": "push"}, "tasks: expected some of 'pick', 'place', found 'push'"),
        ({"marks": {"grip": 1}}, "marks: expected one of success, found 'grip'"),
        ({"last": {"reward": 1}}, "last: expected streams of state, success, found 'reward'"),
    ],
)
def test_a_selection_of_what_is_not_there_is_an_error(cache, asked, sentence):
    with pytest.raises(ValueError, match=sentence):
        cache.select(**asked)


def frames_of(cache, **options):
    sampler = robocache.WindowSampler.of(cache, batch_size=1, shuffle=False, **options)
    episodes, instants, _ = sampler.at(0, np.arange(sampler.items))
    return list(zip(episodes.tolist(), (instants // PERIOD - 1).tolist(), strict=True))


def test_ranges_of_frames_are_kept(cache):
    keep = {"a": [(2, 4), (7, 30)], "c": np.array([[0, 1]])}
    expected = [(0, 2), (0, 3), (0, 7), (0, 8), (0, 9), (2, 0)]
    assert frames_of(cache, keep=keep) == expected
    assert frames_of(cache, keep=keep, margin_ns=(PERIOD, PERIOD)) == expected[:4]
    assert frames_of(cache, keep=keep, episodes=["a"]) == expected[:5]
    weighted = robocache.WindowSampler.of(cache, batch_size=1, keep=keep, weights=[0, 1, 1])
    assert weighted.items == 1 and weighted.batch(0, 0)[0].tolist() == [2]
    with pytest.raises(ValueError, match="keep: expected names of episodes, found 'd'"):
        frames_of(cache, keep={"d": []})
    with pytest.raises(ValueError, match=r"keep of 'a': expected increasing ranges"):
        frames_of(cache, keep={"a": [(4, 2)]})


@pytest.mark.parametrize("grid", [True, False])
def test_ranges_of_frames_off_the_grid_are_kept(grid):
    """The instant of a frame is the next one on the grid."""
    cache = cache_of(offset_ns=123)
    found = frames_of(cache, keep={"a": [(2, 4), (6, 7)]}, grid=grid)
    assert found == [(0, frame + grid) for frame in (2, 3, 6)]
    assert frames_of(cache, keep={"a": [(2, 2)], "b": [(0, 1)]}, grid=grid) == [(1, grid)]


def test_an_episode_that_is_left_out_stays_so(cache):
    """Also if instants begin before the first row, and end after the last."""
    keep = {"a": [(0, 2)], "b": [(0, 2)]}
    margin = (-5 * PERIOD, -5 * PERIOD)
    stamps = np.concatenate([np.arange(n) for n in LENGTHS]) * PERIOD
    state = {"rows": np.zeros((sum(LENGTHS), 1), np.float32), "stamp_ns": stamps}
    cache = robocache.EpisodeCache.from_arrays(
        {"state": state}, LENGTHS, episodes=EPISODES, rate_hz=20
    )
    found = frames_of(cache, keep=keep, episodes=["b"], margin_ns=margin)
    assert {episode for episode, _ in found} == {1}


@pytest.mark.parametrize("entry", [[1, 2, 3], (np.int64(4), np.int64(5))])
def test_a_list_of_tokens_is_an_error(cache, entry):
    """A window would draw one of them."""
    sentence = "columns: expected a list of texts or of arrays in 'tokens', found one of numbers"
    with pytest.raises(ValueError, match=sentence):
        Columns(cache, {"tokens": [entry] * 3})
    assert len(Columns(cache, {"tokens": [[np.array(entry)]] * 3}).of(np.zeros(2, int), [0])) == 1


def test_columns_have_an_entry_of_each_episode(cache):
    prompts = [["pick it", "take it"], ["place it"], ["pick it up", "lift it"]]
    tokens = [[[1, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10]]]
    embedding = np.arange(6, dtype=np.float32).reshape(3, 2)
    columns = Columns(
        cache,
        {
            "prompt": prompts,
            "tokens": [[np.array(each) for each in of] for of in tokens],
            "embedding": embedding,
            "name": ["a", "b", "c"],
        },
    )
    episodes = np.array([0, 1, 2] * 40)
    found = columns.of(episodes, [7, 0, 3, 0])
    again = columns.of(episodes, [7, 0, 3, 0])
    assert found["prompt"] == again["prompt"] != columns.of(episodes, [7, 0, 4, 0])["prompt"]
    assert found["name"] == ["a", "b", "c"] * 40
    assert np.array_equal(found["embedding"], embedding[episodes])
    # A prompt and its tokens are drawn together.
    pairs = {
        text: numbers
        for of, own in zip(prompts, tokens, strict=True)
        for text, numbers in zip(of, own, strict=True)
    }
    drawn = zip(found["prompt"], found["tokens"].tolist(), strict=True)
    assert all(pairs[text] == numbers for text, numbers in drawn)
    assert set(found["prompt"]) == set(pairs)
    with pytest.raises(
        ValueError, match="expected 3 entries of 'prompt', one for each episode, found 2"
    ):
        Columns(cache, {"prompt": ["a", "b"]})
