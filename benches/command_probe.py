"""The policy of the benchmark of commands: answers tensors by chunks, and notes when their commands come.

    python3 benches/command_probe.py OUTPUT.npz SERVICE --joints 14 [--commands TOPIC]

It answers twenty tensors per second by shared memory, each after a drawn time of up to 20 ms, so that chunks come at any
time between two command ticks. With --commands all numbers of a chunk are its own number, by which the first command
that uses it is found. Otherwise the rows are a slow wave about the measured joints. It runs until SIGINT, and then writes
for each chunk: `sent_ns` (Unix time before the send), `first_command_ns` (stamp of the first command with its number, 0 if
there is none) and `heard_ns` (when rclpy gave it).
"""

import argparse
import bisect
import random
import signal
import threading
import time

import numpy as np

from robocache.shared import ActionWriter, TensorReader

ROWS, STEP_S, CHUNKS_HZ = 50, 0.02, 20


class Commands:
    """Notes each command on a topic: its number, its stamp, and when it came."""

    def __init__(self, topic, stop):
        self._topic, self._stop = topic, stop
        self.notes = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions
        from sensor_msgs.msg import JointState

        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        node = rclpy.create_node("command_probe")

        def note(message):
            stamp = message.header.stamp
            ns = stamp.sec * 1_000_000_000 + stamp.nanosec
            self.notes.append((message.position[0], ns, time.time_ns()))

        node.create_subscription(JointState, self._topic, note, 1000)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        while not self._stop.is_set():
            executor.spin_once(timeout_sec=0.2)
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


def wave(tensor, joints):
    """Rows of a slow wave about zero."""
    seconds = tensor.stamp_ns / 1e9 + STEP_S * np.arange(ROWS)
    return np.sin(seconds % 1e3)[:, None] * np.full(joints, 0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("service")
    parser.add_argument("--joints", type=int, required=True)
    parser.add_argument("--commands")
    arguments = parser.parse_args()
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())
    commands = Commands(arguments.commands, stop) if arguments.commands else None
    names = [f"joint_{joint}" for joint in range(arguments.joints)]
    sent = answer(arguments, names, stop)
    if commands:
        commands.thread.join()
    heard = sorted(commands.notes) if commands else []
    numbers = [number for number, _, _ in heard]
    found = np.zeros((len(sent), 3), np.int64)
    for at, (sequence, ns) in enumerate(sent):
        place = bisect.bisect_left(numbers, float(sequence))
        known = place < len(heard) and heard[place][0] == sequence
        found[at] = (ns, *(heard[place][1:] if known else (0, 0)))
    columns = dict(zip(("sent_ns", "first_command_ns", "heard_ns"), found.T))
    np.savez(arguments.output, **columns)


def answer(arguments, names, stop):
    """Answers tensors until the end. Returns the number of each chunk and when it was sent."""
    drawn, sent = random.Random(1), []
    writer, reader = ActionWriter(arguments.service, "arm", names), TensorReader(arguments.service)
    due = 0.0
    while not stop.is_set():
        tensor = reader.wait(0.2)
        if tensor is None or time.monotonic() < due or not tensor.segments["joints"].valid.all():
            continue
        due = time.monotonic() + 1 / CHUNKS_HZ - 0.005
        rows = wave(tensor, len(names))
        if arguments.commands:
            rows = np.full((ROWS, len(names)), len(sent) + 1, np.float32)
        time.sleep(drawn.uniform(0, 0.02))
        ns = time.time_ns()
        sent.append((writer.send(tensor, rows), ns))
    return sent


if __name__ == "__main__":
    main()
