"""How much time data adds to a training step: windows of recordings against a batch that never changes.

    python benches/train_step.py --make bench/train_step        # needs rosbags: recordings, replayed to rows
    python benches/train_step.py bench/train_step/rows.zarr
    torchrun --nproc-per-node 2 benches/train_step.py bench/train_step/rows.zarr --graph

A transformer of 4 layers learns from 256 channels that were recorded at 500 Hz with jitter. A batch is 32 windows of
250 steps, 4 ms apart, each from about 500 rows. Rounds with windows at random instants and rounds with one fixed batch
take turns in one process. The share of data is the extra time of a step, by the medians of the rounds. Prints JSON.

With `--graph` (on a GPU) two more kinds of step take turns with them: the whole step in one CUDA graph, from the order
of the windows to the optimizer, and the same of the fixed batch. `kernels_ms` is the time of the model's kernels alone:
the sum of their durations in steps on the fixed batch, without gaps between them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import turns

STEPS, STEP_MS, WIDTH, RATE_HZ = 250, 4, 256, 500
MS = 1_000_000
#: Steps before a graph is recorded: DDP wants eleven.
WARM_UP = 11


def make(folder, episodes, seconds):
    """Writes recordings of JointState with 256 joints, and replays them to `folder/rows.zarr`."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))
    import bags

    folder.mkdir(parents=True)
    names = [f"joint_{at}" for at in range(WIDTH)]
    config = folder / "config.yaml"
    config.write_text(
        f"rate_hz: 50\nlag_ms: 10\nstreams:\n  joints:\n    type: sensor_msgs/msg/JointState\n"
        f"    topic: /joint_states\n    joints: [{', '.join(names)}]\n    fields: [position]\n"
        f"    max_age_ms: 50\n    max_gap_ms: 50\n    dtype: f32\n"
    )
    random = np.random.default_rng(1)
    paths = []
    for episode in range(episodes):
        count = seconds * RATE_HZ
        jitter = random.integers(-MS // 2, MS // 2, count)
        stamps = bags.T0 + np.arange(count) * (1000 * MS // RATE_HZ) + jitter
        phase = random.uniform(0, 2 * np.pi, WIDTH)
        speed = random.uniform(1, 10, WIDTH)
        values = np.sin(np.arange(count)[:, None] / RATE_HZ * speed + phase)
        none = np.zeros(0)
        messages = (
            ("/joint_states", int(at) + MS, bags.made(
                "sensor_msgs/msg/JointState", header=bags.header(int(at)), name=names,
                position=row, velocity=none, effort=none,
            ))
            for at, row in zip(stamps, values, strict=True)
        )  # fmt: skip
        paths.append(folder / f"episode_{episode}")
        bags.write_bag(paths[-1], messages)
    command = [sys.executable, "-m", "robocache", "replay", *paths, "--config", config]
    command += ["--out", folder, "--format", "rows"]
    subprocess.run([str(part) for part in command], check=True)


def model_of(device):
    """The predecessor's policy: a projection and 4 layers; it predicts the next step."""
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
            self.first = nn.Linear(WIDTH, WIDTH)
            self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.last = nn.Linear(WIDTH, WIDTH)

        def forward(self, rows):
            return self.last(self.layers(self.first(rows)))

    torch.manual_seed(1)
    return Model().to(device)


class Trainer:
    """One process of the training."""

    def __init__(self, options):
        import torch

        import robocache

        self.torch = torch
        self.rank, self.world = 0, 1
        if "WORLD_SIZE" in os.environ:
            self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device(options.device)
        if self.device.type == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(self.device)
        if options.graph:
            # No graph is recorded on the default stream, so the whole program uses another one.
            torch.cuda.set_stream(torch.cuda.Stream())
            os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
        if self.world > 1:
            kind = "nccl" if self.device.type == "cuda" else "gloo"
            torch.distributed.init_process_group(kind)
        where = str(self.device) if self.device.type == "cuda" else None
        self.cache = robocache.EpisodeCache.load(options.store, device=where)
        margin = STEPS * STEP_MS * MS
        self.sampler = robocache.WindowSampler.of(
            self.cache, period_ns=MS, margin_ns=(margin, 0), batch_size=options.batch,
            seed=1, rank=self.rank, world=self.world,
        )  # fmt: skip
        steps = {"history": {"steps": STEPS, "step_ms": STEP_MS}, "lag_ms": 0, "rows": "all"}
        self.config = {"joints": steps}
        policy = model_of(self.device)
        if self.world > 1:
            policy = torch.nn.parallel.DistributedDataParallel(policy)
        self.model = torch.compile(policy) if options.compile else policy
        fused = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, fused=fused)
        self.number = 0
        self.order = self.sampler.to(self.device) if options.graph else None

    def rows(self):
        """The next batch, `[windows, steps, 256]`."""
        episodes, instants, _ = self.sampler.batch(*divmod(self.number, len(self.sampler)))
        self.number += 1
        return self.cache.windows(episodes, instants, self.config)["joints"].torch()

    def rows_of_device(self):
        """The same with an order that the GPU makes."""
        episodes, instants, _ = self.order.next()
        return self.cache.windows(episodes, instants, self.config)["joints"].torch()

    def step(self, rows):
        """A step of the training."""
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16):
            error = self.model(rows[:, :-1]) - rows[:, 1:]
            loss = error.square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def graph_of(self, batch_of):
        """A step in a CUDA graph: returns what replays it."""
        torch = self.torch
        for _ in range(WARM_UP):
            self.step(batch_of())
        self.optimizer.zero_grad(set_to_none=True)
        for group in self.optimizer.param_groups:
            group["capturable"] = True
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        # Threads of NCCL ask for events meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self.step(batch_of())
        return graph.replay

    def kernels_ms(self, batch, steps):
        """Milliseconds per step of the kernels alone, without those of NCCL, which wait for other ranks."""
        from torch.profiler import DeviceType, ProfilerActivity, profile

        turns.wait(self.device, self.world)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(steps):
                self.step(batch)
            turns.wait(self.device, self.world)
        kernels = [
            event
            for event in profiler.key_averages()
            if event.device_type == DeviceType.CUDA
            and not event.is_user_annotation
            and not event.key.startswith("nccl")
        ]
        return sum(event.self_device_time_total for event in kernels) / steps / 1e3

    def all_reduce_ms(self, steps):
        """Milliseconds of one sum of all gradients over the ranks, by itself."""
        torch = self.torch
        count = sum(each.numel() for each in self.model.parameters())
        gradients = torch.zeros(count, device=self.device)
        summed = {"sum": lambda: torch.distributed.all_reduce(gradients)}
        rounds = turns.rounds_ms(summed, 5, steps, self.device, warm=20, world=self.world)
        return turns.medians(rounds)["sum"]

    def windows_s(self, steps):
        """Seconds per call of `windows` alone: until the host goes on, and until the device is done."""
        turns.wait(self.device, self.world)
        began = time.perf_counter()
        for _ in range(steps):
            self.rows()
        host = time.perf_counter() - began
        turns.wait(self.device, self.world)
        return host / steps, (time.perf_counter() - began) / steps


