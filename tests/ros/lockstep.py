"""Sends what the simulated robot sends to a node in lockstep, under a clock that the test sets.

The robot runs first, and its messages are kept. Then they are sent in their order. The clock takes its next step when the
node has published the tick of the last one. So a pause of the machine changes no outcome, and every count is exact.
"""

import json
import struct
from dataclasses import dataclass

import numpy as np
from fusion import RELIABLE, type_of
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot import Robot

#: More messages than a robot sends here, so that none is lost.
MANY = QoSProfile(depth=100_000, reliability=ReliabilityPolicy.RELIABLE)
#: The node has short queues for messages of these types, so only so many may be on their way.
SHORT = ("sensor_msgs/msg/Image", "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/CameraInfo")
FEW, MOST = 3, 100


@dataclass
class Sent:
    """A message of the robot."""

    topic: str
    kind: str
    data: bytes

    @property
    def stamp_ns(self):
        """The instant of the clock, the header or the first transform [ns]."""
        # After the header of the encoding, a list of transforms has their number.
        at = 8 if self.kind == "tf2_msgs/msg/TFMessage" else 4
        seconds, nanoseconds = struct.unpack_from("<iI", self.data, at)
        return seconds * 10**9 + nanoseconds


def sent_by_robot(ros, start, folder, types, *options):
    """What a robot with these options sends on the topics of `types`, name to type, by topic; and its report."""
    found = {topic: [] for topic in types}

    def keep(topic, kind):
        return lambda data: found[topic].append(Sent(topic, kind, bytes(data)))

    subscriptions = [
        ros.node.create_subscription(type_of(kind), topic, keep(topic, kind), MANY, raw=True)
        for topic, kind in types.items()
    ]
    robot = Robot(start, folder, *options, "--depth", MANY.depth)
    ros.spin_until(
        lambda: all(subscription.get_publisher_count() for subscription in subscriptions),
        "the robot's publishers",
        detail=lambda: robot.process.output,
    )
    robot.begin()
    ros.spin_until(
        lambda: not robot.process.running,
        "the end of the robot",
        detail=lambda: robot.process.output,
    )
    count = sum(robot.wait().values())
    # The robot ends when all messages have arrived in this process.
    ros.spin_until(lambda: sum(map(len, found.values())) == count, f"{count} messages of the robot")
    for subscription in subscriptions:
        ros.node.destroy_subscription(subscription)
    return found, json.loads(robot.process.output.splitlines()[-1])


def merged(found, delay_ns=0):
    """Messages by topic as one list. Each comes at its stamp, or up to `delay_ns` later, in the order of its topic.

    The clock comes first, and at each of its instants. When the robot has sent a message does not count: it is made of
    threads, which the machine may delay.
    """
    random, entries = np.random.default_rng(0), []
    begin_ns = found["/clock"][0].stamp_ns
    for topic, messages in found.items():
        due_ns = begin_ns
        for sent in messages:
            late_ns = 0 if topic == "/clock" else int(random.integers(delay_ns + 1))
            due_ns = max(due_ns, sent.stamp_ns + late_ns)
            entries.append((due_ns, topic != "/clock", sent))
    return [sent for _, _, sent in sorted(entries, key=lambda entry: entry[:2])]


class Lockstep:
    """Sends messages to a node that `fusion` drives without publishers of its own.

    Args:
        settle_ns: the clock never advances by as much as this before the node has made rows of all messages.
        wait_ns: except for those of this last time, which may wait for a transform.
        qos: the quality of service by topic, where it is not reliable and volatile.
    """

    def __init__(self, fusion, types, settle_ns, wait_ns, qos=None):
        self.fusion, self.settle_ns, self.wait_ns = fusion, settle_ns, wait_ns
        create = fusion.ros.node.create_publisher
        self.publishers = {
            topic: create(type_of(kind), topic, (qos or {}).get(topic, RELIABLE))
            for topic, kind in types.items()
        }
        #: For each message of a topic, what the clock was when it was sent.
        self._sent_ns = {topic: [] for topic in types}
        #: Number of messages of each topic that the node has taken, as far as is known.
        self._taken = dict.fromkeys(types, 0)
        self._most = {topic: FEW if kind in SHORT else MOST for topic, kind in types.items()}
        #: The ticks that were due, in order.
        self.due = []
        fusion.until(self._is_connected, "the node knows these publishers")
        fusion.fence()
        self._now_ns = self._settled_ns = fusion.node_time_ns

    def _parts(self, topic):
        """The numbers of each part that reads this topic."""
        statuses = self.fusion.status.values()
        return [values for _, _, values in statuses if values.get("topic") == topic]

    def _is_connected(self):
        """True if the node has found each publisher, and has subscribed with what it offers."""

        def connected(topic, publisher):
            parts = self._parts(topic)
            found = all(int(v["publishers"]) and v["qos"].startswith("reliable") for v in parts)
            return parts and found and publisher.get_subscription_count() == len(parts)

        return all(connected(*publisher) for publisher in self.publishers.items())

    def _dealt(self, topic):
        """Number of messages on a topic that are rows or were dropped, in each part that reads it."""
        return min(int(of["accepted"]) + int(of["dropped"]) for of in self._parts(topic))

    def settle(self):
        """Waits until the node has taken all messages: they are rows, are dropped, or may wait for a transform."""

        def taken(topic):
            sent = self._sent_ns[topic]
            if any("waiting" in of for of in self._parts(topic)):
                return self._dealt(topic) >= sum(ns <= self._now_ns - self.wait_ns for ns in sent)
            return self._dealt(topic) == len(sent)

        counts = {topic: len(sent) for topic, sent in self._sent_ns.items()}
        self.fusion.until(lambda: all(map(taken, self._sent_ns)), f"the node has taken {counts}")
        self._settled_ns = self._now_ns
        self._taken = {topic: self._dealt(topic) for topic in self._sent_ns}

    def send(self, messages):
        """Sends the messages in their order. One on /clock sets the clock, and waits for its tick."""
        for message in messages:
            if message.topic == "/clock":
                self._step(message.stamp_ns)
                continue
            sent = self._sent_ns[message.topic]
            if len(sent) - self._taken[message.topic] == self._most[message.topic]:
                self.settle()
            self.publishers[message.topic].publish(message.data)
            sent.append(self._now_ns)

    def _step(self, ns):
        fusion, before = self.fusion, self._now_ns
        if ns < before or ns - self._settled_ns >= self.settle_ns:
            self.settle()
        self._now_ns = ns
        if ns < before:
            self._settled_ns = ns
            # Nothing of the time before waits any more.
            self._sent_ns = {
                topic: [ns - self.wait_ns] * len(sent) for topic, sent in self._sent_ns.items()
            }
        elif ns // fusion.period_ns == before // fusion.period_ns:
            fusion.set_clock(ns)
            return
        tick = ns // fusion.period_ns
        self.due.append(tick)

        def served():
            fusion.set_clock(ns)
            return fusion.ros.spin_for(1.0, until=lambda: fusion.ticks[-1:] == [tick])

        fusion.until(served, f"the tensor of tick {tick}")
