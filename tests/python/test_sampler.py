"""The sampler's order is a pure function of seed and epoch, shared by ranks without overlap or loss."""

import numpy as np
import pytest

from robocache.sampler import WindowSampler

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


def test_weights_are_chances_of_episodes():
    weighted = WindowSampler(
        [[0, 99], [0, -1], [0, 999], [0, 0]], period_ns=1, batch_size=1000, weights=[3, 5, 1, 0]
    )
    episodes, instants, _ = weighted.at(0, np.arange(200_000))
    assert set(episodes.tolist()) == {0, 2}
    assert abs((episodes == 0).mean() - 0.75) < 0.01
    assert (
        abs(instants[episodes == 0].mean() - 49.5) < 1
        and abs(instants[episodes == 2].mean() - 499.5) < 10
    )
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
        ({"batch_size": 60, "world": 2}, "expected 120 items or more for a batch of each rank"),
        (
            {"batch_size": 60, "rank": 2, "world": 3, "drop_last": False},
            "expected more than 120 items for a batch of rank 2, found 111",
        ),
    ],
)
def test_bad_arguments_are_told(options, message):
    with pytest.raises(ValueError, match=message):
        sampler(**options)


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
    episodes, instants, epochs = weighted.at(0, np.arange(100_000))
    assert abs((episodes == 0).mean() - 0.5) < 0.01
    assert abs((epochs[episodes == 0] == 5).mean() - 0.9) < 0.01
    assert set(instants[epochs == 5].tolist()) == set(range(100, 190))


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
