"""Trains a small policy on windows of recordings, on one GPU, on several, or on the CPU.

    robocache replay recordings/ --config demo/train.yaml --out data/ --format rows
    python3 examples/train_policy.py data/rows.zarr --out policy.pt --seconds 60
    torchrun --nproc-per-node 2 examples/train_policy.py data/rows.zarr --out policy.pt

The policy sees the values of a replay at an instant, and predicts the joints' positions at the next steps. So any
recording has its labels. Replace `Policy` by a network of your own, and `ACTION` by its task.

On a GPU, the rows are in its memory. Under torchrun each process loads its share of the episodes. The last episodes
of a share are only for tests. DDP averages the gradients.

With `--graph`, a step is one CUDA graph on the GPU: the choice of the windows, the windows, the network, the gradients of all
processes, and the optimizer. The losses are those without it. The host then launches one thing per step, which counts
when a step is short.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import robocache

#: The prediction: the first channels of a stream, at these times after the instant [ns].
ACTION, ACTION_CHANNELS = "joints", 7
ACTION_NS = [20_000_000 * step for step in range(1, 17)]
#: Steps before a graph is recorded. The first steps make what later ones use again; DDP wants eleven.
WARM_UP = 11


class Policy(nn.Module):
    """Maps the vectors and images of one instant to the actions of the next steps.

    Args:
        streams: by name, the entries of `EpisodeCache.streams` for the streams that the policy sees.
        statistics: by name of a vector, `mean` and `std` of its channels.
    """

    def __init__(self, streams, statistics, width=256):
        super().__init__()
        self.vectors = [name for name in streams if name in statistics]
        self.images = [name for name in streams if name not in statistics]
        size = 0
        for name in self.vectors:
            mean, std = (
                torch.tensor(statistics[name][key], dtype=torch.float32) for key in ("mean", "std")
            )
            self.register_buffer(f"{name}_mean", mean)
            self.register_buffer(f"{name}_scale", 1 / std.clamp_min(1e-6))
            # A value and a flag: a network must know what was not measured.
            size += len(streams[name]["target_offsets_ns"]) * (len(mean) + 1)
        self.eyes = nn.ModuleDict()
        for name in self.images:
            channels = streams[name]["row_shape"][0] * len(streams[name]["target_offsets_ns"])
            self.eyes[name] = nn.Sequential(
                nn.Conv2d(channels, 16, 5, stride=4), nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
                nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            )  # fmt: skip
            size += 128
        self.head = nn.Sequential(
            nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, len(ACTION_NS) * ACTION_CHANNELS),
        )  # fmt: skip

    def forward(self, batch):
        """`batch` has `NAME` and `NAME.valid` of every stream: `[windows, steps, row...]`, `[windows, steps]`.

        Returns the positions of the joints, `[windows, steps of the action, joints]`.
        """
        parts = []
        for name in self.vectors:
            valid = batch[f"{name}.valid"].float()
            scaled = (batch[name].float() - self.get_buffer(f"{name}_mean")) * self.get_buffer(
                f"{name}_scale"
            )
            parts += [(scaled * valid[..., None]).flatten(1), valid]
        for name in self.images:
            parts.append(self.eyes[name](batch[name].flatten(1, 2).float() / 255 - 0.5))
        last = batch[ACTION][:, -1, :ACTION_CHANNELS].float()
        moved = self.head(torch.cat(parts, dim=1)).unflatten(1, (len(ACTION_NS), ACTION_CHANNELS))
        return last[:, None] + moved


def windows(cache, items, device):
    """The values of a replay at the instants, and the positions of the joints after them."""
    episodes, instants, epochs = items
    seen = cache.windows(episodes, instants, epochs=epochs).torch()
    action = {
        ACTION: {"offsets_ns": ACTION_NS, "strategy": "linear", "dtype": "f32", "rows": "all"}
    }
    label = cache.windows(episodes, instants, action, epochs=epochs).torch()
    batch = {name: value.to(device, non_blocking=True) for name, value in seen.items()}
    target = label[ACTION][..., :ACTION_CHANNELS].to(device, non_blocking=True)
    return batch, target, label[f"{ACTION}.valid"].to(device, non_blocking=True)


def loss_of(policy, batch, target, valid):
    """The mean squared error of the steps that were measured [rad^2]."""
    error = (policy(batch) - target).square().mean(dim=2)
    weight = valid.float()
    return (error * weight).sum() / weight.sum().clamp_min(1)


def check(streams):
    """Ends the program if the policy cannot take these streams."""
    for name, means in streams.items():
        if not means["vector"] and (len(means["row_shape"]) != 3 or means["dtype"] != "u8"):
            raise SystemExit(f"{name}: expected a vector, or an image of u8 with layout chw")
    action = streams.get(ACTION)
    if not action or not action["vector"] or action["row_shape"][0] < ACTION_CHANNELS:
        raise SystemExit(
            f"expected a stream '{ACTION}' with {ACTION_CHANNELS} channels or more, found {', '.join(streams)}; "
            "examples/train_dataset.py trains on a dataset, or on any stream of actions"
        )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", help="rows.zarr of `robocache replay --format rows`")
    parser.add_argument(
        "--out", required=True, help="file of the trained policy; robocache.json goes beside it"
    )
    parser.add_argument("--seconds", type=float, default=60, help="time to train [s]")
    parser.add_argument("--steps", type=int, help="number of steps to train, instead of a time")
    parser.add_argument("--batch", type=int, default=64, help="windows of a step and process")
    parser.add_argument("--period-ms", type=float, default=20, help="from an instant to the next")
    parser.add_argument(
        "--held-out", type=int, default=1, help="last episodes of each process, which only test"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--graph", action="store_true", help="a step is one CUDA graph; on a GPU")
    parser.add_argument("--curve", help="file for the loss of each step, JSON")
    options = parser.parse_args()
    if options.graph and not options.device.startswith("cuda"):
        parser.error(f"--graph: expected a GPU, found --device {options.device}")
    return options


def open_cache(store, device, rank, world):
    """The episodes of this process: all, or its share of them. On a GPU their rows are in its memory."""
    share = (rank, world) if world > 1 else None
    where = str(device) if device.type == "cuda" else None
    return robocache.EpisodeCache.load(store, share=share, device=where)


def samplers(cache, held_out, options, world):
    """The order of training, and that of the test episodes (None without test episodes)."""
    count = len(cache.episodes)
    back = max(-min(means["target_offsets_ns"]) for means in cache.streams.values())
    period_ns = int(options.period_ms * 1e6)
    common = {"period_ns": period_ns, "margin_ns": (back, ACTION_NS[-1])}
    given = {**common, "batch_size": options.batch, "seed": options.seed}
    given["episodes"] = slice(count - held_out)
    try:
        train = robocache.WindowSampler.of(cache, **given)
    except ValueError as error:
        raise SystemExit(f"{error}. Or record longer, or choose a smaller --batch") from None
    if world > 1:  # all processes take the same number of steps
        batches = torch.tensor(len(train), device=options.device)
        torch.distributed.all_reduce(batches, torch.distributed.ReduceOp.MIN)
        train = robocache.WindowSampler.of(cache, **given, batches=int(batches))
    if not held_out:
        return train, None
    given = {**common, "batch_size": 256, "seed": 1, "drop_last": False}
    given["episodes"] = slice(count - held_out, None)
    return train, robocache.WindowSampler.of(cache, **given)


class Step:
    """A step of the training: the next windows, their loss, and what the optimizer makes of it. Returns the loss."""

    def __init__(self, model, cache, sampler, device, in_graph):
        self.model, self.cache, self.sampler, self.device = model, cache, sampler, device
        # The fused optimizer has all of its numbers on the GPU, where a graph finds them.
        fused = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
        self.order = sampler.to(device) if in_graph else None
        self.number, self.data_s = 0, 0.0

    def items(self):
        """The items of the next batch: in a graph of a counter on the GPU."""
        if self.order is not None:
            return self.order.next()
        self.number += 1
        return self.sampler.batch(*divmod(self.number - 1, len(self.sampler)))

    def __call__(self):
        begun = time.monotonic()
        batch, target, valid = windows(self.cache, self.items(), self.device)
        self.data_s += time.monotonic() - begun
        loss = loss_of(self.model, batch, target, valid)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class GraphStep:
    """The same steps, as a CUDA graph from step `WARM_UP` on."""

    def __init__(self, step):
        self.step, self.graph, self.loss, self.done = step, None, None, 0

    def __call__(self):
        self.done += 1
        if self.done <= WARM_UP:
            return self.step()
        if self.graph is None:
            optimizer = self.step.optimizer
            optimizer.zero_grad(set_to_none=True)  # the graph has gradients of its own
            for group in optimizer.param_groups:
                group["capturable"] = True
            self.graph = torch.cuda.CUDAGraph()
            # Threads of NCCL ask for events while this records.
            how = {"stream": torch.cuda.current_stream(), "capture_error_mode": "thread_local"}
            with torch.cuda.graph(self.graph, **how):
                self.loss = self.step()
        self.graph.replay()
        return self.loss.clone()


def is_over(step, started, options, device):
    """Whether the steps or the time are over."""
    if options.steps:
        return step >= options.steps
    over = time.monotonic() - started > options.seconds
    if not torch.distributed.is_initialized():
        return over
    if step % 10:
        return False
    # All end at the same step. They agree on it now and then, because that waits for the GPU.
    flag = torch.tensor(float(over), device=device)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return flag.item() > 0


def train(model, policy, cache, sampler, test, options, device):
    """Trains until the time or the steps are over. Returns the losses, those of the test, and what it took."""
    step = Step(model, cache, sampler, device, options.graph)
    act = GraphStep(step) if options.graph else step
    losses, tests, started, done = [], [], time.monotonic(), False

    def judge():
        if test is not None:
            with torch.no_grad():
                tests.append((len(losses), loss_of(policy, *test).item()))

    while not done:
        losses.append(act())
        if len(losses) % 100 == 1:
            judge()
        done = is_over(len(losses), started, options, device)
    judge()
    found = torch.stack(losses).cpu().tolist()
    took = {"steps": len(losses), "seconds": time.monotonic() - started}
    # A graph does not tell what of it is data.
    return found, tests, {**took, "data_seconds": None if options.graph else step.data_s}


def main():
    options = arguments()
    rank, world = 0, 1
    if "WORLD_SIZE" in os.environ:  # of torchrun; without a rank all processes would be the first
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", device.index or 0)))
        torch.cuda.set_device(device)
    if options.graph:
        # No graph is recorded on the default stream, so all work is on another one.
        torch.cuda.set_stream(torch.cuda.Stream())
        # PyTorch's rule for NCCL in graphs: no thread may end a collective that takes long.
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    if world > 1:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(options.seed)
    cache = open_cache(options.store, device, rank, world)
    check(cache.streams)
    count = len(cache.episodes)
    if count < 1:
        raise SystemExit(f"expected an episode or more for each of the {world} processes")
    held_out = min(options.held_out, count - 1)
    # Test episodes do not count for the normalisation. Under DDP all processes have the statistics of the first
    # one's share: it broadcasts buffers.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "statistics of a share", RuntimeWarning)
        statistics = cache.statistics(episodes=slice(0, count - held_out))
    policy = Policy(cache.streams, statistics).to(device)
    model = DistributedDataParallel(policy) if world > 1 else policy
    sampler, only = samplers(cache, held_out, options, world)
    test = windows(cache, only.batch(0, 0), device) if only else None
    losses, tests, took = train(model, policy, cache, sampler, test, options, device)
    if rank == 0:
        about = {
            **took, "batch": options.batch, "world": world, "loss": losses, "test": tests,
            "episodes": count, "held_out": held_out,
        }  # fmt: skip
        saved = {"policy": policy.state_dict(), "streams": cache.streams, "statistics": statistics}
        torch.save(saved, options.out)
        save_contract(Path(options.out).absolute().parent, cache)
        if options.curve:
            with open(options.curve, "w", encoding="utf-8") as file:
                json.dump(about, file)
        told = f"{took['steps']} steps in {took['seconds']:.1f} s"
        told += f", loss {losses[0]:.4f} to {np.mean(losses[-100:]):.4f} rad^2"
        if took["data_seconds"] is not None:
            told += f", data {100 * took['data_seconds'] / took['seconds']:.1f} % of the time"
        print(told + (f", held out {tests[-1][1]:.4f}" if tests else ""))
    if world > 1:
        torch.distributed.destroy_process_group()


def save_contract(folder, cache):
    """Writes robocache.json. Whoever serves the policy compares it: fusion_node, TensorSubscriber and others take
    `contract`. Rows that no configuration made have none."""
    try:
        robocache.contract.save(folder, cache)
    except ValueError as error:
        print(f"no robocache.json beside the policy: {error}")


def load(path):
    """A policy that `main` has saved, for inference on the CPU."""
    saved = torch.load(path, map_location="cpu", weights_only=False)
    policy = Policy(saved["streams"], saved["statistics"])
    policy.load_state_dict(saved["policy"])
    return policy.eval()


if __name__ == "__main__":
    main()
