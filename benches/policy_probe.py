"""The policy of the benchmark: takes every fused tensor and notes its arrival.

    python3 benches/policy_probe.py OUTPUT.npz --topic fused_tensor    # by rclpy
    python3 benches/policy_probe.py OUTPUT.npz --shared NAME           # by shared memory, without rclpy

It runs until SIGINT. Then it writes one entry per tensor: `arrival_ns` (Unix time in the callback),
`tick`, `stamp_ns`, and for each stream `age_ns.<name>` and `valid.<name>` of the newest step.
"""

import argparse
import signal
import threading
import time

import numpy as np


class Notes:
    """The notes of each tensor, in plain lists, which cost the least in Python."""

    def __init__(self):
        self.ticks = []
        self.streams = {}

    def take(self, tensor):
        self.ticks.append((time.time_ns(), tensor.tick, tensor.stamp_ns))
        for name, segment in tensor.segments.items():
            self.streams.setdefault(name, []).append((segment.age_ns[-1], segment.valid[-1]))

    def save(self, path):
        ticks = np.array(self.ticks, dtype=np.int64).reshape(-1, 3)
        columns = dict(zip(("arrival_ns", "tick", "stamp_ns"), ticks.T))
        for name, entries in self.streams.items():
            entries = np.array(entries, dtype=np.int64).reshape(-1, 2)
            columns[f"age_ns.{name}"] = entries[:, 0]
            columns[f"valid.{name}"] = entries[:, 1].astype(bool)
        np.savez(path, **columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--topic", default="fused_tensor")
    parser.add_argument("--shared")
    arguments = parser.parse_args()
    stop = threading.Event()
    notes = Notes()
    if arguments.shared:
        by_shared_memory(arguments.shared, notes, stop)
    else:
        by_topic(arguments.topic, notes, stop)
    notes.save(arguments.output)


def end_by_signal(stop):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


def by_shared_memory(service, notes, stop):
    from robocache.shared import TensorReader

    end_by_signal(stop)
    with TensorReader(service) as reader:
        while not stop.is_set():
            tensor = reader.wait(0.2)
            if tensor is not None:
                notes.take(tensor)


def by_topic(topic, notes, stop):
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from robocache.ros import TensorSubscriber, keep_large_buffers

    keep_large_buffers()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    end_by_signal(stop)
    node = rclpy.create_node("policy_probe")
    TensorSubscriber(node, notes.take, topic=topic)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.2)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
