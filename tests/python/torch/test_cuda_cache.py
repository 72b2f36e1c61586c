"""`EpisodeCache` with a device: every window has the bits of the CPU's."""

import gc
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

# A folder of tests has the name `torch`, so look for a part of the real one.
pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import robocache
from robocache.data import WindowDataset
from robocache.training.sampler import WindowSampler

sys.path.insert(0, str(Path(__file__).parents[1]))
from random_episodes import MS, batch, episodes, parts

KINDS = ("auto", "device", "pinned", "mapped")
# Batches per cache.
EACH = 6
CASES = int(os.environ.get("ROBOCACHE_TEST_CASES", "2000"))


def assert_same(host, device, where):
    expected, found = parts(host), parts(device)
    assert expected.keys() == found.keys(), where
    for part, own in expected.items():
        if found[part] != own:
            one, other = (np.frombuffer(each, np.uint8) for each in (own, found[part]))
            at = np.flatnonzero(one != other) if len(one) == len(other) else [len(one), len(other)]
            raise AssertionError(f"{where}, {part}: {len(at)} bytes differ, from {at[0]} on")


def on_device(cache, seed):
    random = np.random.default_rng([seed, 2])
    memory = {name: str(random.choice(KINDS)) for name in cache.streams}
    return cache.to("cuda:0", memory=memory)


def test_windows_are_those_of_the_cpu():
    valid = invalid = 0
    for seed in range(CASES // EACH):
        cache = episodes(seed)
        gpu = on_device(cache, seed)
        for call in range(EACH):
            numbers, instants, arguments = batch(seed * EACH + call, cache)
            host = cache.windows(numbers, instants, **arguments)
            device = gpu.windows(numbers, instants, **arguments)
            assert device.buffer.is_cuda
            assert_same(host, device, (seed, call, gpu))
            assert (host.instants_ns == device.instants_ns).all()
            good = sum(int(host[name].valid.sum()) for name in host)
            valid += good
            invalid += sum(host[name].valid.size for name in host) - good
    assert valid > CASES and invalid > CASES, (valid, invalid)


def test_items_may_be_on_the_device():
    for seed in range(40):
        cache = episodes(seed)
        gpu = cache.to("cuda", memory="pinned" if seed % 2 else "device")
        numbers, instants, arguments = batch(seed, cache)
        arguments.pop("jitter_ns", None)
        host = cache.windows(numbers, instants, **arguments)
        if "epochs" in arguments:
            arguments["epochs"] = torch.from_numpy(arguments["epochs"]).cuda()
        items = torch.from_numpy(numbers).cuda(), torch.from_numpy(instants).cuda()
        device = gpu.windows(*items, **arguments)
        assert_same(host, device, seed)
        name = next(iter(host))
        assert (host[name].target_ns == device[name].target_ns.cpu().numpy()).all()
    unknown = torch.full_like(items[0], 99)
    for name in (found := gpu.windows(unknown, items[1])):
        assert not found[name].valid.any()
        assert not found[name].array.view(torch.uint8).any()


def robot(width=14, rows=2000):
    random = np.random.default_rng(1)
    stamps = np.concatenate([np.arange(rows) * 2 * MS] * 3)
    streams = {
        "joints": {
            "rows": random.normal(size=(3 * rows, width)).astype(np.float32),
            "stamp_ns": stamps,
            "history": {"steps": 16, "step_ms": 20},
        },
        "camera": {
            "rows": random.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8),
            "stamp_ns": np.concatenate([np.arange(20) * 200 * MS] * 3),
            "max_age_ms": 200,
        },
    }
    return robocache.EpisodeCache.from_arrays(streams, {"joints": [rows] * 3, "camera": [20] * 3})


@pytest.mark.parametrize("memory", KINDS)
def test_streams_and_threads_do_not_meet(memory):
    cache = robot()
    gpu = cache.to("cuda:0", memory=memory)
    random = np.random.default_rng(2)
    batches = [
        (random.integers(0, 3, 600), random.integers(300, 3900, 600) * MS) for _ in range(40)
    ]
    found = [None] * len(batches)

    def work(first):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            # All streams have work before one of them starts, so that their launches overlap.
            torch.cuda._sleep(20_000_000)
            for at in range(first, len(batches), 4):
                windows = gpu.windows(*batches[at])
                found[at] = {name: windows[name].array.clone() for name in windows}
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for items, tensors in zip(batches, found, strict=True):
        expected = cache.windows(*items)
        for name, tensor in tensors.items():
            assert (tensor.cpu().numpy() == expected[name].array).all(), name


