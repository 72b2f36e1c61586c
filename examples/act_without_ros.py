"""A policy without ROS that acts: it answers tensors in shared memory with chunks, and the node makes commands of them.

    python3 examples/act_without_ros.py robot/fused_tensor --group follower --stream follower

It needs the robocache wheel and NumPy, in any Python environment. The node runs with `shared_output:=robot/fused_tensor`, a
configuration with `commands`, and enabled commands (docs/actions.md). Replace `think` by a network.

Its joints are those of the stream, by the names that the node publishes. So a change of the configuration cannot exchange joints
silently.
"""

import argparse
import json
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from robocache.shared import ActionWriter, TensorReader

#: As in `rows` of the configuration.
ROWS, STEP_NS = 40, 20_000_000
AMPLITUDE, ENDING = 0.4, ".position"


def path(ns, joints):
    """The path: positions [instants, joints] at these instants [ns], waves of 4 to 10 s that differ by joint."""
    seconds = (np.asarray(ns, np.int64) % 3_600_000_000_000)[:, None] / 1e9
    periods = 4 + 6 * np.arange(joints) / max(joints - 1, 1)
    return AMPLITUDE * np.sin(2 * np.pi * seconds / periods)


def think(tensor, joints, drawn):
    """In place of a network: rows of the path for the instants to come, after the time that an inference takes."""
    time.sleep(drawn.uniform(0.08, 0.25))
    return path(tensor.stamp_ns + STEP_NS * np.arange(ROWS), joints)


def joints_of(info, stream):
    """The joints of the stream, as the node names its channels."""
    channels = {segment["name"]: segment["channels"] for segment in info["segments"]}
    found = [name for name in channels.get(stream, []) if name.endswith(ENDING)]
    if not found:
        sys.exit(f"expected joint positions in the stream {stream!r}; the node has {channels}")
    return [name.removesuffix(ENDING) for name in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("service", help="the node's parameter shared_output")
    parser.add_argument("--group", required=True, help="of the configuration's commands")
    parser.add_argument("--stream", required=True, help="with the measured joints of the group")
    parser.add_argument("--notes", type=Path, help="writes what was sent, and the last status")
    arguments = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    drawn, sent, writer = random.Random(1), [], None
    reader = TensorReader(arguments.service)
    while not stop.is_set():
        tensor = reader.wait(timeout_s=0.5)
        if tensor is None:
            print(f"not acting: no tensor of {arguments.service!r} for 0.5 s", file=sys.stderr)
            continue
        if writer is None:
            if reader.info is None:
                continue  # it comes a moment later
            joints = joints_of(reader.info, arguments.stream)
            writer = ActionWriter(arguments.service, arguments.group, joints)
        if not tensor.segments[arguments.stream].valid.all():
            print("not acting: the measured joints are invalid", file=sys.stderr)
            continue
        rows = think(tensor, len(joints), drawn)
        sent.append((writer.send(tensor, rows), tensor.stamp_ns))
    status = writer.status if writer else None
    if arguments.notes:
        notes = {"joints": joints if writer else [], "sent": sent, "step_ns": STEP_NS, "rows": ROWS}
        told = {} if status is None else vars(status)
        arguments.notes.write_text(json.dumps({**notes, "status": told}), encoding="utf-8")
    counted = status.chunks if status else 0
    print(f"sent {len(sent)} chunks, of which {counted} counted")


if __name__ == "__main__":
    main()
