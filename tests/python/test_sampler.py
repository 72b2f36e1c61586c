"""The sampler's order is a pure function of seed and epoch, shared by ranks without overlap or loss."""

import numpy as np
import pytest

from robocache.training.sampler import WindowSampler

RANGES = [[0, 90], [1000, 990], [500, 1490], [7, 7]]
ITEMS = [(0, at) for at in range(0, 91, 10)]
ITEMS += [(2, at) for at in range(500, 1491, 10)] + [(3, 7)]


def sampler(**options):
    return WindowSampler(RANGES, **{"period_ns": 10, "batch_size": 4, "seed": 3, **options})


def drawn(sampler, epoch):
    batches = [sampler.batch(epoch, number) for number in range(len(sampler))]
    return [
        item
        for batch in batches
        for item in zip(*(each.tolist() for each in batch if each is not None), strict=True)
    ]


def test_an_epoch_has_each_item_once_in_an_order_of_its_own():
    whole = sampler(drop_last=False)
    assert whole.items == len(ITEMS)
    epochs = [drawn(whole, epoch) for epoch in range(3)]
    assert all(sorted(epoch) == sorted(ITEMS) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] and epochs[0] != ITEMS
    assert drawn(sampler(drop_last=False), 1) == epochs[1]
    assert drawn(sampler(drop_last=False, seed=4), 1) != epochs[1]
    assert drawn(sampler(drop_last=False, shuffle=False), 1) == ITEMS


@pytest.mark.parametrize("count", [*range(1, 40), 1000, 4095, 4096, 4097, 100_000])
def test_every_size_is_permuted(count):
    big = WindowSampler([[0, count - 1]], period_ns=1, batch_size=1)
    _, instants, _ = big.at(0, np.arange(count))
    assert (np.sort(instants) == np.arange(count)).all()
    if count > 900:
        # As of a random order: neighbours are a third of the range apart, and no item prefers its place.
        assert abs(np.abs(np.diff(instants)).mean() / count - 1 / 3) < 0.05
        assert (instants == np.arange(count)).sum() < 10
        assert abs(np.corrcoef(instants, np.arange(count))[0, 1]) < 0.1


@pytest.mark.parametrize("world", [2, 3, 5])
@pytest.mark.parametrize("drop_last", [True, False])
def test_ranks_share_an_epoch(world, drop_last):
    ranks = [sampler(rank=rank, world=world, drop_last=drop_last) for rank in range(world)]
    parts = [drawn(rank, 2) for rank in ranks]
    together = [item for part in parts for item in part]
    assert len(set(together)) == len(together)
    if drop_last:
        assert len({len(rank) for rank in ranks}) == 1 and len(together) > len(ITEMS) - 4 * world
    else:
        assert sorted(together) == sorted(ITEMS)
    # Rank by rank they are the batches of one.
    alone = sampler(drop_last=drop_last)
    first = [rank.batch(2, 0) for rank in ranks]
    for number, (episodes, instants, _) in enumerate(first):
        expected = alone.batch(2, number)
        assert (episodes == expected[0]).all() and (instants == expected[1]).all()


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize(("before", "after"), [(4, 4), (4, 3), (2, 5), (3, 1), (1, 4)])
def test_other_ranks_go_on_behind_the_batches_that_were_made(before, after, drop_last):
    order = [sampler(drop_last=False).batch(2, number)[1].tolist() for number in range(28)]
    for rounds in range(3):
        done = rounds * before
        number, offset = divmod(done, after)
        ranks = [sampler(rank=rank, world=after, drop_last=drop_last) for rank in range(after)]
        made = {}
        for rank, own in enumerate(ranks):
            for at in range(number, own.count(offset)):
                made[offset + at * after + rank] = own.batch(2, at, offset)[1].tolist()
        assert sorted(made) == list(range(done, done + len(made)))
        assert all(order[at] == items for at, items in made.items())
        assert len(order) - done - len(made) in (range(after + 1) if drop_last else [0])
        if drop_last:
            assert len({own.count(offset) for own in ranks}) == 1


