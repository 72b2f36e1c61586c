"""How much time images add to a training step: windows of three cameras against a batch that never changes.

    robocache_recording write bag.mcap --seconds 60
    python benches/train_images.py --make bag.mcap FOLDER      # FOLDER/rows.zarr: u8, 224x224
    python benches/train_images.py FOLDER/rows.zarr

A batch is 64 windows: an image of each of three cameras at the instant, and 50 steps of 6 joints ahead, 33 ms apart. The
model stands in for SmolVLA. ViT-B/16 sees each image. 16 layers of width 960 see its tokens, joined two by two, and the
tokens of the actions. It has 266 million parameters, in bf16. SmolVLA takes images of 512x512, so its steps take longer,
and data weighs less. There is one process and no worker: the host makes a batch while the GPU computes the step before.

Rounds with windows at random instants and rounds with one fixed batch take turns. The share of data is the extra time of
a step, by the medians of the rounds. `windows_per_s` is of the host alone: windows without a model. Prints JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import turns

BATCH, AHEAD, STEP_NS, JOINTS, SIZE, PATCH = 64, 50, 33_333_333, 6, 224, 16
CAMERAS = {
    "left": "/camera_front/image_raw",
    "right": "/camera_front/image_raw",
    "wrist": "/camera_wrist/image_raw",
}


def configuration():
    """Three cameras as bytes, and joints."""
    joints = ", ".join(f"joint_{at}" for at in range(1, JOINTS + 1))
    text = f"""rate_hz: 30
lag_ms: 0
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [{joints}]
    fields: [position]
    max_age_ms: 100
    max_gap_ms: 100
    dtype: f32
"""
    for name, topic in CAMERAS.items():
        text += f"""  {name}:
    type: sensor_msgs/msg/Image
    topic: {topic}
    strategy: hold
    max_age_ms: 200
    dtype: u8
    image: {{resize: {{width: {SIZE}, height: {SIZE}, fit: stretch}}}}
"""
    return text


def make(bag, folder, images):
    """Replays a recording of the reference robot to `folder/rows.zarr`, with images as zstd or jpeg:QUALITY."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    config.write_text(configuration())
    command = [sys.executable, "-m", "robocache", "replay", bag, "--config", config]
    command += ["--out", folder, "--format", "rows", "--images", images]
    subprocess.run([str(word) for word in command], check=True)


