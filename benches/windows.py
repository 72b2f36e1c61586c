"""Windows per second of `EpisodeCache.windows` on a GPU.

    python benches/windows.py [--seconds 5] [--batch 64]

The robot has 14 joints and a wrench at 500 Hz, and an IMU at 200 Hz. Steps are 20 ms apart. A window has 16 steps back
and 50 ahead for the joints, 16 back for the wrench, and the present one for the IMU. Calls follow one another, and all of
the host's time is included. Then windows have one picture of each of two cameras of 224x224 RGB at 30 Hz, from memory of
the GPU and from pinned memory. Beside the rate from pinned memory is that of a plain copy of the same size.

    torchrun --nproc-per-node 4 benches/windows.py --pinned

With `--pinned` each rank takes the windows with two cameras from pinned memory on its own GPU, all ranks at once. Rank 0
prints the rate and the copy of each rank, and the pinned memory of the host.

It needs PyTorch, and a release build of the compiled part with CUDA.
"""

import argparse
import json
import os
import time

import numpy as np

import robocache

MS = 1_000_000
CONFIG = {
    "joints": {
        "history": {"steps": 16, "step_ms": 20},
        "horizon": {"steps": 51, "step_ms": 20},
        "lag_ms": 0,
    },
    "wrench": {"history": {"steps": 16, "step_ms": 20}, "lag_ms": 0},
    "imu": {"lag_ms": 0},
}


def made(episodes, seconds):
    """A cache of a made-up robot."""
    random = np.random.default_rng(1)

    def stream(width, rate_hz, lanes=None):
        stamps = np.arange(seconds * rate_hz) * (1_000_000_000 // rate_hz)
        stamps = np.concatenate([stamps] * episodes)
        rows = random.normal(size=(len(stamps), width)).astype(np.float32)
        if lanes:
            rows[:, :4] /= np.linalg.norm(rows[:, :4], axis=1, keepdims=True)
        about = {"rows": rows, "stamp_ns": stamps, "received_ns": stamps, "max_age_ms": 100}
        return {**about, **({"lanes": lanes, "strategy": "slerp"} if lanes else {})}

    streams = {
        "joints": stream(14, 500),
        "wrench": stream(6, 500),
        "imu": stream(10, 200, ["quaternion"] * 4 + ["linear"] * 6),
    }
    lengths = {name: [len(each["rows"]) // episodes] * episodes for name, each in streams.items()}
    return robocache.EpisodeCache.from_arrays(streams, lengths)


CAMERAS = {"left": {"lag_ms": 0}, "right": {"lag_ms": 0}}


def with_cameras(episodes, seconds):
    """A cache of two cameras, 224x224 RGB at 30 Hz."""
    random = np.random.default_rng(2)
    frames = seconds * 30
    stamps = np.concatenate([np.arange(frames) * 33_333_333] * episodes)
    picture = random.integers(0, 256, (frames * episodes, 224, 224, 3), dtype=np.uint8)
    camera = {"rows": picture, "stamp_ns": stamps, "received_ns": stamps, "max_age_ms": 100}
    lengths = [frames] * episodes
    return robocache.EpisodeCache.from_arrays({"left": camera, "right": dict(camera)}, lengths)


def timed_on_gpu(cache, sampler, config, seconds):
    """Windows per second, and bytes of a batch: calls one after the other, waited for at the end."""
    import torch

    plan = cache.plan(config)
    batches = [sampler.batch(0, number)[:2] for number in range(min(200, len(sampler)))]
    for items in batches[:20]:
        windows = cache.windows(*items, plan)
    torch.cuda.synchronize()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for items in batches[:50]:
            windows = cache.windows(*items, plan)
        torch.cuda.synchronize()
        done += 50
    rate = done * sampler.batch_size / (time.perf_counter() - began)
    return rate, len(windows.buffer)


def host_time(cache, sampler, config, calls=200):
    """Microseconds of a call by itself, while the GPU has other work."""
    import torch

    items = sampler.batch(0, 0)[:2]
    found = []
    for _ in range(20):
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000)
        began = time.perf_counter()
        for _ in range(calls // 10):
            cache.windows(*items, config)
        found.append((time.perf_counter() - began) / (calls // 10) * 1e6)
    torch.cuda.synchronize()
    return float(np.median(found))


def copied(size, seconds):
    """GB/s of plain copies of this many bytes from pinned memory."""
    import torch

    source = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size, dtype=torch.uint8, device="cuda")
    target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(20):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        done += 20
    return done * size / (time.perf_counter() - began) / 1e9


def on_gpu(options):
    """The rates of one GPU."""
    import torch

    cache = made(options.episodes, options.length)
    batch = options.batch
    margin_ns = (400 * MS, 1100 * MS)
    order = {"period_ns": MS, "batch_size": batch, "margin_ns": margin_ns}
    gpu = cache.to("cuda")
    sampler = robocache.WindowSampler.of(cache, **order)
    rate, _ = timed_on_gpu(gpu, sampler, CONFIG, options.seconds)
    found = {"gpu": torch.cuda.get_device_name(), "batch": batch, "windows_per_s": round(rate)}
    found["host_us_per_call"] = round(host_time(gpu, sampler, CONFIG), 1)
    found["host_us_per_call_prepared"] = round(host_time(gpu, sampler, gpu.plan(CONFIG)), 1)
    cameras = with_cameras(options.episodes, options.length)
    sampler = robocache.WindowSampler.of(cameras, **order)
    for memory in ("device", "pinned", "mapped"):
        rate, size = timed_on_gpu(
            cameras.to("cuda", memory=memory), sampler, CAMERAS, options.seconds
        )
        found[f"two_cameras_{memory}"] = round(rate)
        found[f"two_cameras_{memory}_gb_per_s"] = round(rate / batch * size / 1e9, 1)
    found["copy_gb_per_s"] = round(copied(size, options.seconds), 1)
    return found


def on_ranks(options):
    """Windows of two cameras from pinned memory, on all ranks at once. Returns what rank 0 prints."""
    import torch
    from torch import distributed

    rank = int(os.environ.get("RANK", 0))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    distributed.init_process_group("gloo")
    order = {"period_ns": MS, "batch_size": options.batch, "margin_ns": (400 * MS, 1100 * MS)}
    order |= {"rank": 0, "world": 1}  # all ranks make the same windows
    cameras = with_cameras(options.episodes, options.length)
    sampler = robocache.WindowSampler.of(cameras, **order)
    pinned = cameras.to(f"cuda:{torch.cuda.current_device()}", memory="pinned")
    distributed.barrier()
    rate, size = timed_on_gpu(pinned, sampler, CAMERAS, options.seconds)
    distributed.barrier()
    mine = {
        "windows_per_s": round(rate),
        "gb_per_s": round(rate / options.batch * size / 1e9, 1),
    }
    mine["copy_gb_per_s"] = round(copied(size, options.seconds), 1)
    mine["pinned_gb"] = round(2 * options.episodes * options.length * 30 * 224 * 224 * 3 / 1e9, 2)
    ranks = [None] * distributed.get_world_size()
    distributed.all_gather_object(ranks, mine)
    distributed.destroy_process_group()
    total = round(sum(each["windows_per_s"] for each in ranks))
    found = {"gpu": torch.cuda.get_device_name(), "batch": options.batch, "windows_per_s": total}
    return {**found, "ranks": ranks} if rank == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pinned", action="store_true", help="pinned memory alone, on all ranks at once"
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--length", type=int, default=30, help="of an episode [s]")
    options = parser.parse_args()
    found = on_ranks(options) if options.pinned else on_gpu(options)
    if found:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
