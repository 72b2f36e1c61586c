"""Mixtures: several stores in one order, by weights, in any number of ranks and workers."""

import numpy as np
import pytest

pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch
from batches import expect_rank_asked_at_each_epoch

import robocache
from robocache.data import MixtureDataset
from robocache.training.mixture import MixtureSampler

PERIOD = 100_000_000
CHUNK = {"horizon": {"steps": 3}}


def cache(lengths, channels, seed, task, cameras=1):
    random = np.random.default_rng(seed)
    stamps = np.concatenate([(np.arange(n) + 1) * PERIOD for n in lengths])
    rows = sum(lengths)
    streams = {
        name: {
            "rows": random.normal(3, 2, size=(rows, channels)).astype(np.float32),
            "stamp_ns": stamps,
        }
        for name in ("state", "action")
    }
    for at in range(cameras):
        picture = random.integers(0, 256, (rows, 4, 4, 3), dtype=np.uint8)
        streams[f"image_{at}"] = {"rows": picture, "stamp_ns": stamps}
    about = [{"name": f"{task}{n}", "task": task} for n in range(len(lengths))]
    return robocache.EpisodeCache.from_arrays(streams, lengths, episodes=about, rate_hz=10)


@pytest.fixture(scope="module")
def caches():
    return {"large": cache([40, 30], 7, 1, "pick", 2), "small": cache([12], 3, 2, "fold")}


@pytest.fixture
def parts(caches):
    found = {}
    for name, of in caches.items():
        config = {"state": {}, "action": CHUNK} | {k: {} for k in of.streams if "image" in k}
        streams = {"state": "state", "action": "action", "top": "image_0"}
        if "image_1" in config:
            streams["wrist"] = "image_1"
        sampler = robocache.WindowSampler.of(of, batch_size=1, seed=5)
        found[name] = {"cache": of, "sampler": sampler, "config": config, "streams": streams}
    found["large"]["weight"], found["small"]["weight"] = 3, 1
    return found


def batches(data, workers=0):
    return list(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers))


def assert_same(one, two):
    assert len(one) == len(two) > 0
    for a, b in zip(one, two, strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(value, b[name]) for name, value in a.items())


