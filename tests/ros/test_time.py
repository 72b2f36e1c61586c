"""The rules of time on real topics, with a clock that the test sets: exact targets and ages."""

import itertools
import math
import re

import numpy as np
import pytest
from fusion import MS, NO_AGE, RELIABLE, T0, nanoseconds, segments, stamped, start_fusion, wrench
from geometry_msgs.msg import PoseStamped
from rosgraph_msgs.msg import Clock
from scipy.spatial.transform import Rotation, Slerp
from sensor_msgs.msg import JointState

WRENCH = {
    "type": "geometry_msgs/msg/WrenchStamped",
    "topic": "/wrench",
    "fields": ["force"],
    "max_age_ms": 50,
    "qos": {"reliability": "reliable"},
}


def reference(rows, targets, strategy, max_age, max_gap=None, fill="zero"):
    """The rules of time in plain Python. `rows` is {stamp: value}; gives (value, valid, age)."""
    results = []
    for target in targets:
        before = max((stamp for stamp in rows if stamp <= target), default=None)
        after = min((stamp for stamp in rows if stamp > target), default=None)
        if before is None:
            results.append((np.zeros(3, np.float32), False, NO_AGE))
            continue
        newest, value = before, rows[before]
        valid = None
        if before < target and after is not None:
            if strategy == "nearest" and after - target < target - before:
                newest, value = after, rows[after]
            if strategy == "linear":
                weight = np.float32((target - before) / (after - before))
                newest, value = after, value + weight * (rows[after] - value)
                valid = after - before <= max_gap
        age = target - newest
        valid = abs(age) <= max_age if valid is None else valid
        if not valid and fill == "last":
            value, age = rows[before], target - before
        elif not valid:
            value = np.zeros(3, np.float32)
        results.append((value, valid, age))
    return results


def assert_equals(segment, expected, context):
    values, valid, ages = zip(*expected)
    assert (segment.valid, segment.age_ns) == (list(valid), list(ages)), context
    np.testing.assert_array_equal(segment.array, np.array(values), err_msg=str(context))


