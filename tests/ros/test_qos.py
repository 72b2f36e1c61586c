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


def send_and_await_more(fusion, sender, publisher, count):
    """Sends until so many more have been received."""
    expected = received(fusion) + count
    sender.send_until(fusion, [publisher], lambda: received(fusion) >= expected, f"{count} more")


@pytest.mark.parametrize("profile", PROFILES, ids=words)
def test_the_subscription_asks_for_what_the_publisher_offers(ros, start, tmp_path, profile):
    fusion = start_node(ros, start, tmp_path)
    assert asks(fusion) == LEAST
    sender, one = Sender(ros), publisher(ros, profile)
    sender.send_until(fusion, [one], lambda: asks(fusion) == words(profile), "the profile")
    send_and_await_more(fusion, sender, one, 50)
    adapted = fusion.value("w", "adapted")
    ros.node.destroy_publisher(one)
    fusion.await_value("w", "publishers", 0)
    # It comes again. What the node did meanwhile would be counted: nothing has changed.
    one = publisher(ros, profile)
    send_and_await_more(fusion, sender, one, 50)
    assert asks(fusion) == words(profile) and fusion.value("w", "adapted") == adapted
    ros.node.destroy_publisher(one)
    fusion.await_value("w", "publishers", 0)
    # Another one is heard, whatever it offers.
    other = publisher(ros, BEST_EFFORT)
    send_and_await_more(fusion, sender, other, 50)
    await_asked(fusion, LEAST)
    fusion.await_value("w", "publishers_incompatible", 0)
    assert fusion.value("w", "dropped") == 0
    assert "does not match" not in fusion.process.output
    if words(profile) != LEAST:
        assert f"subscribed again with {words(profile)}" in fusion.process.output


@pytest.mark.parametrize("timeline", ["header", "receive"])
def test_nothing_is_lost_or_doubled_when_publishers_come_and_go(ros, start, tmp_path, timeline):
    """A reliable publisher goes on while others come and go. The request changes with the others.

    Of N messages that the node can hear, N are received or counted as lost.
    """
    fusion = start_node(ros, start, tmp_path, qos={"depth": 1000}, timeline=timeline)
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


@pytest.mark.parametrize("timeline", ["header", "receive"])
def test_a_latched_message_is_taken_once(ros, start, tmp_path, timeline):
    """Published before the node starts, and given again to each new subscription."""
    latched = publisher(ros, RELIABLE_LATCHED, depth=3)
    sender = Sender(ros)
    sender.send(latched, 5)
    fusion = start_node(ros, start, tmp_path, timeline=timeline, max_age_ms=600_000)
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


MISMATCHES = [
    ({"reliability": "reliable"}, BEST_EFFORT, "reliable, volatile", "reliability: auto"),
    ({"durability": "transient_local"}, RELIABLE, "reliable, transient_local", "durability: auto"),
    (
        {"reliability": "reliable", "durability": "transient_local"},
        BEST_EFFORT,
        "reliable, transient_local",
        "reliability: auto, durability: auto",
    ),
]


@pytest.mark.parametrize(("qos", "offered", "asked", "remedy"), MISMATCHES)
@pytest.mark.parametrize("beside", [True, False])
def test_what_cannot_match_is_told_once_with_both_sides(
    ros, start, tmp_path, qos, offered, asked, remedy, beside
):
    fitting = publisher(ros, RELIABLE_LATCHED) if beside else None
    fusion = start_node(ros, start, tmp_path, qos=qos)
    _refused = publisher(ros, offered)
    said = (
        "the quality of service does not match: nothing comes from /test_client "
        f"({words(offered)}), because this stream asks for {asked}; "
        f"give the stream `qos: {{{remedy}}}`"
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
    await_asked(fusion, asked)


def told(fusion, words):
    return any(words in status for _, status in fusion.said)


def test_an_explicit_profile_stays(ros, start, tmp_path):
    qos = {"reliability": "best_effort", "durability": "volatile"}
    fusion = start_node(ros, start, tmp_path, qos=qos)
    sender, one = Sender(ros), publisher(ros, RELIABLE_LATCHED)
    send_and_await_more(fusion, sender, one, 50)
    assert fusion.value("w", "adapted") == 0 and asks(fusion) == LEAST
