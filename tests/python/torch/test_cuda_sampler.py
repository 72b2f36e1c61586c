"""`WindowSampler.to`: a GPU gives the batches of the host, one after the other, also in a CUDA graph."""

import gc

import numpy as np
import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import robocache
from robocache.training.sampler import WindowSampler

MS = 1_000_000


def random_sampler(seed):
    """A sampler of random ranges and options; None if these have no batch."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 9))
    first = random.integers(-50, 1000, count)
    ranges = np.stack([first, first + random.integers(-20, 900, count)], axis=1)
    episodes = np.sort(random.integers(0, 6, count))
    world = int(random.integers(1, 4))
    options = {
        "period_ns": int(random.integers(1, 12)),
        "batch_size": int(random.choice([1, 7, 40, 300])),
        "seed": int(random.integers(-5, 2**62)),
        "drop_last": bool(random.integers(2)),
        "epochs": random.integers(0, 3, count) if random.integers(2) else None,
        "world": world,
        "rank": int(random.integers(world)),
    }
    kind = random.integers(3)
    if kind == 0:
        options["weights"] = random.random(episodes[-1] + 1) * random.integers(
            0, 2, episodes[-1] + 1
        )
    elif kind == 1:
        options["shuffle"] = False
    try:
        return WindowSampler(ranges, episodes=episodes, **options)
    except ValueError:
        return None


def assert_batch(found, expected):
    """Checks a batch of the GPU. Returns whether it was filled up."""
    count = len(expected[0])
    for got, own in zip(found, expected, strict=True):
        assert (got is None) == (own is None)
        assert got is None or (got[:count].cpu().numpy() == own).all()
    assert (found[0][count:] == -1).all()
    return count < len(found[0])


def test_batches_are_those_of_the_host():
    batches = filled = 0
    for seed in range(300):
        sampler = random_sampler(seed)
        if sampler is None:
            continue
        order = sampler.to("cuda")
        assert len(order) == len(sampler)
        start = seed % 2 * 1_000_000 * len(sampler)
        order.seek(*divmod(start, len(sampler)))
        for at in range(start, start + min(2 * len(sampler) + 2, 12)):
            place = divmod(at, len(sampler))
            assert order.position() == place
            filled += assert_batch(order.next(), sampler.batch(*place))
            batches += 1
    assert batches > 1500 and filled > 20, (batches, filled)
    with pytest.raises(IndexError, match="batch: expected 0 to"):
        order.seek(0, len(order))


def cache_of():
    random = np.random.default_rng(1)
    stamps = np.tile(np.arange(200) * 10 * MS, 3)
    rows = random.normal(size=(600, 5)).astype(np.float32)
    arm = {"rows": rows, "stamp_ns": stamps, "history": {"steps": 4, "step_ms": 20}}
    return robocache.EpisodeCache.from_arrays({"arm": arm}, [200] * 3)


def test_windows_of_a_batch_that_was_filled_up_are_invalid():
    cache = cache_of()
    sampler = WindowSampler.of(cache, period_ns=70 * MS, batch_size=32, drop_last=False)
    last = sampler.batch(0, len(sampler) - 1)
    count = len(last[0])
    assert 0 < count < 32
    order = sampler.to("cuda:0")
    order.seek(0, len(sampler) - 1)
    episodes, instants, epochs = order.next()
    found = cache.to("cuda:0").windows(episodes, instants, epochs=epochs)["arm"]
    expected = cache.windows(*last[:2], epochs=last[2])["arm"]
    assert (found.array[:count].cpu().numpy() == expected.array).all()
    assert (found.valid[:count].cpu().numpy() == expected.valid).all()
    assert not found.valid[count:].any() and not found.array[count:].any()


def test_a_training_in_a_graph_has_the_losses_of_one_without():
    cache = cache_of().to("cuda")
    config = {"arm": {"history": {"steps": 4, "step_ms": 20}, "rows": "all"}}
    sampler = WindowSampler.of(cache, period_ns=20 * MS, batch_size=16, seed=5)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()

    def losses(in_graph):
        """The losses of steps 11 to 39: choice of windows, windows, loss, gradient and optimizer."""
        weight = torch.zeros(5, device="cuda", requires_grad=True)
        optimizer = torch.optim.AdamW([weight], lr=1e-2, fused=True, capturable=True)
        order = sampler.to("cuda")

        def step():
            episodes, instants, epochs = order.next()
            rows = cache.windows(episodes, instants, config, epochs=epochs)["arm"].torch()
            loss = (rows[:, :-1] * weight - rows[:, 1:]).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            return loss.detach()

        for _ in range(11):
            step()
        if not in_graph:
            return [step().item() for _ in range(11, 40)]
        optimizer.zero_grad(set_to_none=True)
        graph, found = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph, stream=stream):
            loss = step()
        for _ in range(11, 40):
            graph.replay()
            found.append(loss.item())
        return found

    with torch.cuda.stream(stream):
        without = losses(False)
        assert losses(True) == without and len(set(without)) == 29


def test_a_graph_takes_one_batch_after_the_other():
    cache = cache_of()
    gpu = cache.to("cuda")
    sampler = WindowSampler.of(cache, period_ns=20 * MS, batch_size=16, seed=5)
    order = sampler.to("cuda")
    out = torch.empty_like(gpu.windows(*order.next()[:2]).buffer)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        episodes, instants, epochs = order.next()
        found = gpu.windows(episodes, instants, epochs=epochs, out=out)["arm"].array
    assert order.position() == (0, 1), "a recording takes no batch"

    def check(start, count):
        for at in range(start, start + count):
            graph.replay()
            episodes, instants, epochs = sampler.batch(*divmod(at, len(sampler)))
            expected = cache.windows(episodes, instants, epochs=epochs)["arm"].array
            assert (found.cpu().numpy() == expected).all(), at

    check(1, len(sampler) + 3)
    # A run that goes on has the batches that were to come.
    order.seek(7, 3)
    check(7 * len(sampler) + 3, 4)
    # The graph also works when no other code has its sampler any more.
    del order
    gc.collect()
    others = [torch.full((3, 16), 7, dtype=torch.int64).cuda() for _ in range(50)]
    check(7 * len(sampler) + 7, 2)
    assert all(bool((each == 7).all()) for each in others)