def test_every_strategy_at_exact_targets(ros, start, tmp_path):
    lag, steps, step = 5 * MS, 5, 7_300_001
    common = {**WRENCH, "history": {"steps": steps, "step_ms": step / MS}, "max_age_ms": 9}
    rules = {
        "hold_zero": {"strategy": "hold"},
        "hold_last": {"strategy": "hold", "fill": "last"},
        "nearest_zero": {"strategy": "nearest"},
        "nearest_last": {"strategy": "nearest", "fill": "last"},
        "linear_zero": {"strategy": "linear", "max_gap_ms": 12},
        "linear_last": {"strategy": "linear", "max_gap_ms": 12, "fill": "last"},
    }
    config = {"lag_ms": 5, "streams": {name: {**common, **rule} for name, rule in rules.items()}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    random = np.random.default_rng(3)
    rows = {}
    # Gaps below and above the limits, one stamp exactly at a target, and one tie for `nearest`.
    offsets = [0, 3 * MS, 11 * MS + 1, 12 * MS, 25 * MS, 25 * MS + 2, 38 * MS, 40 * MS + 20]
    offsets += [44 * MS, 46 * MS, 79 * MS, 90 * MS]
    valid = set()
    for tick in range(0, 130 * MS, 10 * MS):
        while offsets and offsets[0] <= tick:
            value = random.uniform(-10, 10, 3).astype(np.float32)
            rows[T0 + offsets[0]] = value
            fusion.send("/wrench", wrench(T0 + offsets.pop(0), *value))
        got = fusion.tick(T0 + tick)
        newest = T0 + tick - lag
        targets = [newest - (steps - 1 - j) * step for j in range(steps)]
        for name, rule in rules.items():
            strategy, fill = rule["strategy"], rule.get("fill", "zero")
            expected = reference(rows, targets, strategy, 9 * MS, 12 * MS, fill)
            assert_equals(got[name], expected, (name, tick))
            valid |= {(name, v) for v in got[name].valid}
    assert len(valid) == 2 * len(rules), "each stream was seen valid and invalid"


def pose(ns, rotation):
    message = stamped(PoseStamped, ns)
    q = message.pose.orientation
    q.x, q.y, q.z, q.w = rotation
    return message


def test_rotations_take_the_shorter_way(ros, start, tmp_path):
    config = {
        "lag_ms": 10,
        "streams": {
            "pose": {
                **WRENCH,
                "type": "geometry_msgs/msg/PoseStamped",
                "topic": "/pose",
                "fields": ["orientation"],
                "history": {"steps": 3, "step_ms": 3},
            },
            "joint": {
                **WRENCH,
                "type": "sensor_msgs/msg/JointState",
                "topic": "/joint",
                "fields": ["position"],
                "joints": ["wheel", "slider"],
                "angular": ["wheel"],
                "history": {"steps": 3, "step_ms": 3},
            },
        },
    }
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    turns = Rotation.from_euler("xyz", [[10, 20, 30], [80, -40, 100]], degrees=True)
    quaternions = turns.as_quat()
    # -q is the same rotation, so the shorter way stays the same.
    fusion.send("/pose", pose(T0, quaternions[0]))
    fusion.send("/pose", pose(T0 + 10 * MS, -quaternions[1]))
    for ns, angle in ((T0, 3.0), (T0 + 10 * MS, -3.0)):
        state = stamped(JointState, ns, name=["slider", "wheel"], position=[angle, angle])
        fusion.send("/joint", state)
    got = fusion.tick(T0 + 20 * MS)  # targets T0 + 4, 7 and 10 ms
    assert got["pose"].valid == got["joint"].valid == [True] * 3
    assert got["pose"].age_ns == got["joint"].age_ns == [-6 * MS, -3 * MS, 0]
    between = Slerp([0, 10], turns)([4, 7]).as_quat()
    np.testing.assert_allclose(got["pose"].array[:2], between, atol=5e-7)
    np.testing.assert_array_equal(got["pose"].array[2], -quaternions[1].astype(np.float32))
    # From 3 to -3 rad through pi, not through 0.
    wheel = got["joint"].array[:, 0]
    expected = 3 + np.array([0.4, 0.7, 1.0]) * (2 * math.pi - 6)
    off = (wheel - expected + math.pi) % (2 * math.pi) - math.pi
    assert np.all(np.abs(off) < 1e-6) and np.all(np.abs(wheel) < math.pi + 1e-6), wheel
    np.testing.assert_allclose(got["joint"].array[:, 1], [0.6, -1.2, -3], atol=1e-6)


def test_a_stamp_offset_moves_a_stream_and_no_other(ros, start, tmp_path):
    config = {
        "streams": {
            "plain": {**WRENCH, "strategy": "hold"},
            "late": {**WRENCH, "strategy": "hold", "stamp_offset_ms": -7.5},
            "early": {**WRENCH, "strategy": "hold", "stamp_offset_ms": 4},
        }
    }
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    fusion.send("/wrench", wrench(T0 + 8 * MS, 1, 2, 3))
    got = fusion.tick(T0 + 10 * MS)
    assert got["plain"].age_ns == [2 * MS]
    assert got["late"].age_ns == [9_500_000]
    assert (got["early"].age_ns, got["early"].valid) == ([NO_AGE], [False])
    assert fusion.tick(T0 + 20 * MS)["early"].age_ns == [8 * MS]


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


def test_rows_out_of_order_are_sorted_and_late_ones_are_counted(ros, start, tmp_path):
    history = {"history": {"steps": 4, "step_ms": 10}}
    stream = {**WRENCH, "strategy": "hold", "ring_rows": 4, **history}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": stream}}).warm_up()

    def send(ms, value):
        fusion.send("/wrench", wrench(T0 + ms * MS, value, 0, 0))

    def forces(segment):
        return segment.array[:, 0].tolist()

    for ms in (10, 30, 20):
        send(ms, ms)
    send(20, 21)  # a correction by the sensor
    got = fusion.tick(T0 + 30 * MS)["wrench"]
    assert (forces(got), got.valid) == ([0, 10, 21, 30], [False, True, True, True])
    assert got.age_ns == [NO_AGE, 0, 0, 0]
    fusion.await_value("wrench", "reordered", 1)
    fusion.await_value("wrench", "replaced", 1)

    send(40, 40)  # now the ring is full
    send(5, 5)
    send(50, 50)  # 10 leaves
    send(15, 15)
    got = fusion.tick(T0 + 50 * MS)["wrench"]
    assert forces(got) == [21, 30, 40, 50]
    fusion.await_value("wrench", "dropped.late", 2)
    fusion.await_value("wrench", "rows", 6)
    fusion.await_value("wrench", "received", 8)


def test_a_stamp_far_ahead_of_the_clock_is_dropped(ros, start, tmp_path):
    stream = {**WRENCH, "strategy": "nearest", "max_ahead_ms": 1000}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": stream}}).warm_up()
    fusion.advance(T0)
    fusion.send("/wrench", wrench(T0 + 1000 * MS + 1, 9, 9, 9))
    fusion.settle()
    fusion.await_value("wrench", "dropped.ahead", 1)
    fusion.process.wait_for(
        "expected at most 1000 ms ahead of the node's clock (1795000000.000000000)"
    )
    fusion.send("/wrench", wrench(T0 + 1000 * MS, 1, 2, 3))
    fusion.send("/wrench", wrench(T0 + 960 * MS, 4, 5, 6))
    got = fusion.tick(T0 + 980 * MS)["wrench"]  # a tie
    assert (got.valid, got.age_ns) == ([True], [20 * MS])
    got = fusion.tick(T0 + 990 * MS)["wrench"]
    assert (got.valid, got.age_ns) == ([True], [-10 * MS])
    np.testing.assert_array_equal(got.array, [[1, 2, 3]])
    fusion.await_value("wrench", "dropped", 1)


def test_the_receive_timeline_takes_the_nodes_clock(ros, start, tmp_path):
    config = {"timeline": "receive", "streams": {"wrench": {**WRENCH, "strategy": "hold"}}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    fusion.advance(T0)
    fusion.send("/wrench", wrench(0, 1, 2, 3))  # its stamp does not matter
    (age,) = fusion.tick(T0 + 10 * MS)["wrench"].age_ns
    # Interpolated between two readings of the clock.
    assert 0 < age <= 10 * MS


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


def test_zero_is_a_stamp_if_the_simulators_clock_has_read_zero(ros, start, tmp_path):
    stream = {**WRENCH, "strategy": "hold"}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": stream}}).warm_up()
    fusion.send("/wrench", wrench(0, 9, 9, 9))
    fusion.settle()
    fusion.await_value("wrench", "dropped.zero_stamp", 1)
    fusion.advance(0)
    fusion.send("/wrench", wrench(0, 1, 2, 3))
    got = fusion.tick(10 * MS)["wrench"]
    assert (got.valid, got.age_ns) == ([True], [10 * MS])
    fusion.await_value("wrench", "dropped", 1)


def test_a_short_step_back_of_the_clock_clears_nothing(ros, start, tmp_path):
    stream = {**WRENCH, "strategy": "hold"}
    fusion = start_fusion(ros, start, tmp_path, {"streams": {"wrench": stream}}).warm_up()
    fusion.send("/wrench", wrench(T0, 1, 2, 3))
    fusion.tick(T0)
    for back in (1, 10 * MS - 1):
        fusion.set_clock(T0 - back)
    got = fusion.tick(T0 + 10 * MS)["wrench"]
    assert (got.valid, got.age_ns) == ([True], [10 * MS])
    fusion.fence()
    assert fusion.value("tick", "clock_jumps") == 0
    assert "jumped back" not in fusion.process.output


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


def test_a_leap_ahead_serves_the_newest_tick_and_counts_the_others(ros, start, tmp_path):
    config = {"streams": {"wrench": {**WRENCH, "strategy": "hold", "max_age_ms": 5000}}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    fusion.send("/wrench", wrench(T0, 1, 2, 3))
    fusion.tick(T0)
    fusion.fence()
    overruns, ticks = fusion.value("tick", "overruns"), len(fusion.ticks)
    got = fusion.tick(T0 + 1000 * MS)["wrench"]
    assert got.age_ns == [1000 * MS]
    fusion.await_value("tick", "overruns", overruns + 99)
    # The missed ticks do not come later.
    fusion.tick(T0 + 1010 * MS)
    first = fusion.tick_of(T0)
    assert fusion.ticks[ticks:] == [first + 100, first + 101]
    fusion.fence()
    assert fusion.value("tick", "overruns") == overruns + 99
    assert fusion.value("tick", "clock_jumps") == 0


def test_ticks_are_at_multiples_of_the_period(ros, start, tmp_path):
    config = {"rate_hz": 30, "streams": {"wrench": WRENCH}}
    fusion = start_fusion(ros, start, tmp_path, config)
    period = 33_333_333  # a whole number of nanoseconds
    ns = T0
    seen = fusion.tensors

    def step():
        nonlocal ns
        ns += 15 * MS
        fusion.set_clock(ns)
        return fusion.ros.spin_for(0.01, until=lambda: len(seen) > 20)

    fusion.until(step, "20 tensors at 30 Hz")
    assert fusion.ticks == sorted(seen), "each once, in order"
    for tick, message in seen.items():
        assert nanoseconds(message.header.stamp) == tick * period
        assert segments(message)["wrench"].age_ns == [NO_AGE]


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