def model_of(device):
    """The stand-in: images `[windows, cameras, 3, 224, 224]` of bytes and actions to a loss."""
    import torch
    from torch import nn
    from torch.nn import functional

    def layers(width, heads, count):
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 768, PATCH, PATCH)
            self.place = nn.Parameter(torch.zeros((SIZE // PATCH) ** 2, 768))
            self.vision = layers(768, 12, 12)
            self.joined = nn.Linear(4 * 768, 960)
            self.actions = nn.Linear(JOINTS, 960)
            self.policy = layers(960, 15, 16)
            self.last = nn.Linear(960, JOINTS)

        def forward(self, images, actions):
            count, cameras = images.shape[:2]
            pixels = images.flatten(0, 1).to(torch.bfloat16) / 127.5 - 1
            tokens = self.patches(pixels).flatten(2).transpose(1, 2) + self.place
            tokens = self.vision(tokens).unflatten(1, (-1, 4)).flatten(2)
            tokens = self.joined(tokens).unflatten(0, (count, cameras)).flatten(1, 2)
            noise = torch.randn_like(actions)
            found = self.policy(torch.cat([tokens, self.actions(actions + noise)], 1))
            return functional.mse_loss(self.last(found[:, -AHEAD:]), noise)

    torch.manual_seed(1)
    return Model().to(device)


class Trainer:
    """A training on one device."""

    def __init__(self, device, is_compiled):
        import torch

        self.torch, self.device = torch, torch.device(device)
        model = model_of(self.device)
        self.parameters = sum(each.numel() for each in model.parameters())
        self.model = torch.compile(model) if is_compiled else model
        fused = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=fused)

    def step(self, images, actions):
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.device.type, self.torch.bfloat16):
            loss = self.model(images, actions)
        loss.backward()
        self.optimizer.step()


class Data:
    """Batches of a store."""

    def __init__(self, store, to, **load):
        import torch

        import robocache

        self.torch, self.to = torch, to
        self.cache = robocache.EpisodeCache.load(store, **load)
        self.sampler = robocache.WindowSampler.of(
            self.cache,
            period_ns=STEP_NS,
            margin_ns=(STEP_NS, AHEAD * STEP_NS),
            batch_size=BATCH,
            seed=1,
        )
        steps = {"steps": AHEAD, "step_ms": STEP_NS / 1e6}
        config = {"joints": {"horizon": steps}, **{name: {} for name in CAMERAS}}
        self.plan, self.number = self.cache.plan(config), 0
        checked = self.windows()
        assert all(bool(checked[name].valid.all()) for name in config), "expected valid windows"

    def windows(self):
        episodes, instants, _ = self.sampler.batch(0, self.number % len(self.sampler))
        self.number += 1
        return self.cache.windows(episodes, instants, self.plan)

    def batch(self):
        """Images and actions on the device."""
        found = self.windows()
        images = [found[name].torch().reshape(BATCH, 1, 3, SIZE, SIZE) for name in CAMERAS]
        actions = found["joints"].torch()[:, -AHEAD:]
        on_device = [each.to(self.to, non_blocking=True) for each in (*images, actions)]
        return self.torch.cat(on_device[:-1], 1), on_device[-1]

    def rate(self, seconds):
        """Windows per second of the host alone, after the first second."""
        begin, count, began = time.perf_counter(), 0, None
        while began is None or time.perf_counter() - began < seconds:
            self.windows()
            count += 1
            if began is None and time.perf_counter() - begin > 1:
                began, count = time.perf_counter(), 0
        return count * BATCH / (time.perf_counter() - began)


def measure(options):
    """What was measured, by the kind of rows."""
    trainer = Trainer(options.device, options.compile)
    kinds = {"rows in memory": {}, "rows as stored": {"compressed": True}}
    if trainer.device.type == "cuda":
        kinds["rows on the GPU"] = {"device": options.device}
        kinds["rows as stored, windows on the GPU"] = {"device": options.device, "compressed": True}
    found = {
        "device": options.device,
        "cores": len(os.sched_getaffinity(0)),
        "million_parameters": round(trainer.parameters / 1e6),
    }
    if trainer.device.type == "cuda":
        found["device"] = trainer.torch.cuda.get_device_name()
    for kind, load in kinds.items():
        data = Data(options.store, trainer.device, **load)
        windows_per_s = data.rate(options.seconds)
        fixed = [each.clone() for each in data.batch()]
        kinds = {
            "fixed": lambda fixed=fixed: trainer.step(*fixed),
            "windows": lambda data=data: trainer.step(*data.batch()),
        }
        rounds = turns.rounds_ms(kinds, options.rounds, options.steps, trainer.device, warm=3)
        step_ms = turns.medians(rounds)
        longer = step_ms["windows"] - step_ms["fixed"]
        found[kind] = {
            "windows_per_s": round(windows_per_s),
            "step_ms": {name: round(ms, 2) for name, ms in step_ms.items()},
            "data_share_percent": round(100 * longer / step_ms["windows"], 2),
        }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?", help="rows.zarr")
    parser.add_argument("--make", type=Path, nargs=2, metavar=("BAG", "FOLDER"))
    parser.add_argument("--images", default="zstd", help="of the store that is made")
    parser.add_argument("--steps", type=int, default=10, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of windows alone")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    options = parser.parse_args()
    if options.make:
        make(*options.make, options.images)
        return
    if not options.store:
        parser.error("expected a store, or --make")
    print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