def test_memory_goes_by_size():
    cache = robot()
    sizes = {name: cache.size(name)[1] for name in cache.streams}
    rows = {name: cache.size(name)[0] for name in cache.streams}
    assert set(rows) == {"joints", "camera"}
    assert cache.memory == {"camera": "host", "joints": "host"}
    assert set(cache.to(0).memory.values()) == {"device"}
    small, large = sorted(sizes, key=sizes.get)
    # A row has two bounds beside its columns.
    room = sizes[small] + 16 * rows[small] + 4096
    found = cache.to(0, device_bytes=room, pinned_bytes=10**9)
    assert found.memory == {small: "device", large: "pinned"}
    memory = {small: "auto", large: "device"}
    found = cache.to(0, memory=memory, device_bytes=room, pinned_bytes=10**9)
    assert found.memory == {small: "pinned", large: "device"}
    found = cache.to(0, device_bytes=room, pinned_bytes=10**9)
    assert found.memory == {small: "device", large: "pinned"}
    assert f"{large} pinned" in repr(found)
    found = cache.to(0, device_bytes=0, pinned_bytes=sizes[small] + 4096)
    assert found.memory == {small: "pinned", large: "mapped"}
    stats = found.statistics()["joints"]
    assert (stats["mean"] == cache.statistics()["joints"]["mean"]).all()
    with pytest.raises(ValueError, match="memory: expected auto, device, pinned or mapped"):
        cache.to(0, memory="moon")
    with pytest.raises(ValueError, match="expected streams of"):
        cache.to(0, memory={"moon": "device"})
    with pytest.raises(ValueError, match="device: expected"):
        cache.to("tpu:0")
    with pytest.raises(RuntimeError):
        cache.to(99)


def test_bad_arguments_are_errors():
    gpu = robot().to(0)
    at = np.array([300 * MS])
    with pytest.raises(ValueError, match="episode: expected a number from 0 to 2, found 3"):
        gpu.windows([3], at)
    with pytest.raises(ValueError, match="episodes: expected 1"):
        gpu.windows([0, 1], at)
    with pytest.raises(ValueError, match="found one on the host"):
        gpu.windows([0], torch.from_numpy(at).cuda())
    with pytest.raises(ValueError, match="jitter_ns"):
        gpu.windows(
            torch.zeros(1, dtype=torch.int64).cuda(), torch.from_numpy(at).cuda(), jitter_ns=3
        )
    size = len(gpu.windows([0], at).buffer)
    for wrong in (
        torch.empty(size - 1, dtype=torch.uint8).cuda(),
        torch.empty(size, dtype=torch.uint8),
    ):
        with pytest.raises(ValueError, match="out: expected a contiguous uint8 array"):
            gpu.windows([0], at, out=wrong)
    out = torch.empty(size, dtype=torch.uint8).cuda()
    assert gpu.windows([0], at, out=out).buffer is out
    plan = robot().plan()
    with pytest.raises(ValueError, match="a plan of this cache"):
        gpu.windows([0], at, plan)
    mapped = robot().to(0, memory="mapped")
    items = torch.zeros(1, dtype=torch.int64).cuda(), torch.from_numpy(at).cuda()
    with pytest.raises(ValueError, match="its rows are mapped"):
        mapped.windows(*items)
    with pytest.raises(ValueError, match="it is required"):
        gpu.windows(*items, {"joints": {"required": True}})


