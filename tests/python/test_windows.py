"""Rows at their own stamps give the very tensors that the node served, whatever the delays."""

import numpy as np
import pytest
import zarr
from arm_robot import cloud
from bags import (
    MS,
    T0,
    clock,
    empty,
    header,
    image,
    joints,
    made,
    transforms,
    vector,
    wrench,
    write_bag,
    write_mcap,
)
from configs import camera, configuration, counts
from replays import replay
from windows import Ring, segment

# The lags are shorter than many delays, and the rings are only slightly longer than the windows.
NUMBERS = """\
  arm:
    type: sensor_msgs/JointState
    topic: /joints
    groups: {arm: [a, b], gripper: [g]}
    max_age_ms: 30
    max_gap_ms: 40
    strategy: linear
    lag_ms: 20
    history: {steps: 3, step_ms: 10}
    ring_rows: 12
    dtype: f32
  half:
    type: sensor_msgs/JointState
    topic: /joints
    joints: [a, b]
    max_age_ms: 30
    strategy: linear
    fill: last
    dtype: f16
  tool:
    type: geometry_msgs/WrenchStamped
    topic: /wrench
    max_age_ms: 25
    strategy: nearest
    lag_ms: 10
    dtype: f32
  tip:
    type: geometry_msgs/PoseStamped
    topic: /tip
    in_frame: map
    max_age_ms: 60
    strategy: hold
    dtype: f32
  plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    joints: [a, b]
    max_age_ms: 40
    max_gap_ms: 120
    history: {steps: 3, step_ms: 20}
    horizon: {steps: 5, step_ms: 30}
    ring_rows: 10
    dtype: f32
  held_plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    joints: [a, b]
    strategy: hold
    max_age_ms: 70
    horizon: {steps: 4, step_ms: 25}
    dtype: f32
"""
BOTH = "inputs: [{topic: /front}, {topic: /rear}]"
CONFIG = configuration(
    NUMBERS,
    camera(96, 72, more="    history: {steps: 2, step_ms: 30}\n"),
    counts("cells", BOTH, "f32"),
    counts("cells_any", BOTH, "f32", more="    valid_when: any\n"),
    counts("cells_listed", BOTH, "f32", more="    valid_when: [/rear]\n"),
    top="tf: {wait_ms: 80}\n",
)
STREAMS = [
    "arm",
    "half",
    "tool",
    "camera",
    "cells",
    "cells_any",
    "cells_listed",
    "tip",
    "plan",
    "held_plan",
]


def trajectory(ns, random):
    duration, kind = "builtin_interfaces/msg/Duration", "trajectory_msgs/msg/JointTrajectoryPoint"
    count = int(random.integers(0, 7))
    first = 0 if random.random() < 0.3 else int(random.integers(1, 60)) * MS
    points = [
        empty(
            kind,
            positions=random.normal(size=2),
            time_from_start=made(duration, sec=0, nanosec=first + 35 * MS * k),
        )
        for k in range(count)
    ]
    kind = "trajectory_msgs/msg/JointTrajectory"
    return empty(kind, header=header(ns), joint_names=["a", "b"], points=points)


def messages(random, begin, received, seconds=1):
    """(topic, receive stamp, message) of a robot whose messages come late and in any order."""
    sent = []

    def send(topic, ns, message, least, most):
        # Two of three messages come in time; stamps are sometimes those of the message before.
        late = int(random.integers(least, most) if random.random() < 0.35 else least)
        sent.append((topic, received + (ns - begin) + late * MS, message))

    def stamps(period_ms):
        for at in range(0, 1000 * seconds, period_ms):
            jitter = int(random.integers(0, period_ms * MS))
            yield begin + at * MS + (jitter if random.random() < 0.8 else 0)

    for ns in stamps(4):
        send("/joints", ns, joints(ns, a=float(random.normal()), b=float(random.normal())), 2, 70)
    for ns in stamps(11):
        send("/joints", ns, joints(ns, g=float(random.normal())), 2, 50)
        if random.random() < 0.2:
            send("/joints", ns, joints(ns, g=float(random.normal())), 4, 50)
    for ns in stamps(7):
        send("/wrench", ns, wrench(ns, *random.normal(size=3)), 1, 60)
    for ns in stamps(33):
        pixels = random.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        send("/camera", ns, image(ns, pixels), 8, 150)
    for topic in ("/front", "/rear"):
        for ns in stamps(40):
            points = random.uniform(0.01, 0.99, (15, 3)) * [4, 3, 2]
            send(topic, ns, cloud(ns, points), 5, 120)
    for ns in stamps(20):
        pose = made(
            "geometry_msgs/msg/Pose",
            position=vector("Point", float(random.normal()), 0, 0),
            orientation=vector("Quaternion", 0, 0, 0, 1),
        )
        tip = made("geometry_msgs/msg/PoseStamped", header=header(ns, "tool"), pose=pose)
        send("/tip", ns, tip, 1, 20)
        link = transforms((ns + 30 * MS, "map", "tool", float(random.normal())))
        send("/tf", ns, link, 30, 90)
    for ns in stamps(45):
        # A plan may start long before it comes, or after.
        start = ns + int(random.integers(-150, 60)) * MS
        if start > begin:
            send("/plan", ns, trajectory(start, random), 1, 90)
    return sent


def bag(path, seed, simulated):
    random = np.random.default_rng(seed)
    if not simulated:
        return write_bag(path, sorted(messages(random, T0, T0), key=lambda entry: entry[1]))
    sent = []
    for loop in range(2):
        begin, received = 5000 * MS + 400 * MS * loop, T0 + 4000 * MS * loop
        sent += messages(random, begin, received)
        at = 0
        while at < 1100:
            # Steps of a tick, of a part of one and of several, also onto a tick.
            sent.append(("/clock", received + at * MS, clock(begin - begin % 1000 + at * MS)))
            at += int(random.choice([3, 10, 10, 10, 20, 35]))
    return write_bag(path, sorted(sent, key=lambda entry: entry[1]))


