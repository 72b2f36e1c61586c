"""Simulated robots that begin when the node and they have found each other, and send late rather than never."""

import itertools
import json

#: The configuration of the robot's joints.
JOINTS = {
    "type": "sensor_msgs/msg/JointState",
    "topic": "/joint_states",
    "max_age_ms": 100,
    "qos": {"reliability": "reliable"},  # and the default depth
    "joints": [f"joint_{i}" for i in range(14)],
}
#: The streams of a robot, as the options of their rates are called.
STREAMS = ("camera-front", "camera-wrist", "lidar", "joints", "wrench", "imu")


def rates(**hz):
    """The options of a robot that has only these streams, at these rates [Hz]."""
    given = {name.replace("_", "-"): rate for name, rate in hz.items()}
    return [word for name in STREAMS for word in (f"--{name}-hz", given.get(name, 0))]


_numbers = itertools.count()


class Robot:
    """A running robot. It sends nothing before `begin`."""

    def __init__(self, start, folder, *options):
        self._begin = folder / f"begin-{next(_numbers)}"
        options = [*options, "--no-skip", "--wait-subscribers", 1, "--begin-when", self._begin]
        self.process = start("sensor_sim", *options)

    def begin(self):
        """Sends from now on, as soon as each of its topics has a subscriber."""
        self._begin.touch()
        self.process.wait_for("sensor_sim: seed")

    def stop(self):
        """Ends it after its last message has come. Returns how many messages of each stream it sent."""
        assert self.process.stop() == 0
        return self._sent()

    def wait(self):
        """Waits for its end by itself. Returns how many messages of each stream it sent."""
        assert self.process.wait() == 0
        return self._sent()

    def _sent(self):
        report = json.loads(self.process.output.splitlines()[-1])
        assert not any(counts["skipped"] for counts in report.values())
        return {stream: counts["sent"] for stream, counts in report.items()}


def start_robot(start, folder, fusion, streams, *options):
    """Starts a robot that feeds these streams of the node, and lets it begin when the node has found it."""
    before = {stream: fusion.value(stream, "publishers") for stream in streams}
    robot = Robot(start, folder, *options)
    for stream in streams:
        fusion.await_value(stream, "publishers", before[stream] + 1)
    robot.begin()
    return robot
