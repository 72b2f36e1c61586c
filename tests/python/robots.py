"""Bags of a small robot, their tensors as `robocache replay` writes them, and their LeRobot datasets."""

import sys
from pathlib import Path

import numpy as np
import waiting
from bags import MS, T0, cloud, image, joints, write_bag
from configs import camera, configuration, counts

import robocache

RATE_HZ = 20
PERIOD = 50 * MS
JOINTS = """\
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joints
    joints: [a, b]
    max_age_ms: 40
    strategy: linear
    required: true
    history: {steps: 3, step_ms: 10}
"""
ACTION = """\
  action:
    type: sensor_msgs/msg/JointState
    topic: /command
    joints: [a, b, g]
    max_age_ms: 100
    dtype: bf16
"""
CONFIG = configuration(
    JOINTS,
    camera(96, 64, name="image_left", layout="chw"),
    ACTION,
    counts("grid", "topic: /cloud", "f16", max_age_ms=200),
    counts("cells", "topic: /cloud", "f32", max_age_ms=200, max_voxels=32),
    rate_hz=20,
    top="lag_ms: 20\n",
)


def picture(seconds):
    """A smooth picture that moves, as those of cameras."""
    y, x = np.mgrid[0:128, 0:192] / 32
    waves = [np.sin(x + seconds), np.cos(y - seconds), np.sin(x + y + 2 * seconds)]
    return (127.5 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


def messages_of(seconds=2.0, seed=0, start=T0, silence=(0, 0)):
    """The messages of a bag, as of `write_bag`. In the silence (two seconds of the bag) there are no joints."""
    random = np.random.default_rng(seed)
    messages = []
    for k in range(round(seconds * 100)):
        ns, t = start + k * 10 * MS, k / 100
        if not silence[0] <= t < silence[1]:
            messages.append(("/joints", ns + 2 * MS, joints(ns, a=np.sin(t + seed), b=np.cos(t))))
        if k % 5 == 0:
            command = joints(ns, a=np.sin(t + 0.1), b=np.cos(t + 0.1), g=float(k % 20 > 10))
            messages.append(("/command", ns + MS, command))
        if k % 4 == 0:
            messages.append(("/camera", ns + 3 * MS, image(ns, picture(t))))
        if k % 10 == 0:
            messages.append(("/cloud", ns + 4 * MS, cloud(ns, random.uniform(0, 2, (12, 3)))))
    return sorted(messages, key=lambda message: message[1])


def record(path, **given):
    """A bag of `messages_of`."""
    return write_bag(path, messages_of(**given))


def robot_of(folder):
    """Two bags in `folder/bags` with their tasks, and a configuration. Returns the tensors of the bags."""
    record(folder / "bags" / "pick", seed=1)
    later = T0 + 3600 * 10**9
    record(folder / "bags" / "place", seed=2, start=later, silence=(0.8, 1.3))
    (folder / "robot.yaml").write_text(CONFIG)
    (folder / "episodes.csv").write_text("bag,start,end,task\npick,0,2,pick it\nplace,0,2,put it\n")
    listed = ["--episodes", folder / "episodes.csv"]
    out = replay([folder / "bags"], folder / "robot.yaml", folder / "mcap", *listed)
    return [tensors(out / f"{name}.mcap") for name in ("pick-0000", "place-0000")]


def runs(tensors):
    """The parts of an episode in which each tick follows the one before."""
    numbers = np.array([tensor.tick for tensor in tensors])
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    edges = [0, *cuts, len(tensors)]
    return [tensors[first:end] for first, end in zip(edges, edges[1:], strict=False)]


def commanded(tensor, start):
    """The values that an action has at a tick, valid, age and target: the newest command at the tick itself, as `record` wrote
    it from `start` on, also if it came later."""
    at = (tensor.stamp_ns - start) // PERIOD
    t = at / 20
    values = np.array([np.sin(t + 0.1), np.cos(t + 0.1), float(5 * at % 20 > 10)], np.float32)
    # To bf16, to nearest, ties to even.
    bits = values.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    age = tensor.stamp_ns - (start + at * PERIOD)
    return rounded.view(np.float32), (age <= 100 * MS, age, tensor.stamp_ns)


def present(tensor, name):
    """The newest values of a stream, valid, age and target: the streams look at no horizon."""
    segment = tensor[name]
    return segment.float32()[-1], (segment.valid[-1], segment.age_ns[-1], segment.target_ns[-1])


def replay(bags, config, out, *options):
    command = [sys.executable, "-m", "robocache", "replay", *bags, "--config", config]
    run = waiting.run([*command, "--out", out, *options])
    assert run.returncode == 0, run.stderr
    return Path(out)


def tensors(file):
    """The tensors of a file that replay wrote."""
    from mcap.reader import make_reader

    with open(file, "rb") as stream:
        messages = make_reader(stream).iter_messages(topics=["fused_tensor", "/fused_tensor"])
        return [robocache.decode(message.data) for _, _, message in messages]
