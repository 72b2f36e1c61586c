"""Sends what the simulated robot sends to a node in lockstep, under a clock that the test sets.

The robot runs first, and its messages are kept. Then they are sent in their order. The clock takes its next step when the
node has published the tick of the last one. So a pause of the machine changes no outcome, and every count is exact.
"""

import json
from dataclasses import dataclass

from fusion import RELIABLE, nanoseconds, type_of
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rosgraph_msgs.msg import Clock

#: More messages than a robot sends here, so that none is lost.
MANY = QoSProfile(depth=100_000, reliability=ReliabilityPolicy.RELIABLE)

#: Messages of an input that the node has not taken: a few of these types, because it has short queues for them.
FEW, FEW_OF = (
    3,
    ("sensor_msgs/msg/Image", "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/CameraInfo"),
)
#: And of all others.
MOST = 100


@dataclass
class Sent:
    """A message of the robot."""

    topic: str
    data: bytes
    #: When it was published, on the system's clock [ns].
    published_ns: int = 0


def sent_by_robot(ros, start, folder, types, *options):
    """What a robot with these options sends on the topics of `types`: name to type. Returns it in its order."""
    found = []

    def keep(topic):
        def on_message(data, info):
            found.append(Sent(topic, bytes(data), info["source_timestamp"]))

        return on_message

    subscriptions = [
        ros.node.create_subscription(type_of(kind), topic, keep(topic), MANY, raw=True)
        for topic, kind in types.items()
    ]
    begin = folder / "begin"
    robot = start(
        "sensor_sim",
        *options,
        *("--depth", MANY.depth, "--no-skip", "--wait-subscribers", 1, "--begin-when", begin),
    )
    ros.spin_until(
        lambda: all(subscription.get_publisher_count() for subscription in subscriptions),
        "the robot's publishers",
        detail=lambda: robot.output,
    )
    begin.touch()
    ros.spin_until(lambda: not robot.running, "the end of the robot", detail=lambda: robot.output)
    assert robot.wait() == 0
    report = json.loads(robot.output.splitlines()[-1])
    # The robot ends when all messages have arrived in this process.
    ros.spin_until(lambda: len(found) == sum(of["sent"] for of in report.values()), f"{report}")
    for subscription in subscriptions:
        ros.node.destroy_subscription(subscription)
    return sorted(found, key=lambda sent: sent.published_ns), report


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
        #: How many messages of each topic had been sent when the node had taken all.
        self._taken = dict.fromkeys(types, 0)
        self._most = {topic: FEW if kind in FEW_OF else MOST for topic, kind in types.items()}
        #: The ticks that were due, in order.
        self.due = []
        self._now_ns = self._settled_ns = fusion.node_time_ns
        fusion.until(self._is_connected, "the node knows these publishers")

    def _parts(self, topic):
        """The numbers of each part that reads this topic."""
        statuses = self.fusion.status.values()
        return [values for _, _, values in statuses if values.get("topic") == topic]

    def _is_connected(self):
        """Whether the node has found each publisher, and has subscribed with what it offers."""

        def connected(topic, publisher):
            parts = self._parts(topic)
            found = all(int(v["publishers"]) and v["qos"].startswith("reliable") for v in parts)
            return parts and found and publisher.get_subscription_count() == len(parts)

        return all(connected(*publisher) for publisher in self.publishers.items())

    def settle(self):
        """Waits until the node has taken all messages: they are rows, are dropped, or may wait for a transform."""

        def taken(topic, values):
            dealt = int(values["accepted"]) + int(values["dropped"])
            sent = self._sent_ns[topic]
            if "waiting" not in values:
                return dealt == len(sent)
            return dealt >= sum(ns <= self._now_ns - self.wait_ns for ns in sent)

        self.fusion.until(
            lambda: all(taken(topic, of) for topic in self._sent_ns for of in self._parts(topic)),
            f"the node has taken { ({topic: len(sent) for topic, sent in self._sent_ns.items()}) }",
        )
        self._settled_ns = self._now_ns
        self._taken = {topic: len(sent) for topic, sent in self._sent_ns.items()}

    def send(self, messages):
        """Sends the messages in their order. One on /clock sets the clock, and waits for its tick."""
        for message in messages:
            if message.topic == "/clock":
                self._step(nanoseconds(deserialize_message(message.data, Clock).clock))
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
