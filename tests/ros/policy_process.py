"""A policy without ROS, which tests start: it says what it reads, a line of JSON per tensor.

    policy_process.py SERVICE [--hold N] [--ticks N]

A line says the tick, its run and epoch, the node's digest, the digest of the bytes as they were read, the first values, and what was
missed. With --hold it keeps the newest N tensors.
"""

import argparse
import collections
import json
import sys

import robocache
from robocache.shared import TensorReader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("service")
    parser.add_argument("--hold", type=int, default=0)
    parser.add_argument("--ticks", type=int)
    arguments = parser.parse_args()
    try:
        import rclpy
    except ImportError:
        pass
    else:
        sys.exit(f"expected no ROS here, found {rclpy.__file__}")
    reader = TensorReader(arguments.service)
    print(json.dumps({"ready": True}), flush=True)
    held = collections.deque(maxlen=arguments.hold)
    for count, tensor in enumerate(reader, 1):
        held.append(tensor)
        said = {
            "tick": tensor.tick,
            "of": [tensor.run, tensor.epoch, reader.run],
            "digest": tensor.digest,
            "digest_of": robocache.digest_of(tensor),
            "held": all(robocache.digest_of(kept) == kept.digest for kept in held),
            "segments": {
                name: [segment.valid.tolist(), segment.float32().ravel()[:64].tolist()]
                for name, segment in tensor.segments.items()
            },
            "missed": reader.missed,
            "info": reader.info and [part["name"] for part in reader.info["segments"]],
        }
        print(json.dumps(said), flush=True)
        if count == arguments.ticks:
            break


if __name__ == "__main__":
    main()