def measure(options):
    """Returns what was measured, by rank 0."""
    trainer = Trainer(options)
    valid = trainer.cache.windows(*trainer.sampler.batch(0, 0)[:2], trainer.config)["joints"].valid
    assert bool(valid.all()), "expected windows that are valid at every step"
    fixed = trainer.rows().clone()
    first = float(trainer.step(fixed))
    kinds = {
        "fixed": lambda: trainer.step(fixed),
        "windows": lambda: trainer.step(trainer.rows()),
    }
    if options.graph:
        kinds["fixed_graph"] = trainer.graph_of(lambda: fixed)
        kinds["graph"] = trainer.graph_of(trainer.rows_of_device)
    of_turns = {"warm": min(20, options.steps), "world": trainer.world}
    rounds = turns.rounds_ms(kinds, options.rounds, options.steps, trainer.device, **of_turns)
    step_ms = turns.medians(rounds)
    kernels_ms = trainer.kernels_ms(fixed, min(20, options.steps)) if options.graph else None
    host, done = trainer.windows_s(options.steps)
    all_reduce_ms = trainer.all_reduce_ms(options.steps) if trainer.world > 1 else None
    longer = step_ms["windows"] - step_ms["fixed"]
    found = {
        "device": str(trainer.device),
        "world": trainer.world,
        "batch": options.batch,
        "compiled": options.compile,
        "loss": [first, float(trainer.step(fixed))],
        "step_ms": step_ms,
        "rounds_ms": rounds,
        "data_share_percent": 100 * longer / step_ms["windows"],
        "windows_alone_ms": {"host": 1e3 * host, "done": 1e3 * done},
        "windows_per_s": trainer.world * options.batch / (step_ms["windows"] / 1e3),
    }
    if options.graph:
        found["kernels_ms"] = kernels_ms
        found["graph_over_kernels_percent"] = 100 * (step_ms["graph"] / kernels_ms - 1)
        found["windows_per_s_graph"] = trainer.world * options.batch / (step_ms["graph"] / 1e3)
    if all_reduce_ms is not None:
        found["all_reduce_ms"] = all_reduce_ms
    if trainer.device.type == "cuda":
        found["device"] = trainer.torch.cuda.get_device_name()
    if trainer.world > 1:
        kinds.clear()  # NCCL waits for the graphs that have its kernels
        trainer.torch.distributed.destroy_process_group()
    return found if trainer.rank == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?", help="rows.zarr of recordings")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="make recordings and a store")
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=10, help="of an episode")
    parser.add_argument("--batch", type=int, default=32, help="windows of a step and process")
    parser.add_argument("--steps", type=int, default=100, help="of a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--graph", action="store_true", help="also a step in one CUDA graph")
    options = parser.parse_args()
    if options.make:
        make(options.make, options.episodes, options.seconds)
        return
    if not options.store:
        parser.error("expected a store, or --make")
    found = measure(options)
    if found:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
