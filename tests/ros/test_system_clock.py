"""The system's clock is set while the node runs, and the machine is suspended (faults REAL and BOOT).

A clock that is set back begins an epoch: nothing of before is in a tensor. One that is set ahead skips ticks. Neither is
a standstill of the process. In a suspend the clock goes on and the process does not: that is both.
"""

import time

import configuration
import recordings
from faults import Boot, put
from fusion import (
    MS,
    NO_AGE,
    nanoseconds,
    segments,
    start_fusion,
    streams,
    subscribe_tensors,
    wrench,
)
from middlewares import fast_dds_only

PERIOD_NS, LAG_NS = 10 * MS, 20 * MS
SECOND = 10**9
#: A stream by header stamps, and one by times of receiving.
STREAM = {
    "type": "geometry_msgs/msg/WrenchStamped",
    "lag_ms": LAG_NS // MS,
    "max_age_ms": 60_000,
    "max_ahead_ms": 1000,
    "qos": {"reliability": "reliable", "depth": 1000},
}
STREAMS = {"header": STREAM, "receive": {**STREAM, "timeline": "receive"}}


class Node:
    """A recording node whose system clock the test sets."""

    def __init__(self, ros, start, folder, node_faults):
        self._real, self.boot, self.runs = folder / "real", Boot(folder / "boot"), folder / "runs"
        env = node_faults(real=self._real, boot=self.boot.file)
        config = {"streams": streams(**STREAMS)}
        record = ["-p", f"record_to:={self.runs}"]
        self.fusion = start_fusion(ros, start, folder, config, *record, sim_time=False, env=env)
        #: All tensors in the order in which they came.
        self.tensors = subscribe_tensors(ros, "fused_tensor")
        self.sent = 0

    def set_clock(self, to):
        """Sets the node's clock."""
        put(self._real, to)

    def send(self, stamp):
        """Sends another value on both streams. Returns it."""
        self.sent += 1
        for name in STREAMS:
            self.fusion.send(f"/{name}", wrench(stamp, self.sent, 0, 0))
        return self.sent

    def count(self, key):
        """A counter of the ticks."""
        return self.fusion.value("tick", key)

    def check_stamps(self):
        for tensor in self.tensors:
            assert nanoseconds(tensor.header.stamp) == tensor.tick * PERIOD_NS

    def verified(self):
        """Ends the node. Returns what verify says of its recording."""
        self.fusion.process.stop()
        recording = recordings.folder_of(self.runs)
        report = recordings.verify(configuration.program(), recording)
        assert report["complete"] and report["problems"] == [] and report["unexplained"] == 0
        return report


