"""Trains a small policy on windows of recordings, on one GPU, on several, or on the CPU.

    robocache replay recordings/ --config demo/train.yaml --out data/ --format rows
    python3 examples/train_policy.py data/rows.zarr --out policy.pt --seconds 60
    torchrun --nproc-per-node 2 examples/train_policy.py data/rows.zarr --out policy.pt

The policy looks at what the node serves at an instant, and predicts where the joints will be at the next steps. So
any recording has its labels. Replace `Policy` by a network of your own, and `ACTION` by what it must do.

Under torchrun each process makes its share of the batches, and DDP averages the gradients.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import robocache

#: What is predicted: the first channels of a stream, at these times after the instant [ns].
ACTION, ACTION_CHANNELS = "joints", 7
ACTION_NS = [20_000_000 * step for step in range(1, 17)]


class Policy(nn.Module):
    """Vectors and images of one instant to the actions of the next steps.

    Args:
        streams: by name, what `EpisodeCache.streams` says of those that the policy sees.
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


def windows(cache, episodes, instants, device):
    """What the node served at the instants, and where the joints went after them."""
    seen = cache.windows(episodes, instants).torch()
    action = {
        ACTION: {"offsets_ns": ACTION_NS, "strategy": "linear", "dtype": "f32", "rows": "all"}
    }
    label = cache.windows(episodes, instants, action).torch()
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
        raise SystemExit(f"expected a stream '{ACTION}' with {ACTION_CHANNELS} channels or more")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", help="rows.zarr of `robocache replay --format rows`")
    parser.add_argument("--out", required=True, help="file of the trained policy")
    parser.add_argument("--seconds", type=float, default=60, help="time to train [s]")
    parser.add_argument("--steps", type=int, help="steps to train, in place of a time")
    parser.add_argument("--batch", type=int, default=64, help="windows of a step and process")
    parser.add_argument("--period-ms", type=float, default=20, help="from an instant to the next")
    parser.add_argument("--held-out", type=int, default=1, help="last episodes that only test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--curve", help="file for the loss of each step, JSON")
    return parser.parse_args()


def main():
    options = arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device(options.device)
    if world > 1:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
    torch.manual_seed(options.seed)
    cache = robocache.EpisodeCache.load(options.store)
    count = len(cache.episodes)
    held_out = min(options.held_out, count - 1)
    shown = cache.streams
    check(shown)
    statistics = cache.statistics()
    policy = Policy(shown, statistics).to(device)
    model = DistributedDataParallel(policy) if world > 1 else policy
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    period_ns = int(options.period_ms * 1e6)
    margin_ns = (max(-min(m["target_offsets_ns"]) for m in shown.values()), ACTION_NS[-1])
    weights = np.ones(count)
    weights[count - held_out :] = 0
    sampler = robocache.WindowSampler.of(
        cache, period_ns=period_ns, margin_ns=margin_ns, batch_size=options.batch,
        seed=options.seed, weights=weights, rank=rank, world=world,
    )  # fmt: skip
    if not len(sampler):
        raise SystemExit(
            f"expected {options.batch * world} windows or more, found {sampler.items}: "
            "record longer, or choose a smaller --batch"
        )
    test = None
    if held_out:
        only = robocache.WindowSampler.of(
            cache, period_ns=period_ns, margin_ns=margin_ns, batch_size=256,
            seed=1, weights=1 - weights, drop_last=False,
        )  # fmt: skip
        test = windows(cache, *only.batch(0, 0), device)

    curve, tests, started, step, epoch = [], [], time.monotonic(), 0, 0
    data_s = 0.0
    done = False
    while not done:
        for number in range(len(sampler)):
            begun = time.monotonic()
            batch, target, valid = windows(cache, *sampler.batch(epoch, number), device)
            data_s += time.monotonic() - begun
            loss = loss_of(model, batch, target, valid)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            curve.append(loss.detach())
            if test is not None and step % 100 == 1:
                with torch.no_grad():
                    tests.append((step, loss_of(policy, *test).item()))
            elapsed = time.monotonic() - started
            done = step >= options.steps if options.steps else elapsed > options.seconds
            if world > 1:  # all processes take the same number of steps
                flag = torch.tensor(float(done), device=device)
                torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
                done = flag.item() > 0
            if done:
                break
        epoch += 1
    if test is not None:
        with torch.no_grad():
            tests.append((step, loss_of(policy, *test).item()))
    elapsed = time.monotonic() - started
    losses = torch.stack(curve).cpu().tolist()
    if rank == 0:
        about = {
            "steps": step, "seconds": elapsed, "data_seconds": data_s, "batch": options.batch,
            "world": world, "loss": losses, "test": tests, "episodes": count, "held_out": held_out,
        }  # fmt: skip
        torch.save(
            {"policy": policy.state_dict(), "streams": shown, "statistics": statistics},
            options.out,
        )
        if options.curve:
            with open(options.curve, "w", encoding="utf-8") as file:
                json.dump(about, file)
        last = np.mean(losses[-100:])
        told = f"{step} steps in {elapsed:.1f} s, loss {losses[0]:.4f} to {last:.4f} rad^2"
        told += f", data {100 * data_s / elapsed:.1f} % of the time"
        print(told + (f", held out {tests[-1][1]:.4f}" if tests else ""))
    if world > 1:
        torch.distributed.destroy_process_group()


def load(path):
    """A policy that `main` has saved, for inference on the CPU."""
    saved = torch.load(path, map_location="cpu", weights_only=False)
    policy = Policy(saved["streams"], saved["statistics"])
    policy.load_state_dict(saved["policy"])
    return policy.eval()


if __name__ == "__main__":
    main()
