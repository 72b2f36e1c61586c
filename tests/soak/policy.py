"""A policy of the soak: checks every tensor, and says four times a second what came, a line of JSON each.

    python3 tests/soak/policy.py --topic fused_tensor     # by rclpy
    python3 tests/soak/policy.py --shared NAME            # by shared memory, without ROS
    python3 tests/soak/policy.py --probe                  # no policy: shows what the machine itself delays

A line has the time of its end, the number of tensors, those whose newest steps are all valid, their latencies, what
was wrong, and now and then the values of the joints.
"""

import argparse
import json
import signal
import threading
import time
import zlib

import numpy as np

import robocache
from robocache.message.tensor import NO_AGE

#: Time between two lines, and between two values of the joints [s].
PERIOD_S, WITNESS_S = 0.25, 1.0
MS = 1_000_000
#: Of robot.yaml: the period of the ticks, the lag, the greatest age and the greatest gap of each stream [ms].
TICK_MS = 10
LIMITS_MS = {
    "joints": (40, 60, 20),
    "wrench": (40, 60, 0),
    "imu": (40, 60, 40),
    "camera": (100, 250, 0),
    "lidar": (100, 450, 0),
}
#: Faults that a line has at most: one is enough.
MOST_FAULTS = 5


def faults_of(tensor, last_tick):
    """What is wrong with a tensor: a list of texts."""
    wrong = []
    if robocache.digest_of(tensor) != tensor.digest:
        wrong.append(f"tick {tensor.tick}: digest")
    if tensor.stamp_ns != tensor.tick * TICK_MS * MS:
        wrong.append(f"tick {tensor.tick}: stamp {tensor.stamp_ns}")
    if last_tick is not None and tensor.tick <= last_tick:
        wrong.append(f"tick {tensor.tick} after {last_tick}")
    streams = {name.partition(".")[0] for name in tensor.segments}
    if streams != set(LIMITS_MS):
        wrong.append(f"tick {tensor.tick}: streams {sorted(streams)}")
        return wrong
    for name, segment in tensor.segments.items():
        wrong += [f"tick {tensor.tick}: {name}: {what}" for what in _of_segment(tensor, segment)]
    return wrong


def _of_segment(tensor, segment):
    lag, max_age, max_gap = LIMITS_MS[segment.name.partition(".")[0]]
    target, age = int(segment.target_ns[-1]), int(segment.age_ns[-1])
    if target != tensor.stamp_ns - lag * MS:
        yield f"target {target}"
    values = segment.array[-1]
    if not segment.valid[-1]:
        if np.any(values):
            yield "an invalid step that is not filled"
    elif not -max_gap * MS <= age <= max_age * MS:
        yield f"valid at an age of {'none' if age == NO_AGE else age}"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        yield "not finite"


class Notes:
    """What came since the last line."""

    def __init__(self):
        self._last_tick = None
        self._witness_at = 0.0
        self._begin()

    def _begin(self):
        self._latencies, self._faults, self._witness = [], [], None
        self._valid, self._first_valid, self._invalid = 0, None, {}
        self._end = time.monotonic() + PERIOD_S

    def take(self, tensor):
        """Notes a tensor."""
        now = time.time_ns()
        self._latencies.append((now - tensor.stamp_ns) // 1000)
        self._faults += faults_of(tensor, self._last_tick)
        self._last_tick = tensor.tick
        invalid = [name for name, segment in tensor.segments.items() if not segment.valid[-1]]
        for name in invalid:
            self._invalid[name] = self._invalid.get(name, 0) + 1
        if not invalid:
            self._valid += 1
            if self._first_valid is None:
                self._first_valid = [now / 1e9, tensor.stamp_ns / 1e9]
        joints = tensor.segments["joints"]
        if joints.valid[-1] and time.monotonic() - self._witness_at > WITNESS_S:
            self._witness_at = time.monotonic()
            values = [float(value) for value in joints.array[-1]]
            self._witness = [int(joints.target_ns[-1]), int(joints.age_ns[-1]), values]

    def delayed(self, ns):
        """Notes a latency without a tensor."""
        self._latencies.append(ns // 1000)

    def say(self, missed=0):
        """Writes a line if it is time."""
        if time.monotonic() < self._end:
            return
        line = {
            "at": time.time(),
            "tensors": len(self._latencies),
            "valid": self._valid,
            "first_valid": self._first_valid,
            "invalid": self._invalid,
            "missed": missed,
            "latency_us": self._latencies,
            "faults": self._faults[:MOST_FAULTS],
            "witness": self._witness,
        }
        print(json.dumps(line), flush=True)
        self._begin()


def by_shared_memory(service, notes, stop):
    from robocache.shared import TensorReader

    with TensorReader(service) as reader:
        while not stop.is_set():
            tensor = reader.wait(PERIOD_S)
            if tensor is not None:
                notes.take(tensor)
            notes.say(reader.missed)


def by_topic(topic, notes, stop):
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from robocache.ros import TensorSubscriber, keep_large_buffers

    keep_large_buffers()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("soak_policy")
    TensorSubscriber(node, notes.take, topic=topic)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not stop.is_set():
        executor.spin_once(timeout_sec=PERIOD_S)
        notes.say()
    node.destroy_node()
    rclpy.shutdown()


def by_clock(notes, stop):
    """Wakes at each tick, without a node, and works about as long as a policy."""
    data = bytes(200_000)
    while not stop.is_set():
        now = time.time_ns()
        tick = (now // (TICK_MS * MS) + 1) * TICK_MS * MS
        time.sleep((tick - now) / 1e9)
        zlib.crc32(data)
        notes.delayed(time.time_ns() - tick)
        notes.say()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--topic")
    way.add_argument("--shared")
    way.add_argument("--probe", action="store_true")
    arguments = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if arguments.probe:
        by_clock(Notes(), stop)
    elif arguments.shared:
        by_shared_memory(arguments.shared, Notes(), stop)
    else:
        by_topic(arguments.topic, Notes(), stop)


if __name__ == "__main__":
    main()
