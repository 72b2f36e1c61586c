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
    """Sends wrenches of the system's time, each a little later than the one before."""

    def __init__(self, ros):
        self.ros, self.sent = ros, 0

    def send(self, publisher):
        ns = self.ros.node.get_clock().now().nanoseconds
        publisher.publish(wrench(ns, self.sent, 0, 0))
        self.sent += 1

    def send_until(self, fusion, publishers, predicate, what):
        """Sends with all publishers at 200 Hz until the predicate holds."""

        def sent():
            for each in publishers:
                self.send(each)
            self.ros.spin_for(0.005)
            return predicate()

        fusion.until(sent, what)


@pytest.mark.parametrize("profile", PROFILES, ids=words)
def test_the_subscription_asks_for_what_the_publisher_offers(ros, start, tmp_path, profile):
    fusion = start_node(ros, start, tmp_path)
    assert asks(fusion) == LEAST
    sender, one = Sender(ros), publisher(ros, profile)
    sender.send_until(fusion, [one], lambda: asks(fusion) == words(profile), "the profile")
    sender.send_until(fusion, [one], lambda: fusion.value("w", "rows") > 300, "wrenches")
    adapted = fusion.value("w", "adapted")
    ros.node.destroy_publisher(one)
    fusion.await_value("w", "publishers", 0)
    ros.spin_for(1)
    assert asks(fusion) == words(profile) and fusion.value("w", "adapted") == adapted
    # It comes again: nothing changes.
    received = fusion.value("w", "received")
    one = publisher(ros, profile)
    sender.send_until(fusion, [one], lambda: fusion.value("w", "received") > received + 50, "again")
    assert asks(fusion) == words(profile) and fusion.value("w", "adapted") == adapted
    ros.node.destroy_publisher(one)
    fusion.await_value("w", "publishers", 0)
    # Another one is heard, whatever it offers.
    received = fusion.value("w", "received")
    other = publisher(ros, BEST_EFFORT)
    sender.send_until(
        fusion, [other], lambda: fusion.value("w", "received") > received + 50, "more"
    )
    assert asks(fusion) == LEAST
    fusion.await_value("w", "publishers_incompatible", 0)
    assert fusion.value("w", "dropped") == 0
    assert "does not match" not in fusion.process.output
    if words(profile) != LEAST:
        assert f"subscribed again with {words(profile)}" in fusion.process.output


@pytest.mark.parametrize("timeline", ["header", "receive"])
def test_nothing_is_lost_or_doubled_when_publishers_come_and_go(ros, start, tmp_path, timeline):
    """A reliable publisher goes on while others come and go. The request changes with the others."""
    fusion = start_node(ros, start, tmp_path, timeline=timeline)
    sender, first = Sender(ros), publisher(ros, RELIABLE_LATCHED)
    # The publisher knows the subscription at once. Until the node knows the publisher, it gets nothing from it.
    fusion.await_value("w", "publishers", 1)
    sender.send_until(
        fusion, [first], lambda: asks(fusion) == words(RELIABLE_LATCHED), "both policies"
    )
    for other, expected in (
        (RELIABLE, words(RELIABLE)),
        (BEST_EFFORT_LATCHED, words(BEST_EFFORT_LATCHED)),
        (BEST_EFFORT, LEAST),
    ):
        second = publisher(ros, other)
        sender.send_until(fusion, [first], lambda: asks(fusion) == expected, f"{expected}")
        sender.send_until(fusion, [first, second], Every(300), "both publish")
        ros.spin_for(0.5)  # What is on its way when a publisher ends is lost without a gap.
        ros.node.destroy_publisher(second)
        sender.send_until(
            fusion, [first], lambda: asks(fusion) == words(RELIABLE_LATCHED), "as before"
        )
    ros.spin_for(1.5)  # until only one subscription is left
    sender.send_until(fusion, [first], Every(50), "the end")
    # Where nobody counts, a few are neither heard nor counted: those that best effort loses.
    least = sender.sent if middlewares.IN_USE == "fastrtps" else 0.98 * sender.sent
    fusion.until(lambda: least <= heard(fusion) <= sender.sent, f"{sender.sent} heard or lost")
    lost = fusion.value("w", "lost") + fusion.value("w", "queue_full")
    assert lost <= 0.1 * sender.sent, "most of what best effort loses is lost by the middleware"
    assert fusion.value("w", "rows") == fusion.value("w", "received")
    # A message that is taken once more replaces its own row.
    assert fusion.value("w", "replaced") == 0 and fusion.value("w", "dropped") == 0
    assert fusion.value("w", "adapted") >= 7


class Every:
    """A predicate that holds after this number of calls."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self):
        self.left -= 1
        return self.left <= 0


def heard(fusion):
    return sum(fusion.value("w", key) for key in ("received", "lost", "queue_full"))


@pytest.mark.parametrize("timeline", ["header", "receive"])
def test_a_latched_message_is_taken_once(ros, start, tmp_path, timeline):
    """Published before the node starts, and given again to each new subscription."""
    latched = publisher(ros, RELIABLE_LATCHED, depth=3)
    sender = Sender(ros)
    for _ in range(5):
        sender.send(latched)
    fusion = start_node(ros, start, tmp_path, timeline=timeline, max_age_ms=60_000)
    await_asked(fusion, words(RELIABLE_LATCHED))
    fusion.await_value("w", "rows", 3)
    for _ in range(2):
        volatile = publisher(ros, RELIABLE)
        await_asked(fusion, words(RELIABLE))
        ros.node.destroy_publisher(volatile)
        await_asked(fusion, words(RELIABLE_LATCHED))
        ros.spin_for(1.5)
    sender.send(latched)
    fusion.await_value("w", "rows", 4)
    assert fusion.value("w", "received") == 4
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
        ros.spin_for(2)
    # The middleware's event says the same.
    fusion.await_value("w", "publishers_incompatible", 1)
    assert fusion.process.output.count(said) == 1
    await_asked(fusion, asked)


def told(fusion, words):
    return any(words in status for _, status in fusion.said)


def test_an_explicit_profile_stays(ros, start, tmp_path):
    qos = {"reliability": "best_effort", "durability": "volatile"}
    fusion = start_node(ros, start, tmp_path, qos=qos)
    sender, one = Sender(ros), publisher(ros, RELIABLE_LATCHED)
    sender.send_until(fusion, [one], lambda: fusion.value("w", "rows") > 200, "wrenches")
    assert fusion.value("w", "adapted") == 0 and asks(fusion) == LEAST