class Standing(Node):
    """Its clock stands wherever the test sets it. So each tick is known."""

    def __init__(self, *given):
        super().__init__(*given)
        self.fusion.until(lambda: self.tensors, "a first tensor")
        # The next whole second: so little is no step ahead.
        self.go((time.time_ns() // SECOND + 1) * SECOND)
        tick = self.ns // PERIOD_NS
        self.fusion.until(lambda: self.tensors[-1].tick == tick, "the tensor of this second")
        self.fusion.await_value("tick", "tick", tick)

    def go(self, ns):
        self.ns = ns
        self.set_clock(f"={ns}")

    def tick(self, ns):
        """Sets the clock, and returns the segments of the tensor of that instant, which must be the next one."""
        self.fusion.settle()
        before = len(self.tensors)
        self.go(ns)
        self.fusion.until(lambda: len(self.tensors) > before, f"the tick at {ns}")
        (tensor,) = self.tensors[before:]
        assert tensor.tick * PERIOD_NS == ns
        return segments(tensor)


def test_ticks_and_messages_when_the_clock_is_set_back_and_ahead(ros, start, tmp_path, node_faults):
    node = Standing(ros, start, tmp_path, node_faults)
    fusion = node.fusion
    begin, overruns = node.ns, node.count("overruns")
    assert node.count("clock_jumps") == 0
    first = node.send(begin)
    got = node.tick(begin + 30 * MS)
    for name in STREAMS:
        assert got[name].valid == [True] and got[name].array[0, 0] == first
        assert got[name].age_ns == [10 * MS]
    # Ticks 1 and 2 were due, too.
    fusion.await_value("tick", "overruns", overruns + 2)

    # Back by two seconds. The tick of that very instant is the first of the epoch, and has no row of before.
    jumped_from, back = node.ns, node.ns - 2 * SECOND
    for part in node.tick(back).values():
        assert (part.valid, part.age_ns) == ([False], [NO_AGE])
        assert not part.array.any()
    fusion.await_value("tick", "clock_jumps", 1)
    output = fusion.process.wait_for("the clock jumped back from ")
    assert output.count("the clock jumped back from ") == 1

    # Until the clock passes the instant from which it jumped, a stamp may be ahead by a tick. What is further ahead may
    # be of the time before. By its time of receiving, each message is of now.
    for ahead in (2 * SECOND, SECOND // 2, PERIOD_NS + 1):
        node.send(back + ahead)
    fusion.settle()
    assert fusion.value("header", "dropped.ahead") == 1
    assert fusion.value("header", "dropped.cleared") == 2 == fusion.value("header", "dropped") - 1
    value = node.send(back)
    got = node.tick(back + 30 * MS)
    assert got["header"].array[0, 0] == got["receive"].array[0, 0] == value
    # Instants of receiving are strictly increasing, and four messages came at this one.
    assert (got["header"].age_ns, got["receive"].age_ns) == ([10 * MS], [10 * MS - 3])
    value = node.send(node.ns + PERIOD_NS)
    got = node.tick(back + 60 * MS)
    assert got["header"].array[0, 0] == value
    assert fusion.value("receive", "dropped") == 0
    assert fusion.value("header", "accepted") == 3
    # Only the newest tick is served.
    fusion.await_value("tick", "overruns", overruns + 2 + 2 + 2)

    # When it has passed that instant, a stamp may be ahead by a second again.
    overruns, ns = overruns + 6, node.ns
    while ns <= jumped_from:
        ns += SECOND // 2
        node.tick(ns)
        overruns += SECOND // 2 // PERIOD_NS - 1
    value = node.send(ns + SECOND // 2)
    fusion.settle()
    assert fusion.value("header", "accepted") == 4
    fusion.await_value("tick", "overruns", overruns)

    # Ahead by two seconds: what is due between is no overrun, and the epoch goes on.
    got = node.tick(ns + 2 * SECOND)
    assert got["header"].array[0, 0] == value and got["header"].valid == [True]
    assert got["header"].age_ns == [2 * SECOND - LAG_NS - SECOND // 2]
    output = fusion.process.wait_for("the clock was set ahead from ")
    assert output.count("the clock was set ahead from ") == 1
    fusion.await_value("tick", "clock_jumps", 2)
    assert node.count("overruns") == overruns
    assert fusion.value("header", "resubscribed") == 0
    assert "stood still" not in fusion.process.output
    node.check_stamps()
    # A replay gives each tick again, through all that happened to the clock.
    report = node.verified()
    assert report["different"] == [] and report["equal"] >= len(node.tensors)


class Running(Node):
    """Its clock runs, ahead of the test's or behind it."""

    def __init__(self, *given):
        super().__init__(*given)
        self.offset_ns = 0
        self.send_and_await()

    def move(self, ns):
        """Sets the clock back or ahead."""
        self.offset_ns += ns
        self.set_clock(self.offset_ns)

    def now(self):
        return self.fusion.ros.node.get_clock().now().nanoseconds + self.offset_ns

    def send_and_await(self, again=False):
        """Sends a value, and waits until it is in both streams of a tensor. `again`: sends others until one is."""
        value = self.send(self.now())

        def served():
            nonlocal value
            if again:
                self.fusion.ros.spin_for(0.3)
                value = self.send(self.now())
                self.fusion.ros.spin_for(0.3)
            got = segments(self.tensors[-1]) if self.tensors else {}
            return got and all(of.valid[0] and of.array[0, 0] == value for of in got.values())

        self.fusion.until(served, f"the value {value}")


def test_a_clock_that_runs_is_set_back_and_forth(ros, start, tmp_path, node_faults):
    node = Running(ros, start, tmp_path, node_faults)
    fusion = node.fusion
    node.move(-2 * SECOND)

    def steps_back():
        ticks = [tensor.tick for tensor in node.tensors]
        return [k for k in range(1, len(ticks)) if ticks[k] <= ticks[k - 1]]

    fusion.until(steps_back, "a tensor of the new epoch")
    (at,) = steps_back()
    assert all(part.array.any() for part in segments(node.tensors[at - 1]).values())
    for part in segments(node.tensors[at]).values():
        assert (part.valid, part.age_ns) == ([False], [NO_AGE]), "its rows are gone"
    # A message of a sensor whose clock was not set.
    node.send(node.now() + 2 * SECOND)
    fusion.settle()
    assert fusion.value("header", "dropped.ahead") == fusion.value("header", "dropped") == 1
    node.send_and_await()
    node.move(2 * SECOND)
    fusion.process.wait_for("the clock was set ahead from ")
    node.send_and_await()
    fusion.await_value("tick", "clock_jumps", 2)
    assert steps_back() == [at], "one epoch"
    epochs = [tensor.epoch for tensor in node.tensors]
    assert epochs == [epochs[0] + (k >= at) for k in range(len(epochs))]
    assert len({tensor.run for tensor in node.tensors}) == 1
    assert fusion.value("receive", "dropped") == 0
    for name in STREAMS:
        assert fusion.value(name, "resubscribed") == 0
    assert "stood still" not in fusion.process.output
    node.check_stamps()
    report = node.verified()
    assert report["equal"] + report["differing"] >= len(node.tensors)


@fast_dds_only
def test_after_a_suspend_the_node_goes_on(ros, start, tmp_path, node_faults):
    """Of a night, whose end is noticed at once."""
    node = Running(ros, start, tmp_path, node_faults)
    fusion, night = node.fusion, 8 * 3600
    tensors = len(node.tensors)
    node.move(night * SECOND)
    node.boot.stand_still(night)
    fusion.process.wait_for(f"the process stood still for {night}.0 s")
    fusion.process.wait_for("the clock was set ahead from ")
    in_the_morning = node.tensors[tensors - 1].tick + (night - 60) * SECOND // PERIOD_NS
    fusion.until(lambda: node.tensors[-1].tick > in_the_morning, "ticks")
    for part in segments(node.tensors[-1]).values():
        assert part.valid == [False] and part.age_ns[0] > (night - 60) * SECOND
    # The clock of this publisher was not set. So nobody knows when a message was sent that comes at once, and by its time
    # of receiving it does not count.
    node.send_and_await(again=True)
    node.send_and_await()
    assert fusion.value("header", "dropped") == 0
    assert fusion.value("receive", "dropped") == fusion.value("receive", "dropped.cleared") > 0
    assert fusion.process.output.count("the process stood still for ") == 1
    fusion.await_value("tick", "clock_jumps", 1)
    node.check_stamps()
    node.verified()
