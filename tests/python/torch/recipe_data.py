"""Small data of every source that docs/training.md names, as rows with the streams `state`, `top` and `action`."""

import sys

import dataset_files
import lerobot_files
import numpy as np
import robots
import waiting
from bags import MS, T0, image, joints, write_bag

#: Lengths of the episodes in frames: each is shorter than some chunk.
LENGTHS = (70, 60, 50, 40)
#: Of bags. The second episode has none.
TASKS = ("pick", "", "place", "place")
ROBOT = """\
rate_hz: 30
lag_ms: 30
streams:
  state:
    type: sensor_msgs/msg/JointState
    topic: /joints
    joints: [a, b, c]
    max_age_ms: 60
    strategy: linear
  action:
    type: sensor_msgs/msg/JointState
    topic: /command
    joints: [a, b]
    max_age_ms: 60
    strategy: linear
  top:
    type: sensor_msgs/msg/Image
    topic: /camera
    max_age_ms: 100
    dtype: u8
    image: {resize: {width: 64, height: 48}}
"""


def of_lerobot(folder):
    """A LeRobot dataset v2.1, imported."""
    lerobot_files.write(folder / "dataset", lengths=LENGTHS)
    return _imported(folder)


def of_rlds(folder):
    """An RLDS dataset, imported."""
    dataset_files.write_rlds(folder / "dataset", lengths=LENGTHS)
    (folder / "mapping.yaml").write_text(dataset_files.RLDS_MAPPING)
    return _imported(folder, "--mapping", folder / "mapping.yaml")


def of_bags(folder):
    """Bags of a robot whose camera and joints have other rates, replayed with their tasks."""
    lines = ["bag,start,end,task"]
    for number, length in enumerate(LENGTHS):
        write_bag(folder / "bags" / f"take_{number}", sorted(_messages(number, length), key=_stamp))
        lines.append(f"take_{number},0,{length / 30:.2f},{TASKS[number]}")
    (folder / "robot.yaml").write_text(ROBOT)
    (folder / "episodes.csv").write_text("\n".join(lines))
    options = ["--format", "rows", "--episodes", folder / "episodes.csv"]
    robots.replay([folder / "bags"], folder / "robot.yaml", folder / "data", *options)
    return folder / "data"


SOURCES = {"lerobot": of_lerobot, "rlds": of_rlds, "bags": of_bags}


def _imported(folder, *options):
    command = [sys.executable, "-m", "robocache", "import", folder / "dataset", *options]
    done = waiting.run([*command, "--out", folder / "data"])
    assert done.returncode == 0, done.stderr
    return folder / "data"


def _stamp(message):
    return message[1]


def _messages(number, length):
    start = T0 + number * 3600 * 10**9
    for at in range(round(length * 100 / 30)):
        ns, t = start + at * 10 * MS, at / 100
        yield "/joints", ns, joints(ns, a=np.sin(t), b=np.cos(t), c=t)
        yield (
            "/command",
            ns + 3 * MS,
            joints(ns + 3 * MS, a=np.sin(t + 0.1), b=0.5),
        )  # b never moves
        if at % 3 == 0:
            yield "/camera", ns + 5 * MS, image(ns, dataset_files.picture(at))
