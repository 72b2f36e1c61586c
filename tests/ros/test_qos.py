"""The node asks for what its publishers offer, and again when they come and go."""

import itertools

import middlewares
import pytest
from fusion import start_fusion, streams, wrench
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

PROFILES = list(
    itertools.product(
        (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT),
        (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL),
    )
)
RELIABLE, RELIABLE_LATCHED, BEST_EFFORT, BEST_EFFORT_LATCHED = PROFILES
LEAST = "best_effort, volatile"


def words(profile):
    """A profile as the diagnostics say it."""
    return ", ".join(policy.name.lower() for policy in profile)


def publisher(ros, profile, depth=1000):
    reliability, durability = profile
    qos = QoSProfile(depth=depth, reliability=reliability, durability=durability)
    return ros.node.create_publisher(WrenchStamped, "/w", qos)


def start_node(ros, start, folder, qos=None, **stream):
    """A node with one stream."""
    stream = {"type": "geometry_msgs/msg/WrenchStamped", "qos": qos or {}, **stream}
    config = {"streams": streams(w=stream)}
    return start_fusion(ros, start, folder, config, sim_time=False, publish=False)


def asks(fusion):
    return fusion.status["w"][2]["qos"]


def await_asked(fusion, expected):
    fusion.until(lambda: asks(fusion) == expected, f"the subscription asks for {expected}")


class Sender:
    """Sends wrenches of the system's time, and counts what the node has heard of them."""

    def __init__(self, ros):
        self.ros, self.sent = ros, 0

    def send(self, publisher, count=1):
        for _ in range(count):
            ns = self.ros.node.get_clock().now().nanoseconds
            publisher.publish(wrench(ns, self.sent, 0, 0))
            self.sent += 1

    def send_until(self, fusion, publishers, predicate, what):
        """Sends with all publishers, one after the other, until the predicate holds."""

        def sent():
            for each in publishers:
                self.send(each)
            return self.ros.spin_for(0.02, until=predicate)

        fusion.until(sent, what)

    def send_and_await(self, fusion, publishers, count):
        """Sends so many with each publisher. Waits until each message so far was heard, or counted as lost.

        A loss at the end leaves no gap until the next message comes. So it sends again if that takes long.
        """
        for publisher in publishers:
            self.send(publisher, count)

        def all_heard():
            if self.ros.spin_for(1.0, until=lambda: heard(fusion) >= self.sent):
                assert heard(fusion) == self.sent, "some were taken twice"
                return True
            for publisher in publishers:
                self.send(publisher)
            return False

        fusion.until(all_heard, f"{self.sent} heard or lost")


def received(fusion):
    return fusion.value("w", "received")


def test_nothing_is_lost_or_doubled_when_publishers_come_and_go(ros, start, tmp_path):
    """A reliable publisher goes on while others come and go. The request changes with the others.

    Of N messages that the node can hear, N are received or counted as lost.
    """
    fusion = start_node(ros, start, tmp_path, qos={"depth": 1000})
    sender, first = Sender(ros), publisher(ros, RELIABLE_LATCHED)
    # The publisher knows the subscription at once. Until the node knows the publisher, it gets nothing from it.
    fusion.await_value("w", "publishers", 1)
    await_asked(fusion, words(RELIABLE_LATCHED))
    sender.send_and_await(fusion, [first], 50)
    for other, expected in (
        (RELIABLE, words(RELIABLE)),
        (BEST_EFFORT_LATCHED, words(BEST_EFFORT_LATCHED)),
        (BEST_EFFORT, LEAST),
    ):
        second = publisher(ros, other)
        sender.send_until(fusion, [first], lambda: asks(fusion) == expected, f"{expected}")
        fusion.until(lambda: second.get_subscription_count() > 0, "the second publisher is found")
        for _ in range(5):
            sender.send_and_await(fusion, [first, second], 20)
        # Nothing is on its way when the publisher ends.
        ros.node.destroy_publisher(second)
        sender.send_until(
            fusion, [first], lambda: asks(fusion) == words(RELIABLE_LATCHED), "as before"
        )
        sender.send_and_await(fusion, [first], 50)
    if middlewares.IN_USE == "fastrtps":
        assert heard(fusion) == sender.sent
    assert fusion.value("w", "rows") == received(fusion)
    # A message that is taken once more replaces its own row.
    assert fusion.value("w", "replaced") == 0 and fusion.value("w", "dropped") == 0
    assert fusion.value("w", "adapted") >= 7


def heard(fusion):
    return sum(fusion.value("w", key) for key in ("received", "lost", "queue_full"))


def test_a_latched_message_is_taken_once(ros, start, tmp_path):
    """Published before the node starts, and given again to each new subscription."""
    latched = publisher(ros, RELIABLE_LATCHED, depth=3)
    sender = Sender(ros)
    sender.send(latched, 5)
    fusion = start_node(ros, start, tmp_path, max_age_ms=600_000)
    await_asked(fusion, words(RELIABLE_LATCHED))
    fusion.await_value("w", "rows", 3)
    for _ in range(2):
        volatile = publisher(ros, RELIABLE)
        await_asked(fusion, words(RELIABLE))
        ros.node.destroy_publisher(volatile)
        await_asked(fusion, words(RELIABLE_LATCHED))
        # For a second there are two subscriptions. If publishers change meanwhile, there are two for ten seconds.
        ros.spin_for(1.5)
    sender.send(latched)
    fusion.await_value("w", "rows", 4)
    # What comes again, came before it.
    assert received(fusion) == 4
    assert fusion.value("w", "lost") == fusion.value("w", "queue_full") == 0


@pytest.mark.parametrize("beside", [True, False])
def test_what_cannot_match_is_told_once_with_both_sides(ros, start, tmp_path, beside):
    fitting = publisher(ros, RELIABLE_LATCHED) if beside else None
    qos = {"reliability": "reliable", "durability": "transient_local"}
    fusion = start_node(ros, start, tmp_path, qos=qos)
    _refused = publisher(ros, BEST_EFFORT)
    said = (
        "the quality of service does not match: nothing comes from /test_client "
        f"({LEAST}), because this stream asks for reliable, transient_local; "
        "give the stream `qos: {reliability: auto, durability: auto}`"
    )
    line = f"stream 'w' (/w): {said}"
    fusion.process.wait_for(line)
    if beside:
        sender = Sender(ros)
        sender.send_until(fusion, [fitting], lambda: told(fusion, said), "the diagnostics say it")
    else:
        fusion.until(lambda: told(fusion, said), "the diagnostics say it")
    # The middleware's event says the same.
    fusion.await_value("w", "publishers_incompatible", 1)
    fusion.fence()
    fusion.fence()
    assert fusion.process.output.count(said) == 1
    await_asked(fusion, "reliable, transient_local")


def told(fusion, words):
    return any(words in status for _, status in fusion.said)
