"""Trains a policy that answers with chunks of actions, on a dataset, or on bags that have a stream of actions.

    robocache import dataset/ --out data/            # LeRobot; docs/import.md has RLDS, LIBERO and others
    python3 examples/train_dataset.py data/rows.zarr --out checkpoint/
    python3 examples/train_dataset.py data/rows.zarr --out checkpoint/ --steps 4000     # goes on where it was
    torchrun --nproc-per-node 2 examples/train_dataset.py data/rows.zarr --out checkpoint/

The policy sees the present values of all vectors and images, and predicts the next actions, one frame each. Steps beyond
the end of an episode do not count. The last episodes only test. Replace `Policy` by a network of your own. Under torchrun, each
process has batches of its own, and the first one saves.

CHECKPOINT/policy.pt has the weights, the statistics and the place in the order of the batches. CHECKPOINT/robocache.json is
the contract of what the policy sees: whatever serves the policy refuses other values.
"""

import argparse
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import robocache
from robocache.data import WindowDataset

#: Steps between two checkpoints. A run that was stopped goes on at the last one.
SAVE_STEPS = 100


class Policy(nn.Module):
    """Maps the present vectors and images to a chunk of actions.

    Args:
        streams: by name, the entries of `EpisodeCache.streams` for the streams that the policy sees.
        statistics: by name of a vector, `mean` and `std` of its channels; also of the actions.
        action: the stream of the actions.
        chunk: the actions of an answer.
    """

    def __init__(self, streams, statistics, action, chunk, width=256):
        super().__init__()
        self.action, self.chunk = action, chunk
        self.vectors = [name for name in streams if name in statistics]
        self.images = [name for name in streams if name not in statistics]
        for name in (*self.vectors, action):
            mean, std = (torch.tensor(statistics[name][key]).float() for key in ("mean", "std"))
            self.register_buffer(f"{name}_mean", mean)
            self.register_buffer(f"{name}_std", std.clamp_min(1e-2))
        size = sum(streams[name]["row_shape"][0] + 1 for name in self.vectors)
        self.eyes = nn.ModuleDict()
        for name in self.images:
            self.eyes[name] = nn.Sequential(
                nn.Conv2d(streams[name]["row_shape"][0], 16, 5, stride=4), nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            )  # fmt: skip
            size += 32 * 16 + 1
        self.numbers = len(self.get_buffer(f"{action}_mean"))
        self.head = nn.Sequential(
            nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, chunk * self.numbers),
        )  # fmt: skip

    def normalised(self, name, values):
        """The values of a vector with mean 0 and deviation 1, as in the training."""
        mean, std = (self.get_buffer(f"{name}_{key}") for key in ("mean", "std"))
        return (values.float() - mean) / std

    def forward(self, batch):
        """`batch` is one of a `WindowDataset`. Returns the normalised actions, `[windows, chunk, numbers]`."""
        parts = []
        for name in (*self.vectors, *self.images):
            values, valid = batch[name][:, -1], batch[f"{name}.valid"][:, -1:].float()
            seen = (
                self.normalised(name, values)
                if name in self.vectors
                else self.eyes[name](values.float() / 255 - 0.5)
            )
            parts += [seen * valid, valid]  # a network must know what is missing
        return self.head(torch.cat(parts, dim=1)).unflatten(1, (self.chunk, self.numbers))

    def loss(self, batch, answer):
        """The mean distance of the actions that are no padding from those of `forward`, in deviations (L1)."""
        distance = (answer - self.normalised(self.action, batch[self.action])).abs()
        counts = ~batch[f"{self.action}_is_pad"]
        return (distance.mean(dim=2) * counts).sum() / counts.sum().clamp_min(1)

    @torch.inference_mode()
    def act(self, batch):
        """The chunk of actions for each window, in their own units."""
        mean, std = (self.get_buffer(f"{self.action}_{key}") for key in ("mean", "std"))
        return self(batch) * std + mean


def seen_streams(cache, action):
    """The streams that the policy sees. Ends the program if it cannot take one of them."""
    known = cache.streams
    if action not in known or not known[action]["vector"]:
        raise SystemExit(
            f"--action: expected a stream of numbers, found {action}; the streams are {', '.join(known)}"
        )
    seen = {name: means for name, means in known.items() if name != action}
    for name, means in seen.items():
        if not means["vector"] and (len(means["row_shape"]) != 3 or means["dtype"] != "u8"):
            raise SystemExit(f"{name}: expected numbers, or an image of u8 with layout chw")
    return seen