def places(of):
    pairs = [batch["dataset"] * 10**6 + batch["episode"] * 1000 for batch in of]
    frames = [batch["instant_ns"] // PERIOD for batch in of]
    return torch.cat(pairs) + torch.cat(frames)


def test_a_batch_has_the_windows_of_its_parts(parts, caches):
    data = MixtureDataset(parts, batch_size=10, seed=3)
    assert data.tasks == ["pick", "fold"] and len(data) == 8
    for batch in batches(data):
        assert batch["state"].shape == (10, 1, 7) and batch["action"].shape == (10, 3, 7)
        for at in range(10):
            name = data.names[batch["dataset"][at]]
            items = [
                batch["episode"][at : at + 1].numpy(),
                batch["instant_ns"][at : at + 1].numpy(),
            ]
            windows = caches[name].windows(*items, parts[name]["config"])
            width = 7 if name == "large" else 3
            for key in ("state", "action"):
                assert torch.equal(batch[key][at, :, :width], windows[key].torch()[0])
                assert not batch[key][at, :, width:].any()
                assert batch[f"{key}.channels"][at].tolist() == [n < width for n in range(7)]
                assert batch[f"{key}_is_pad"][at].tolist() == windows[key].is_pad[0].tolist()
            assert torch.equal(batch["top"][at], windows["image_0"].torch()[0])
            assert bool(batch["wrist.valid"][at]) == (name == "large")
            assert data.tasks[batch["task_index"][at]] == ("pick" if name == "large" else "fold")


def test_shares_are_the_weights(parts):
    data = MixtureDataset(parts, batch_size=10, batches=300, seed=3)
    counts = np.array([[int((b["dataset"] == n).sum()) for n in (0, 1)] for b in batches(data)])
    assert (counts.sum(axis=1) == 10).all()
    assert set(counts[:, 0]) == {7, 8}
    assert abs(counts[:, 0].mean() - 7.5) < 0.1
    # Each item of a part comes once before one comes again.
    of_small = [int(place) for place in places(batches(data)) if place >= 10**6]
    rounds = [of_small[at : at + 12] for at in range(0, len(of_small) - 12, 12)]
    assert len(rounds) > 50 and all(len(set(each)) == 12 for each in rounds)
    assert rounds[0] != rounds[1]


def test_ranks_and_workers_have_the_batches_of_one(parts):
    whole = MixtureDataset(parts, batch_size=4, batches=12, seed=3)
    alone = batches(whole)
    assert_same(alone, batches(whole, workers=2))
    ranks = [
        batches(MixtureDataset(parts, batch_size=4, batches=6, seed=3, rank=rank, world=2))
        for rank in (0, 1)
    ]
    for number, batch in enumerate(alone):
        other = ranks[number % 2][number // 2]
        assert all(torch.equal(batch[key], other[key]) for key in batch if key != "number")
    whole.set_epoch(1)
    assert not torch.equal(places(batches(whole)), places(alone))


def test_a_state_goes_on_at_once(parts):
    data = MixtureDataset(parts, batch_size=4, batches=9, seed=3)
    data.set_epoch(2)
    expected = batches(data)
    state = data.state_after(expected[3])
    other = MixtureDataset(parts, batch_size=4, batches=9, seed=3)
    other.resume(state)
    other.set_epoch(2)
    assert_same(expected[4:], [{**b, "number": b["number"]} for b in batches(other)])
    reweighted = {**parts, "small": {**parts["small"], "weight": 2}}
    with pytest.raises(ValueError, match="state: expected order"):
        MixtureDataset(reweighted, batch_size=4, batches=9, seed=3).resume(state)


@pytest.mark.parametrize(("length", "world"), [(9, 3), (3, 3), (100, 1), (5, 2), (2, 2)])
def test_a_state_goes_on_with_other_epochs_and_ranks(parts, length, world):
    """22 batches are done, of 9 in an epoch: the next ones are those of the run that goes on as it was."""
    data = MixtureDataset(parts, batch_size=4, batches=9, seed=3)
    data.set_epoch(2)
    expected = batches(data)
    state = data.state_after(expected[3])
    ranks = [
        MixtureDataset(parts, batch_size=4, batches=length, seed=3, rank=rank, world=world)
        for rank in range(world)
    ]
    for each in ranks:
        each.resume(state)
    found = [next(iter(each)) for each in ranks]
    assert ranks[0].epoch == 22 // (length * world)
    for batch, other in zip(found, expected[4:], strict=False):
        assert torch.equal(places([batch]), places([other]))


def test_each_part_is_normalised_by_its_own_statistics(parts):
    for part in parts.values():
        of = part["cache"].statistics()["action"]
        normalize = {"mode": "mean_std", "stats": of}
        part["config"] = {**part["config"], "action": {**CHUNK, "normalize": normalize}}
    data = MixtureDataset(parts, batch_size=8, batches=100)
    for number, width in ((0, 7), (1, 3)):
        rows = [b["action"][b["dataset"] == number][:, 0, :width] for b in batches(data)]
        mean = torch.cat(rows).mean(0)
        assert (mean.abs() < 0.2).all()


def test_a_distant_batch_needs_no_earlier_one(parts):
    samplers = [part["sampler"] for part in parts.values()]
    sampler = MixtureSampler(samplers, [3, 1], batch_size=10, batches=10**9)
    (_, one), (_, two) = sampler.batch(0, 10**9 - 1)
    assert len(one[0]) + len(two[0]) == 10


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weight": -1}, "weight: expected numbers that are not negative"),
        ({"streams": {"top": "image_9"}}, "small: expected streams of its windows, state, action"),
        ({"config": {"state": {}, "action": {}, "image_0": {}}}, "small: expected 'action' of"),
    ],
)
def test_parts_that_do_not_fit_are_an_error(parts, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        MixtureDataset({**parts, "small": {**parts["small"], **change}}, batch_size=4)


def test_the_samplers_of_parts_have_no_ranks(parts, caches):
    shared = robocache.WindowSampler.of(caches["large"], batch_size=1, rank=0, world=2)
    with pytest.raises(ValueError, match="expected samplers of one rank"):
        MixtureDataset({"large": {**parts["large"], "sampler": shared}}, batch_size=4)


def test_a_process_of_several_says_its_rank(parts, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="rank: expected rank and world, because 2 processes"):
        MixtureDataset(parts, batch_size=4)
    MixtureDataset(parts, batch_size=4, rank=1, world=2).batch(0)  # parts need no rank


def test_a_process_of_several_is_asked_at_each_epoch(parts, monkeypatch):
    expect_rank_asked_at_each_epoch(MixtureDataset(parts, batch_size=4), monkeypatch)


def test_parts_that_are_a_share_are_this_ranks(parts, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    parts["large"]["cache"].save(tmp_path / "large")

    def mixed(*shares, **options):
        found = {}
        for name, share in zip("ab", shares, strict=False):
            cache = robocache.EpisodeCache.load(tmp_path / "large", share=share)
            ranked = {} if share else {"rank": 0, "world": 1}
            sampler = robocache.WindowSampler.of(cache, batch_size=1, seed=5, **ranked)
            config = {"state": {}, "action": CHUNK}
            found[name] = {"cache": cache, "sampler": sampler, "config": config}
        return MixtureDataset(found, batch_size=5, seed=3, **options)

    seen = []
    for rank in range(2):
        data = mixed((rank, 2), (rank, 2), batches=16)
        texts = [data.tasks, data.sampler.rank, data.sampler.world]
        assert texts == [["pick"], 0, 1]
        # All of its episode, of 40 or 30 frames, from both parts.
        own = batches(data)
        instants = {int(ns) for batch in own for ns in batch["instant_ns"]}
        assert instants == {(at + 1) * PERIOD for at in range((40, 30)[rank])}
        seen.append([batch["instant_ns"].tolist() for batch in own])
    assert seen[0] != seen[1]
    with pytest.raises(ValueError, match="rank: expected none for a cache that is a share"):
        mixed((1, 2), (1, 2), rank=1, world=2)
    for others in ((0, 2), None):
        with pytest.raises(ValueError, match="parts: expected caches of the same share, or none"):
            mixed((1, 2), others)