@pytest.mark.parametrize("simulated", [False, True])
def test_every_tick_follows_from_the_rows_bit_for_bit(tmp_path, simulated):
    bags = [bag(tmp_path / f"bag{seed}", seed, simulated) for seed in (1, 2)]
    ticks, checked, replaced = check(tmp_path, CONFIG, bags, STREAMS)
    assert ticks > 150
    # Each stream had valid steps and others, and rows that a later message replaced.
    assert all(good > 50 and bad > 0 for good, bad in checked.values()), checked
    valid = [checked[name][0] for name in ("cells", "cells_listed", "cells_any")]
    assert valid[0] <= valid[1] <= valid[2] and valid[0] < valid[2], checked
    assert len(set(valid)) == 3 or not simulated, checked
    assert all(replaced[name] > 0 for name in ("arm", "cells", "plan", "held_plan")), replaced


TIP = """
rate_hz: 100
tf: {wait_ms: 400}
streams:
  tip:
    type: geometry_msgs/PoseStamped
    topic: /tip
    in_frame: map
    max_age_ms: 60
    strategy: hold
    history: {steps: 4, step_ms: 10}
    ring_rows: 4
    dtype: f32
"""


@pytest.mark.parametrize("count", [3, 7])
def test_a_fixed_transform_may_be_older_than_the_clock(tmp_path, count):
    """It comes after the simulator's first /clock, and was published before. Poses wait for it; 7 do not fit the ring."""
    begin = 5000 * MS
    sent = [("/clock", T0 + k * 10 * MS, clock(begin + k * 10 * MS), 0) for k in range(30)]
    # More poses follow, some of them with the stamp of one that waited.
    stamps = [*range(2, 2 + 4 * count, 4), 4 * count - 6, 4 * count - 2, *range(45, 150, 10)]
    at = [*range(20, 20 + 2 * count, 2), 71, 83, *range(91, 200, 10)]
    for stamp, received in zip(stamps, at, strict=False):
        pose = made(
            "geometry_msgs/msg/Pose",
            position=vector("Point", received, 0, 0),
            orientation=vector("Quaternion", 0, 0, 0, 1),
        )
        tip = made(
            "geometry_msgs/msg/PoseStamped", header=header(begin + stamp * MS, "tool"), pose=pose
        )
        sent.append(("/tip", T0 + received * MS, tip, 0))
    sent = [(topic, ns, message, ns - MS) for topic, ns, message, _ in sent]
    static = transforms((begin - 900 * MS, "map", "tool", 0.5))
    sent.append(("/tf_static", T0 + 41 * MS, static, T0 - 300 * MS))
    path = write_mcap(tmp_path / "sim.mcap", sorted(sent, key=lambda entry: entry[1]))
    ticks, checked, replaced = check(tmp_path, TIP, [path], ["tip"])
    assert ticks > 20 and checked["tip"][0] > 20 and replaced["tip"] > 0, (checked, replaced)
    (ring,) = zarr.open_group(tmp_path / "out/rows.zarr", mode="r")["streams/tip"].groups()
    received = ring[1]["received_ns"][:]
    assert (received < begin + 300 * MS).all(), received


def check(tmp_path, text, bags, names):
    """Compares rows with tensors; returns the ticks, and by stream: valid and other steps, replaced rows."""
    config = tmp_path / "config.yaml"
    config.write_text(text)
    for kind in ("zarr", "rows"):
        outcomes = replay(config, tmp_path / "out", *bags, options=["--format", kind])
        assert [outcome for outcome, _ in outcomes] == ["done"] * len(bags)
    data = zarr.open_group(tmp_path / "out/tensors.zarr", mode="r")["data"]
    streams = zarr.open_group(tmp_path / "out/rows.zarr", mode="r")["streams"]
    tick, epoch = data["tick"][:], data["epoch"][:]
    about = zarr.open_group(tmp_path / "out/tensors.zarr", mode="r").attrs["robocache"]
    ends = iter(zarr.open_group(tmp_path / "out/tensors.zarr", mode="r")["meta/episode_ends"][:])
    begin, checked, replaced = 0, {name: [0, 0] for name in names}, {}
    for number, episode in enumerate(about["episodes"]):
        end = [int(next(ends)) for _ in range(len(episode["breaks"]) + 1)][-1]
        for name in names:
            rings = [Ring(group, number) for _, group in sorted(streams[name].groups())]
            for ring in rings:
                keys = [ring.arrays[key] for key in ("received_ns", "stamp_ns", "epoch")]
                assert (np.lexsort(keys) == np.arange(len(keys[0]))).all(), name
                replaced[name] = replaced.get(name, 0) + int(ring.arrays["replaced"].sum())
            served, valid, ages = (
                data[name][begin:end],
                data[f"{name}.valid"][begin:end],
                data[f"{name}.age_ns"][begin:end],
            )
            for at in range(end - begin):
                when = int(data["stamp_ns"][begin + at]), int(epoch[begin + at])
                values, good, old = segment(rings, *when)
                where = (name, number, int(tick[begin + at]), when)
                assert valid[at].tolist() == good, where
                assert ages[at].tolist() == old, where
                expected = values.astype(served.dtype).reshape(served[at].shape)
                assert expected.tobytes() == served[at].tobytes(), where
                checked[name][0] += sum(good)
                checked[name][1] += len(good) - sum(good)
        begin = end
    assert begin == len(tick)
    return begin, checked, replaced
