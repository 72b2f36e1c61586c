"""Cost of LeRobot's dialect: batches of `robocache.lerobot.dataset` beside the same windows, on the host or a GPU.

    python benches/dialect.py [--device cuda:0] [--memory device] [--size 224] [--batch 64] [--rounds 9]

Three square cameras, 14 joints, 50 actions ahead, from arrays in memory. It needs the package and torch, and neither
LeRobot nor a network. With a device, all batches of an epoch are first compared with those of the host, bit for bit; a
difference is an error.

`bytes` and `numbers` are the batches of the dialect, by the type of images, and `WindowDataset` those without it. A DataLoader
looks at each text of a batch again, unless its `collate_fn` is `dict`.

Ways take turns. Prints JSON: by way the items per second, and by batch its processor time [ms], as medians of the rounds; and
the share of the rate of `cache.windows` that a way keeps.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch

import robocache
from robocache.data import WindowDataset
from robocache.lerobot import dataset

CAMERAS = ("left", "right", "wrist")
EPISODES, FRAMES, FPS, JOINTS, AHEAD = 4, 600, 30, 14, 50


def rows(size):
    """Episodes of random numbers and pictures, with the size of those of a robot."""
    random, period = np.random.default_rng(1), round(1e9 / FPS)
    stamps, count = np.tile(np.arange(FRAMES) * period, EPISODES), EPISODES * FRAMES
    streams = {
        name: {
            "rows": random.integers(0, 256, (count, 3, size, size), dtype=np.uint8),
            "stamp_ns": stamps,
            "channels": ["red", "green", "blue"],
        }
        for name in CAMERAS
    }
    for name in ("state", "action"):
        values = random.normal(size=(count, JOINTS)).astype(np.float32)
        streams[name] = {"rows": values, "stamp_ns": stamps}
    return robocache.EpisodeCache.from_arrays(streams, [FRAMES] * EPISODES, rate_hz=FPS)


def batches(cache, size, is_bytes):
    """Batches in the dialect."""
    steps = {"action": [at / FPS for at in range(AHEAD)]}
    return dataset(cache, steps, return_uint8=is_bytes).batches(size, seed=1)


def compared(host, device, size):
    """The number of tensors of an epoch on the GPU that have the bits of the host's.

    Raises AssertionError if one has others.
    """
    found = 0
    for is_bytes in (False, True):
        pair = batches(host, size, is_bytes), batches(device, size, is_bytes)
        for expected, own in zip(*pair, strict=True):
            assert own.keys() == expected.keys()
            for key, values in expected.items():
                if torch.is_tensor(values):
                    same = own[key].dtype == values.dtype and torch.equal(own[key].cpu(), values)
                    assert same, f"{key}: expected the bits of the host, found others"
                    found += 1
                else:
                    assert own[key] == values, key
    return found


def forever(data, batches):
    """The batches of epoch after epoch."""
    epoch = 0
    while True:
        data.set_epoch(epoch)
        yield from batches
        epoch += 1


def ways(cache, size):
    """By name a function that makes the next batch."""
    config = {name: {} for name in ("state", *CAMERAS)} | {"action": {"horizon": {"steps": AHEAD}}}
    sampler = robocache.WindowSampler.of(cache, batch_size=size, seed=1)
    items = [sampler.batch(0, number)[:2] for number in range(len(sampler))]
    plan, made = cache.plan(config), [0]

    def windows():
        made[0] += 1
        return cache.windows(*items[made[0] % len(items)], plan)

    found = {"cache.windows": windows}
    streams = WindowDataset(cache, sampler, config)
    found["WindowDataset"] = forever(streams, streams).__next__
    for name, is_bytes in (("bytes", True), ("numbers", False)):
        data = batches(cache, size, is_bytes)
        found[name] = forever(data, data).__next__
    for name, options in (("a DataLoader", {}), ("one with dict", {"collate_fn": dict})):
        data = batches(cache, size, True)
        loader = torch.utils.data.DataLoader(data, batch_size=None, **options)
        found[f"bytes by {name}"] = forever(data, loader).__next__
    return found


def timed(way, count, size, wait):
    """Items per second, and the processor time of a batch [ms]."""
    held = way()
    wait()
    began, used = time.perf_counter(), time.process_time()
    for _ in range(count):
        held = way()
    wait()
    took, used = time.perf_counter() - began, time.process_time() - used
    del held
    return count * size / took, 1e3 * used / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="a GPU that makes the batches; the host without it")
    parser.add_argument("--memory", default="device", help="where the rows are, with a device")
    parser.add_argument("--size", type=int, default=224, help="of an image [pixels]")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=20, help="batches of a way in a round")
    options = parser.parse_args()
    cache, found = rows(options.size), {"torch": torch.__version__, "device": options.device}
    wait = torch.cuda.synchronize if options.device else lambda: None
    if options.device:
        moved = cache.to(options.device, memory=options.memory)
        found["equal_tensors"] = compared(cache, moved, options.batch)
        cache = moved
    made = ways(cache, options.batch)
    measured = {name: [] for name in made}
    for _ in range(options.rounds):
        for name, way in made.items():
            measured[name].append(timed(way, options.count, options.batch, wait))
    rates = {
        name: [statistics.median(column) for column in zip(*of, strict=True)]
        for name, of in measured.items()
    }
    found["items_per_s"] = {name: round(rate) for name, (rate, _) in rates.items()}
    found["cpu_ms_per_batch"] = {name: round(cpu, 2) for name, (_, cpu) in rates.items()}
    base_rate, base_cpu = rates["cache.windows"]
    found["share_of_rate"] = {n: round(rate / base_rate, 3) for n, (rate, _) in rates.items()}
    found["share_by_cpu"] = {n: round(base_cpu / cpu, 3) for n, (_, cpu) in rates.items()}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
