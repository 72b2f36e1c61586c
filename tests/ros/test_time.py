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


def until_a_tensor(fusion, ns, message):
    """Ticks from this instant on, each with `message(ns)`, until the node knows this client. Returns the last instant."""
    last = ns - 10 * MS

    def ticked():
        nonlocal last
        last += 10 * MS
        fusion.send("/wrench", message(last))
        fusion.settle()
        fusion.advance(last)
        return fusion.ros.spin_for(0.2, until=lambda: fusion.tensors)

    fusion.until(ticked, "a first tensor")
    return last


def test_a_required_stream_holds_the_tick_back(ros, start, tmp_path):
    config = {
        "streams": {
            "wrench": {**WRENCH, "max_age_ms": 15, "required": True},
            "other": {**WRENCH, "topic": "/other"},
        }
    }
    fusion = start_fusion(ros, start, tmp_path, config)
    # Without a message there is no tensor, so only the diagnostics show that the node ticks.
    fusion.advance(T0 - 100 * MS)
    fusion.await_value("tick", "held_back", 1)
    fusion.send("/wrench", wrench(T0 - 95 * MS, 1, 2, 3))
    fusion.settle()
    until_a_tensor(fusion, T0 - 90 * MS, lambda ns: wrench(ns - 5 * MS, 1, 2, 3))
    fusion.fence()
    held_back = fusion.value("tick", "held_back")

    fusion.send("/wrench", wrench(T0 + 498 * MS, 1, 2, 3))
    got = fusion.tick(T0 + 500 * MS)
    assert (got["wrench"].valid, got["other"].valid) == ([True], [False])
    fusion.tick(T0 + 510 * MS)
    fusion.advance(T0 + 520 * MS)  # 22 ms old
    fusion.await_value("tick", "held_back", held_back + 1)
    fusion.advance(T0 + 530 * MS)
    fusion.await_value("tick", "held_back", held_back + 2)
    fusion.send("/wrench", wrench(T0 + 531 * MS, 4, 5, 6))
    got = fusion.tick(T0 + 540 * MS)
    np.testing.assert_array_equal(got["wrench"].array, [[4, 5, 6]])
    missing = {fusion.tick_of(T0 + ms * MS) for ms in (520, 530)}
    assert not missing & set(fusion.tensors)
    words = [words for part, words in fusion.said if part == "tick"]
    assert any("held back by 'wrench'" in w for w in words), words