def test_weights_are_chances_of_episodes():
    weighted = WindowSampler(
        [[0, 99], [0, -1], [0, 999], [0, 0]], period_ns=1, batch_size=1000, weights=[3, 5, 1, 0]
    )
    assert weighted.items == 1100  # those of the episodes with a weight
    episodes, instants, _ = weighted.at(0, np.arange(1100))
    assert (episodes == 0).sum() == 825 and (episodes == 2).sum() == 275
    # The 100 items of the one come 8 or 9 times; of the 1,000 of the other, 275 once.
    assert set(np.bincount(instants[episodes == 0]).tolist()) == {8, 9}
    assert len(set(instants[episodes == 2].tolist())) == 275
    assert abs(instants[episodes == 2].mean() - 499.5) < 10
    # Neighbours of the order are no neighbours of the episode.
    assert abs(np.corrcoef(episodes[1:], episodes[:-1])[0, 1]) < 0.1
    # Over many epochs each item comes as often.
    came = np.zeros(1000)
    for epoch in range(400):
        episodes, instants, _ = weighted.at(epoch, np.arange(1100))
        assert abs((episodes == 0).sum() - 825) <= 1
        came += np.bincount(instants[episodes == 2], minlength=1000)
    assert abs(came.mean() - 110) < 1 and came.std() < 20
    assert (weighted.batch(0, 0)[1] == weighted.at(0, np.arange(1000))[1]).all()
    assert (weighted.at(1, np.arange(1000))[1] != weighted.at(0, np.arange(1000))[1]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "world": 2}, "rank: expected 0 to 1"),
        ({"batch_size": 0}, "at least 1"),
        ({"period_ns": 0}, "at least 1"),
        ({"weights": [1, 2]}, "weights: expected 4 numbers"),
        ({"weights": [1, 1, float("nan"), 1]}, "weights"),
        ({"weights": [0, 1, 0, 0]}, "more than 0"),
        ({"weights": [1, 1, 1, 1], "shuffle": False}, "without shuffle"),
        ({"epochs": [0, 1]}, "epochs: expected 4 numbers, found 2"),
        ({"episodes": [0, 1, 3, 2]}, "episodes: expected numbers that do not decrease"),
        (
            {"batch_size": 112},
            "batch_size: expected 112 items or more .* found 111: give a smaller",
        ),
        (
            {"batch_size": 60, "rank": 0, "world": 2},
            "expected 120 items or more for a batch of each rank",
        ),
        (
            {"batch_size": 60, "rank": 2, "world": 3, "drop_last": False},
            "expected more than 120 items for a batch of rank 2, found 111",
        ),
    ],
)
def test_bad_arguments_are_told(options, message):
    with pytest.raises(ValueError, match=message):
        sampler(**options)


def test_several_processes_do_not_draw_the_same_batches(monkeypatch):
    """A sampler takes no rank from torchrun: each process would take rank 0 for its own."""
    monkeypatch.setenv("WORLD_SIZE", "8")
    alone = sampler()
    assert alone.items == len(ITEMS) and len(alone.at(0, np.arange(5))[0]) == 5  # no rank is needed
    with pytest.raises(ValueError, match="rank: expected rank and world, because 8 processes"):
        alone.batch(0, 0)
    sampler(rank=0, world=1).batch(0, 0)  # if all are to have the same
    sampler(rank=7, world=8, drop_last=False, batch_size=1).batch(0, 0)
    for told in ("1", ""):
        monkeypatch.setenv("WORLD_SIZE", told)
        alone.batch(0, 0)


def test_a_rank_is_given_with_their_number():
    for given in ({"rank": 0}, {"world": 2}):
        with pytest.raises(ValueError, match="rank: expected rank and world together"):
            sampler(**given)


def test_batches_that_are_not_there_are_told():
    with pytest.raises(IndexError, match="expected 0 to"):
        sampler().batch(0, len(sampler()))
    with pytest.raises(ValueError, match="found none"):
        WindowSampler([[5, 0]], period_ns=1, batch_size=1)