def test_a_dataset_makes_its_batches_on_the_device():
    cache = robot()
    sampler = WindowSampler.of(cache, period_ns=7 * MS, batch_size=32, margin_ns=(320 * MS, 0))
    host = WindowDataset(cache, sampler, jitter_ns=MS, latency_ns={"camera": (0, 30 * MS)})
    device = WindowDataset(
        cache, sampler, device="cuda:0", jitter_ns=MS, latency_ns={"camera": (0, 30 * MS)}
    )
    count = 0
    for one, other in zip(host, device, strict=True):
        for name in ("joints", "camera", "joints.valid", "camera.valid"):
            assert other[name].is_cuda
            assert torch.equal(one[name], other[name].cpu()), name
        assert torch.equal(one["instant_ns"], other["instant_ns"])
        count += 1
    assert count > 10
    with pytest.raises(RuntimeError, match="num_workers: expected 0"):
        list(torch.utils.data.DataLoader(device, batch_size=None, num_workers=1))


def test_a_graph_replays_windows():
    cache = robot()
    gpu = cache.to(0)
    numbers, instants = torch.tensor([0, 1, 2]).cuda(), torch.tensor([400, 500, 600]).cuda() * MS
    gpu.windows(numbers, instants)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gpu.windows(numbers, instants)
    instants += 100 * MS
    graph.replay()
    expected = cache.windows([0, 1, 2], np.array([500, 600, 700]) * MS)
    assert (found["joints"].array.cpu().numpy() == expected["joints"].array).all()
    # The graph reads the plan and the rows, also when no other code has them any more.
    for lag_ms in range(70):
        gpu.windows(numbers, instants, {"joints": {"lag_ms": lag_ms}})
    del gpu
    gc.collect()
    others = [torch.full((1 << 20,), 7, dtype=torch.uint8).cuda() for _ in range(50)]
    instants += 100 * MS
    graph.replay()
    expected = cache.windows([0, 1, 2], np.array([600, 700, 800]) * MS)
    assert (found["joints"].array.cpu().numpy() == expected["joints"].array).all()
    assert all(int(each[0]) == 7 for each in others)


@pytest.mark.parametrize("count", [3, 600])
def test_a_graph_refuses_what_it_cannot_repeat(count):
    cache = robot()
    gpu = cache.to(0)
    numbers, instants = np.zeros(count, np.int64), np.arange(count) * MS + 500 * MS
    gpu.windows(numbers, instants)
    for _ in range(9):  # more than calls with many numbers take turns
        with pytest.raises(ValueError, match="while a CUDA graph is recorded"):
            with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="relaxed"):
                gpu.windows(numbers, instants)
    expected = cache.windows(numbers, instants)
    assert_same(expected, gpu.windows(numbers, instants), gpu)


def test_instants_of_two_dimensions_are_an_error():
    gpu = robot().to(0)
    with pytest.raises(ValueError, match="target_ns: expected one dimension"):
        gpu.windows(np.zeros((4, 8), np.int64), np.full((4, 8), 500 * MS))
    size = len(gpu.windows([0], [500 * MS]).buffer)
    with pytest.raises(ValueError, match="out: expected"):
        nine = np.zeros(9, np.int64).tobytes()
        gpu.plan()._launch((0, 0), (1 << 20, size), nine, nine)


def test_a_pinned_cache_that_lacks_a_stream_is_saved(tmp_path):
    streams = {
        name: {"rows": np.ones((rows, 2), np.float32), "stamp_ns": np.arange(rows) * MS}
        for name, rows in (("there", 5), ("gone", 0))
    }
    lengths = {"there": [5], "gone": [0]}
    cache = robocache.EpisodeCache.from_arrays(streams, lengths).to(0, memory="pinned")
    cache.save(tmp_path / "cache")
    again = robocache.EpisodeCache.load(tmp_path / "cache").to(0, memory="mapped")
    windows = again.windows([0], [3 * MS])
    assert bool(windows["there"].valid.all()) and not bool(windows["gone"].valid.any())


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_two_devices():
    cache = robot()
    both = [cache.to(number) for number in range(2)]
    items = [0, 1, 2], np.array([400, 500, 600]) * MS
    expected = cache.windows(*items)
    for gpu in both:
        for current in range(2):
            with torch.cuda.device(current):
                found = gpu.windows(*items)
                assert torch.cuda.current_device() == current
            assert found.buffer.device.index == gpu.device
            assert_same(expected, found, gpu)
