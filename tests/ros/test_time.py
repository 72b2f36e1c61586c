"""The clock of a simulator on a real topic, which a test sets: it is slow, loops, jumps, and stands still."""

import itertools
import re

import numpy as np
import pytest
from fusion import MS, NO_AGE, RELIABLE, T0, nanoseconds, segments, start_fusion, wrench
from rosgraph_msgs.msg import Clock

WRENCH = {
    "type": "geometry_msgs/msg/WrenchStamped",
    "topic": "/wrench",
    "fields": ["force"],
    "max_age_ms": 50,
    "qos": {"reliability": "reliable"},
}


def test_a_clock_that_jumps_back_clears_everything(ros, start, tmp_path):
    config = {"streams": {"wrench": {**WRENCH, "strategy": "hold", "fill": "last"}}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    fusion.send("/wrench", wrench(T0, 1, 2, 3))
    assert fusion.tick(T0)["wrench"].valid == [True]
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == 0

    back = T0 - 60_000 * MS
    got = fusion.tick(back)["wrench"]
    assert (got.valid, got.age_ns, got.array.any()) == ([False], [NO_AGE], False)
    fusion.await_value("tick", "clock_jumps", 1)
    fusion.process.wait_for("the clock jumped back from 1795000000.000000001 to")
    # The rows from before the jump are gone: only new messages count.
    fusion.send("/wrench", wrench(back + 5 * MS, 4, 5, 6))
    got = fusion.tick(back + 10 * MS)["wrench"]
    assert got.age_ns == [5 * MS]
    np.testing.assert_array_equal(got.array, [[4, 5, 6]])
    # The clock passes T0 again, without the row from before.
    got = fusion.tick(T0 + 10 * MS)["wrench"]
    assert (got.valid, got.age_ns) == ([False], [60_005 * MS])
    np.testing.assert_array_equal(got.array, [[4, 5, 6]])
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == 1


def test_without_a_clock_there_are_no_ticks_and_the_node_says_so(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": WRENCH}})
    fusion.process.wait_for("use_sim_time is set, but nothing comes on /clock: no ticks")
    # Messages that the node takes after that are no reason to tick.
    for ms in (1, 2):
        fusion.send("/wrench", wrench(T0 - ms * MS, 1, 2, 3))
        fusion.settle()
    assert fusion.status["tick"][1] == "no message on /clock yet: no ticks"
    assert fusion.process.output.count("nothing comes on /clock") == 1
    assert not fusion.tensors
    # The first reading of the clock clears what came before.
    ns = itertools.count(T0, 10 * MS)
    fusion.until(
        lambda: fusion.advance(next(ns)) or ros.spin_for(0.2, until=lambda: fusion.tensors),
        "a first tensor",
    )
    (message, *_) = fusion.tensors.values()
    assert segments(message)["wrench"].age_ns == [NO_AGE]
    ns = nanoseconds(message.header.stamp) + 1000 * MS
    fusion.send("/wrench", wrench(ns - 5 * MS, 1, 2, 3))
    assert fusion.tick(ns)["wrench"].age_ns == [5 * MS]


@pytest.mark.parametrize("sent", [b"\x00\x01\x00\x00\x01\x00", None])
def test_a_malformed_clock_is_ignored(ros, start, tmp_path, sent):
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": WRENCH}}).warm_up()
    if sent is None:
        clock = Clock()
        clock.clock.sec, clock.clock.nanosec = 5, 10**9  # no such instant
        sent = clock
    publisher = ros.node.create_publisher(Clock, "/clock", RELIABLE)
    fusion.until(lambda: publisher.get_subscription_count() > 0, "a match on /clock")
    fusion.until(
        lambda: publisher.publish(sent) or "a malformed message on /clock" in fusion.process.output,
        "a warning about the clock",
    )
    fusion.tick(T0)
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == 0


def test_a_clock_that_does_not_move_is_stale_and_logged_once(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": WRENCH}}).warm_up()
    fusion.tick(T0)
    stale = re.compile(r"/clock has stood still for \d+\.")
    fusion.until(lambda: stale.search(fusion.status["tick"][1]), "a clock that stands")
    assert fusion.status["tick"][0] == b"\x03"
    # A paused simulator repeats its instant. Between two of these the node takes a message, and reports.
    for ms in range(4):
        fusion.set_clock(T0)
        fusion.send("/wrench", wrench(T0 + ms * MS, 1, 2, 3))
        fusion.settle()
        assert fusion.status["tick"][0] == b"\x03"
    assert fusion.process.output.count("/clock has stood still") == 1
    ns = itertools.count(T0 + 10 * MS, 10 * MS)
    fusion.until(
        lambda: fusion.tick(next(ns)) and fusion.status["tick"][0] == b"\x00", "ticks again"
    )
    fusion.process.wait_for("/clock runs again")