def test_all_epochs_of_an_episode_are_sampled():
    pytest.importorskip("robocache._native")
    import random_episodes

    several = 0
    for seed in range(20):
        cache = random_episodes.episodes(seed)
        expected = [
            (number, at, epoch)
            for number, about in enumerate(cache.episodes)
            for epoch, begin, end in about["spans"]
            if begin <= end
            for at in range(-(-begin // 7_000_000) * 7_000_000, end + 1, 7_000_000)
        ]
        several += any(epoch for *_, epoch in expected)
        options = {"period_ns": 7_000_000, "batch_size": 8, "drop_last": False}
        whole = WindowSampler.of(cache, **options)
        assert sorted(drawn(whole, 0)) == sorted(expected)
        weights = np.arange(1, len(cache.episodes) + 1)
        assert set(drawn(WindowSampler.of(cache, weights=weights, **options), 0)) <= set(expected)
        # The batch is what windows take.
        episodes, instants_ns, epochs = whole.batch(0, 0)
        cache.windows(episodes, instants_ns, epochs=epochs)
    assert several > 3


def test_one_row_at_zero_is_an_epoch():
    robocache = pytest.importorskip("robocache")
    state = {"rows": np.zeros((1, 1), np.float32), "stamp_ns": np.zeros(1, np.int64)}
    streams, lengths = {"state": state}, {"state": [1, 0]}
    cache = robocache.EpisodeCache.from_arrays(streams, lengths)
    sampler = WindowSampler.of(cache, period_ns=10, batch_size=1)
    assert sampler.items == 1 and drawn(sampler, 0) == [(0, 0, 0)]


def test_weights_of_an_episode_are_those_of_all_its_epochs():
    ranges = [[0, 9], [100, 189], [0, 9]]
    options = {"period_ns": 1, "batch_size": 1000, "drop_last": False}
    weighted = WindowSampler(
        ranges, episodes=[0, 0, 1], epochs=[4, 5, 4], weights=[1, 1], **options
    )
    episodes, instants, epochs = weighted.at(0, np.arange(110))
    assert (episodes == 0).sum() == 55
    assert abs((epochs[episodes == 0] == 5).mean() - 0.9) < 0.05
    of_epochs = [weighted.at(epoch, np.arange(110)) for epoch in range(30)]
    instants, epochs = (np.concatenate([own[at] for own in of_epochs]) for at in (1, 2))
    assert set(instants[epochs == 5].tolist()) == set(range(100, 190))


def test_weights_of_zero_and_one_draw_each_item_once():
    """Half of the episodes train: no item comes twice, and none of the others comes."""
    ranges = [[0, 49]] * 10
    weights = [1, 0] * 5
    options = {"period_ns": 1, "batch_size": 25, "weights": weights}
    train = WindowSampler(ranges, **options)
    assert train.items == 250 and len(train) == 10
    for epoch in range(3):
        items = drawn(train, epoch)
        assert sorted(items) == [(e, at) for e in range(0, 10, 2) for at in range(50)]
    ranks = [drawn(WindowSampler(ranges, rank=rank, world=2, **options), 0) for rank in range(2)]
    assert not set(ranks[0]) & set(ranks[1]) and len(ranks[0]) == len(ranks[1]) == 125


def of_frames(lengths=(20, 12, 15), **options):
    robocache = pytest.importorskip("robocache")
    pytest.importorskip("robocache._native")
    period = 33_333_333
    stamps = np.concatenate([np.arange(count) * period for count in lengths])
    late = [stamps[at : at + count] for at, count in zip(np.cumsum([0, *lengths]), lengths)]
    late = [own[3:-2] for own in late]
    streams = {
        "state": {"rows": np.zeros((sum(lengths), 1), np.float32), "stamp_ns": stamps},
        "late": {
            "rows": np.zeros((sum(map(len, late)), 1), np.float32),
            "stamp_ns": np.concatenate(late),
        },
    }
    counts = {"state": list(lengths), "late": [len(own) for own in late]}
    names = ["a", "b", "c"][: len(lengths)]
    return robocache.EpisodeCache.from_arrays(streams, counts, episodes=names, rate_hz=30)


def test_a_sampler_of_a_cache_has_its_frames():
    cache = of_frames()
    assert cache.period_ns == 33_333_333
    sampler = WindowSampler.of(cache, batch_size=1)
    assert sampler.items == 47 and sampler.period_ns == 33_333_333
    assert repr(sampler) == "WindowSampler(47 items each 33333333 ns, 47 batches of 1)"
    train = WindowSampler.of(cache, batch_size=1, episodes=slice(2))
    test = WindowSampler.of(cache, batch_size=1, episodes=["c"])
    assert (train.items, test.items) == (32, 15)
    assert {episode for episode, *_ in drawn(test, 0)} == {2}
    # Weights are by the number in the cache.
    both = WindowSampler.of(cache, batch_size=1, episodes=slice(2), weights=[0, 1, 1])
    assert {episode for episode, *_ in drawn(both, 0)} == {1} and both.items == 12
    margin = WindowSampler.of(cache, batch_size=1, margin_ns=cache.period_ns)
    assert margin.items == 47 - 2 * 3
    # Three frames at the begin of each episode lack the stream, and two at the end.
    whole = WindowSampler.of(cache, batch_size=1, valid_only=["late"])
    items = drawn(whole, 0)
    assert len(items) == 47 - 5 * 3
    episodes, instants, epochs = (np.array(each) for each in zip(*items, strict=True))
    assert cache.windows(episodes, instants, epochs=epochs)["late"].valid.all()


def test_episodes_without_a_valid_instant_are_told():
    """The stream has a row in no frame of `b`."""
    robocache = pytest.importorskip("robocache")
    pytest.importorskip("robocache._native")
    frames = {"a": 20, "b": 12}
    values = np.arange(32, dtype=np.float32)[:, None]
    stamps = np.concatenate([np.arange(count) + 1 for count in frames.values()]) * 33_333_333
    streams = {
        "state": {"rows": values, "stamp_ns": stamps},
        "camera": {"rows": values[:20], "stamp_ns": stamps[:20]},
    }
    counts = {"state": [20, 12], "camera": [20, 0]}
    cache = robocache.EpisodeCache.from_arrays(streams, counts, episodes=list(frames), rate_hz=30)
    with pytest.warns(RuntimeWarning, match="valid_only: 1 of 2 episodes have no instant.* 'b'"):
        sampler = WindowSampler.of(cache, batch_size=1, valid_only=["state", "camera"])
    assert {episode for episode, *_ in drawn(sampler, 0)} == {0}
    with pytest.raises(ValueError, match="valid_only: 1 of 1 episodes have no instant"):
        WindowSampler.of(cache, batch_size=1, valid_only=["camera"], episodes=["b"])
    # Of rows between two instants of the grid, none is at one.
    streams = {
        "state": streams["state"],
        "camera": {"rows": values[:2], "stamp_ns": [40_000_000, 60_000_000]},
    }
    cache = robocache.EpisodeCache.from_arrays(
        streams, {"state": [20, 12], "camera": [2, 0]}, episodes=list(frames), rate_hz=30
    )
    with pytest.raises(ValueError, match="valid_only: 2 of 2 episodes have no instant"):
        WindowSampler.of(cache, batch_size=1, valid_only=["state", "camera"])


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [
        (TypeError, {"margin_ns": (1, 2, 3)}, "margin_ns: expected nanoseconds, or a pair"),
        (TypeError, {"margin_ns": "1"}, "margin_ns: expected nanoseconds, or a pair"),
        (TypeError, {"weights": {"a": 1}}, "weights: expected 3 numbers, found {'a': 1}"),
        (ValueError, {"weights": [1]}, "weights: expected 3 numbers"),
        (ValueError, {"period_ns": 0.5}, "period_ns: expected a whole number of at least 1"),
        (ValueError, {"period_ns": 0}, "period_ns: expected a whole number of at least 1"),
        (ValueError, {"episodes": [3]}, "episodes: expected numbers from 0 to 2, found 3"),
        (ValueError, {"episodes": ["d"]}, "episodes: expected names of a, b, c, found 'd'"),
        (ValueError, {"valid_only": ["nothing"]}, "stream: expected one of late, state"),
        (TypeError, {"valid_only": "late"}, "valid_only: expected a list of streams"),
        (TypeError, {"batchsize": 4}, "batchsize"),
    ],
)
def test_a_sampler_of_a_cache_names_what_is_wrong(error, options, message):
    with pytest.raises(error, match=message):
        WindowSampler.of(of_frames(), **{"batch_size": 1, **options})


@pytest.mark.parametrize("place", [(-1, 0), (0, -1), (0, 47)])
def test_no_batch_has_a_negative_number(place):
    with pytest.raises(IndexError, match="expected 0"):
        WindowSampler.of(of_frames(), batch_size=1).batch(*place)


def test_the_text_of_an_order_is_short_and_quick():
    """76,000 episodes, as DROID has: the state of a training is made for every batch."""
    ranges = np.stack([np.arange(76_000) * 1000, np.arange(76_000) * 1000 + 300], axis=1)
    sampler = WindowSampler(ranges, period_ns=1, batch_size=64)
    assert len(sampler.described()) < 100
    other = ranges.copy()
    other[5, 0] += 1
    assert WindowSampler(other, period_ns=1, batch_size=64).described() != sampler.described()
    assert WindowSampler(ranges, period_ns=1, batch_size=64).described() == sampler.described()


def test_a_sampler_without_items_says_why():
    robocache = pytest.importorskip("robocache")
    state = {"rows": np.zeros((51, 1), np.float32), "stamp_ns": np.arange(51) * 10_000_000}
    cache = robocache.EpisodeCache.from_arrays({"state": state}, [51])
    options = {"period_ns": 10_000_000, "batch_size": 4}
    why = "margin_ns: expected an epoch of 1300000000 ns or more, found 500000000 ns at most"
    with pytest.raises(ValueError, match=why):
        WindowSampler.of(cache, margin_ns=(300_000_000, 1_000_000_000), **options)
    with pytest.raises(ValueError, match="batch_size: expected 52 items .* found 51"):
        WindowSampler.of(cache, **{**options, "batch_size": 52})


def test_a_flag_is_no_word():
    for name in ("drop_last", "shuffle"):
        with pytest.raises(TypeError, match=f"{name}: expected True or False, found 'no'"):
            sampler(**{name: "no"})