def windows(store, episodes, seen, options, **more):
    """The batches of some episodes."""
    cache = robocache.EpisodeCache.load(
        store, [*seen, options.action], episodes=episodes, compressed=True
    )
    config = {**dict.fromkeys(seen, {}), options.action: {"horizon": {"steps": options.chunk}}}
    sampler = robocache.WindowSampler.of(cache, batch_size=options.batch, **more)
    return WindowDataset(cache, sampler, config)


def batches(dataset, steps, options):
    """This many batches, over as many epochs as that takes."""
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    while steps > 0:
        for batch in loader:
            yield batch
            if (steps := steps - 1) == 0:
                return
        dataset.set_epoch(dataset.epoch + 1)


def on_device(batch, options):
    """The values of a batch where the policy is."""
    return {name: value.to(options.device) for name, value in batch.items()}


def train(policy, dataset, file, options):
    """Trains up to `--steps`, from where the checkpoint is, and saves it. Returns the losses of this run."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=options.lr)
    done, losses = 0, []
    if file.exists():
        saved = torch.load(file, map_location=options.device, weights_only=False)
        policy.load_state_dict(saved["policy"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["steps"]
        dataset.resume(saved["state"])
    sampler = dataset.sampler
    model = DistributedDataParallel(policy) if sampler.world > 1 else policy
    for batch in batches(dataset, options.steps - done, options):
        state = dataset.state_after(batch)
        batch = on_device(batch, options)
        loss = policy.loss(batch, model(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        steps = done + len(losses)
        if sampler.rank == 0 and (steps % SAVE_STEPS == 0 or steps == options.steps):
            print(f"step {steps}: loss {losses[-1]:.3f}", file=sys.stderr)
            saved = {"policy": policy.state_dict(), "optimizer": optimizer.state_dict()}
            # Under another name first: a checkpoint is complete.
            part = file.with_suffix(".partial")
            torch.save({**saved, "steps": steps, "state": state}, part)
            part.replace(file)
    return losses


@torch.no_grad()
def judge(policy, dataset, options):
    """The mean loss of the batches of episodes that the policy has not seen."""
    loader = DataLoader(dataset, batch_size=None, num_workers=options.workers)
    moved = (on_device(batch, options) for batch in loader)
    found = [policy.loss(batch, policy(batch)).item() for batch in moved]
    return sum(found) / len(found)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "store", help="rows.zarr of `robocache import` or `robocache replay --format rows`"
    )
    parser.add_argument("--out", required=True, help="folder of the checkpoint")
    parser.add_argument("--action", default="action", help="the stream of the actions")
    parser.add_argument(
        "--chunk", type=int, default=100, help="actions of an answer, one frame each"
    )
    parser.add_argument("--batch", type=int, default=32, help="windows of a step")
    parser.add_argument("--steps", type=int, default=2000, help="steps of all runs together")
    parser.add_argument("--held-out", type=int, default=1, help="last episodes, which only test")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2, help="processes that make batches")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def join(options):
    """Joins the processes that torchrun started, if there are some.

    Returns the rank and their number, as samplers take them.
    """
    if "WORLD_SIZE" not in os.environ:
        return {"rank": 0, "world": 1}
    if options.device == "cuda":
        options.device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(options.device)
    torch.distributed.init_process_group()
    return {"rank": torch.distributed.get_rank(), "world": torch.distributed.get_world_size()}


def main():
    options = arguments()
    ranks = join(options)
    torch.manual_seed(options.seed)
    cache = robocache.EpisodeCache.load(options.store, compressed=True)
    seen = seen_streams(cache, options.action)
    count = len(cache.episodes)
    if not 0 < options.held_out < count:
        raise SystemExit(
            f"--held-out: expected 1 to {count - 1} of {count} episodes, found {options.held_out}"
        )
    last = count - options.held_out
    dataset = windows(options.store, slice(0, last), seen, options, seed=options.seed, **ranks)
    # What only tests has no part in what the policy normalises by.
    policy = Policy(seen, dataset.cache.statistics(), options.action, options.chunk)
    policy = policy.to(options.device)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    losses = train(policy, dataset, out / "policy.pt", options)
    if ranks["rank"] == 0:
        dataset.contract(*seen).save(out)
        alone = {"rank": 0, "world": 1, "drop_last": False}
        test = windows(options.store, slice(last, count), seen, options, **alone)
        told = f"loss {losses[0]:.3f} to {losses[-1]:.3f}, " if losses else ""
        print(f"{len(losses)} steps, {told}held out {judge(policy, test, options):.3f}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