def test_messages_between_two_readings_of_a_slow_clock_keep_apart(ros, start, tmp_path):
    """Every message of a clock's step gets an instant of its own, and none replaces another."""
    stream = {**WRENCH, "strategy": "hold", "history": {"steps": 10, "step_ms": 10}}
    config = {"timeline": "receive", "streams": {"wrench": stream}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    steps = 0

    def spread():
        """A step of the clock, whose messages show at several targets, because the machine did not pause in it."""
        nonlocal steps
        fusion.advance(T0 + steps * 100 * MS)
        for value in range(10):
            fusion.send("/wrench", wrench(0, steps + 1, value, 0))
            fusion.ros.spin_for(0.01)
        steps += 1
        got = fusion.tick(T0 + steps * 100 * MS)["wrench"]
        # Of this step, in the order in which they were sent.
        values = got.array[got.array[:, 0] == steps, 1].tolist()
        assert values == sorted(values)
        return steps >= 5 and len(set(values)) > 3

    fusion.until(spread, "messages at several instants of a step")
    fusion.fence()
    assert fusion.value("wrench", "rows") == 10 * steps
    assert (fusion.value("wrench", "replaced"), fusion.value("wrench", "dropped")) == (0, 0)


def test_a_looping_bag_loses_nothing(ros, start, tmp_path):
    """As `ros2 bag play --clock --loop`: /clock at 40 Hz, joints at 200 Hz stamped between."""
    stream = {**WRENCH, "strategy": "nearest", "max_age_ms": 500}
    config = {"lag_ms": 8, "streams": {"wrench": stream}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    loops = 3
    for loop in range(loops):
        for step in range(0, 500, 25):  # less than a stamp may be ahead of the clock
            # At most one tick of each step of the clock is served.
            fusion.settle()
            fusion.set_clock(T0 + step * MS)
            newest = step // 10 * 10
            number = fusion.tick_of(T0 + newest * MS)

            def served(ns=T0 + step * MS, number=number):
                fusion.set_clock(ns)
                return ros.spin_for(1.0, until=lambda: fusion.ticks[-1:] == [number])

            fusion.until(served, f"the tick at {newest} ms")
            got = segments(fusion.tensors[number])["wrench"]
            # The row closest to the target, of this loop.
            target = newest - 8
            closest = 5 * round(target / 5)
            if closest < 0 or step == 0:
                assert got.valid == [False]
            else:
                assert (got.valid, got.age_ns) == ([True], [(target - closest) * MS])
                assert got.array[0, 0] == loop, "a value of an earlier loop"
            for ms in range(step, step + 25, 5):
                fusion.send("/wrench", wrench(T0 + ms * MS, loop, 0, 0))
    fusion.settle()
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == loops - 1
    for key in ("dropped", "lost", "queue_full"):
        assert fusion.value("wrench", key) == 0, key


def test_a_driver_on_another_clock_before_the_simulator_blocks_nothing(ros, start, tmp_path):
    """A driver with the wall clock fills the ring before the first /clock."""
    stream = {**WRENCH, "strategy": "hold", "ring_rows": 8}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": stream}})
    for k in range(20):
        fusion.send("/wrench", wrench(T0 + k * MS, 9, 9, 9))
    fusion.settle()
    simulated = until_a_tensor(fusion, 5_000 * MS, lambda ns: wrench(ns, 1, 2, 3))
    fusion.fence()
    late, valid = fusion.value("wrench", "dropped.late"), 0
    for _ in range(50):
        simulated += 10 * MS
        fusion.send("/wrench", wrench(T0, 9, 9, 9))  # it goes on
        fusion.send("/wrench", wrench(simulated, 1, 2, 3))
        got = fusion.tick(simulated)["wrench"]
        valid += got.valid == [True]
        assert got.valid == [False] or got.array[0].tolist() == [1, 2, 3]
    assert valid == 50
    fusion.fence()
    assert fusion.value("wrench", "dropped.ahead") == 50
    assert fusion.value("wrench", "dropped.late") == late, "nothing after the first reading"
    assert fusion.value("tick", "clock_jumps") == 0


def test_jumps_back_and_forth_are_logged_now_and_then(ros, start, tmp_path):
    """Two simulators on one /clock: every other reading is a jump back."""
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": WRENCH}}).warm_up()
    for step in range(1, 11):
        fusion.advance(T0 + step * 10 * MS)
        fusion.advance(T0 - 5000 * MS + step * 10 * MS)
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == 10
    assert fusion.process.output.count("the clock jumped back") == 1


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


def test_two_publishers_of_the_clock_are_named(ros, start, tmp_path):
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": WRENCH}}).warm_up()
    fusion.tick(T0)
    fusion.fence()
    assert "publishers on /clock" not in fusion.process.output
    publisher = ros.node.create_publisher(Clock, "/clock", RELIABLE)
    words = "2 publishers on /clock: /test_client and /test_client: their readings alternate"
    fusion.until(lambda: words in fusion.status["tick"][1], "a warning in the status")
    assert fusion.status["tick"][0] == b"\x01"
    ros.node.destroy_publisher(publisher)
    fusion.until(lambda: words not in fusion.status["tick"][1], "one publisher again")
    # The log has it once. Its names may be of the moment before the graph knew the new publisher's node.
    assert fusion.process.output.count("2 publishers on /clock: ") == 1


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
