"""A policy without ROS that acts, which tests start: it answers each tensor, and says a line of JSON.

    acting_process.py SERVICE T0 GROUP JOINT...

Its chunks are one line in time: at `ns` each joint is at `(ns - T0) / 1e10`. A line says the tick, the number of the chunk, and
the newest status, and warnings. It answers only tensors whose joints are valid.
"""

import dataclasses
import json
import sys
import warnings

import numpy as np

from robocache.shared import ActionWriter, TensorReader

ROWS, STEP_NS = 10, 20_000_000


def main():
    service, t0, group, *joints = sys.argv[1:]
    actions = ActionWriter(service, group, joints)
    reader = TensorReader(service)
    print(json.dumps({"ready": True}), flush=True)
    for tensor in reader:
        if not tensor.segments["joints"].valid.all():
            continue
        rows = (tensor.stamp_ns - int(t0) + STEP_NS * np.arange(ROWS)) / 1e10
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            sent = actions.send(tensor, np.repeat(rows[:, None], len(joints), axis=1))
        status = actions.status
        said = {
            "tick": tensor.tick,
            "sent": sent,
            "status": status and dataclasses.asdict(status),
            "warned": [str(one.message) for one in warned],
        }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
