"""`robocache.ros.PipelineNode`: the tensors of fusion_node, made in the policy's process."""

import contextlib
import sys
import threading
from pathlib import Path

import pytest
import waiting
import yaml
from conftest import REPOSITORY
from diagnostic_msgs.msg import DiagnosticArray
from fusion import (
    MS,
    RELIABLE,
    T0,
    WRENCH,
    Fusion,
    publish_now,
    start_fusion,
    streams,
    time_message,
    wrench,
)
from geometry_msgs.msg import WrenchStamped
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

sys.path.insert(0, str(REPOSITORY / "tests" / "python"))

from device_case import has_gpu  # noqa: E402 (the path comes first)

import robocache  # noqa: E402

pytest.importorskip("robocache._native", reason="the compiled part: scripts/develop.sh")

from robocache.ros import PipelineNode  # noqa: E402


class Collected:
    """The tensors that a PipelineNode gave, by tick."""

    def __init__(self):
        self.tensors, self.threads = {}, set()

    def __call__(self, tensor):
        self.tensors[tensor.tick] = tensor
        self.threads.add(threading.current_thread())


@pytest.fixture
def make(ros):
    made = []

    def pipeline_node(config, on_tensor, sim_time=False, **arguments):
        if sim_time:
            ros.node.set_parameters([Parameter("use_sim_time", Parameter.Type.BOOL, True)])
        made.append(PipelineNode(ros.node, config, on_tensor, **arguments))
        return made[-1]

    yield pipeline_node
    for pipeline in made:
        pipeline.destroy()


def test_tensors_are_those_of_the_node(ros, start, tmp_path, make):
    config = {
        "rate_hz": 100,
        "streams": streams(
            wrench={"type": "geometry_msgs/msg/WrenchStamped"},
            force={"type": "geometry_msgs/msg/WrenchStamped", "strategy": "linear", "lag_ms": 20},
        ),
    }
    fusion: Fusion = start_fusion(ros, start, tmp_path, config)
    ours = Collected()
    pipeline = make(config, ours, sim_time=True, digest=True)
    topics = ("/wrench", "/force")
    fusion.until(
        lambda: all(ros.node.count_subscribers(topic) == 2 for topic in topics), "subscriptions"
    )
    fusion.warm_up()
    for k in range(20):
        ns = T0 + k * 10 * MS
        fusion.advance(ns + 5 * MS)
        for topic in topics:
            fusion.send(topic, wrench(ns + 5 * MS, k, -k, 0.5))
        fusion.settle()
        taken = 2 * (k + 1)

        def accepted(taken=taken):
            return sum(of["accepted"] for of in pipeline.stats()["inputs"].values()) == taken

        fusion.until(accepted, f"{taken} messages")
        number = fusion.tick_of(ns + 10 * MS)
        fusion.tick(ns + 10 * MS)

        def ours_too(ns=ns + 10 * MS, number=number):
            fusion.set_clock(ns)
            return ros.spin_for(1.0, until=lambda: number in ours.tensors)

        fusion.until(ours_too, f"our tick {number}")
        mine, theirs = ours.tensors[number], fusion.tensors[number]
        assert mine.digest == theirs.digest == robocache.digest_of(mine) != 0
        # The clock of both has begun once.
        assert mine.epoch == theirs.epoch == 1
        assert 0 != mine.run != theirs.run != 0
    assert mine["wrench"].valid.all() and mine["force"].valid.all()
    assert ours.threads == {pipeline._thread}
    assert pipeline.stats()["ticks"] >= 20


def test_it_needs_no_other_process(ros, make):
    ours = Collected()
    pipeline = make({"rate_hz": 50, "streams": {"wrench": {**WRENCH, "qos": {}}}}, ours)
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)

    def valid():
        publish_now(ros, publisher)
        ros.spin_for(0.02)
        return any(tensor["wrench"].valid.all() for tensor in ours.tensors.values())

    ros.spin_until(valid, "a valid tensor", detail=pipeline.stats)
    # A QoS of `auto` asks for what the publishers offer.
    ros.spin_until(
        lambda: pipeline._subscriptions[0][0] == (True, False), "a reliable subscription"
    )
    ours.tensors.clear()
    ros.spin_until(valid, "a valid tensor through it", detail=pipeline.stats)
    assert pipeline.layout[0]["name"] == "wrench" and pipeline.period_ns == 20 * MS


def test_it_reports_as_the_node_does(ros, make):
    reports = []
    ros.node.create_subscription(DiagnosticArray, "/diagnostics", reports.append, 10)
    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, Collected())
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)

    def received():
        publish_now(ros, publisher)
        ros.spin_for(0.02)
        found = (
            [dict((v.key, v.value) for v in of.values) for of in reports[-1].status]
            if reports
            else []
        )
        return len(found) == 2 and int(found[1]["received"]) > 3

    ros.spin_until(received, "a report of messages", detail=lambda: reports)
    ticks, wrench = reports[-1].status
    name = ros.node.get_fully_qualified_name()
    assert (ticks.name, wrench.name) == (f"{name}: tick", f"{name}: wrench")
    values = {pair.key: pair.value for pair in ticks.values}
    assert values["backend"] == "cpu" or values["backend"] == "cpu+cuda"
    assert float(values["published_hz"]) > 0 and float(values["latency_p99_ms"]) >= 0
    assert {pair.key: pair.value for pair in wrench.values}["topic"] == "/wrench"
    pipeline.destroy()


def test_a_slow_callback_gets_the_newest_tensor(ros, make, request):
    ticks, may_return = [], threading.Semaphore(0)

    def slow(tensor):
        ticks.append(tensor.tick)
        may_return.acquire()
        if len(ticks) == 2:
            raise KeyError("of the policy")

    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, slow, sim_time=True)
    # If the test fails, the callback must end as well.
    request.addfinalizer(lambda: may_return.release(100))
    clock = ros.node.create_publisher(Clock, "/clock", RELIABLE)

    def serve(tick, served, what):
        """Sets the clock to this tick, until that is seen."""

        def so():
            clock.publish(Clock(clock=time_message(tick * 10 * MS)))
            return ros.spin_for(1.0, until=served)

        ros.spin_until(so, f"tick {tick}: {what}", detail=pipeline.stats)

    def replaced():
        """Number of ticks, and of those that a newer one has replaced."""
        stats = pipeline.stats()
        return stats["ticks"], stats["missed"] + stats["unsent"]

    first = T0 // (10 * MS)
    serve(first, lambda: ticks == [first], "the callback has it")
    for call in range(1, 5):
        # Meanwhile there are 20 ticks. Each replaces the one before it.
        for more in range(1, 21):
            so_far = 1 + 20 * (call - 1) + more, 19 * (call - 1) + more - 1
            serve(ticks[-1] + more, lambda so_far=so_far: replaced() == so_far, f"{so_far}")
        may_return.release()
        ros.spin_until(lambda call=call: len(ticks) == call + 1, "the next call")
    assert ticks == [first + 20 * call for call in range(5)], "the newest of 20, not the next one"
    assert replaced() == (81, 4 * 19) and pipeline.stats()["missed"] > 0
    may_return.release()
    stats = pipeline.stats()
    assert stats["callback_failed"] == 1 and pipeline.error is None
    pipeline.destroy()
    pipeline.destroy()  # once more does nothing
    assert not pipeline._thread.is_alive()


def test_what_is_wrong_is_an_exception(make):
    with pytest.raises(ValueError, match="rate_hz: expected"):
        make({"streams": {"wrench": WRENCH}}, print)
    config = yaml.safe_dump({"rate_hz": 50, "streams": {"wrench": WRENCH}})
    with pytest.raises(ValueError, match="backend: expected auto, cpu or cuda"):
        make(config, print, backend="tpu")


def threads():
    """Names of the threads of this process by their numbers, those of the compiled part too."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found[task.name] = (task / "comm").read_text()
    return found


def entities(node):
    """Numbers of the subscriptions, publishers and timers of a node."""
    return [len(list(of)) for of in (node.subscriptions, node.publishers, node.timers)]


class Before:
    """State before a pipeline that could leave something behind."""

    def __init__(self, node):
        self._node, self._threads, self._entities = node, threads(), entities(node)

    def check(self):
        """Nothing is left. A thread may end after its join, and one of the middleware may begin late."""
        assert entities(self._node) == self._entities

        def left():
            new = {
                number: name for number, name in threads().items() if number not in self._threads
            }
            return {number: name for number, name in new.items() if not name.startswith("dds.")}

        waiting.until(
            lambda: not left(), "the end of all threads", detail=lambda: f"left: {left()}"
        )


def test_a_missing_package_is_named_and_nothing_is_left(ros, make, monkeypatch):
    config = {"rate_hz": 100, "streams": {"wrench": WRENCH}}
    before = Before(ros.node)
    for package in ("diagnostic_msgs", "geometry_msgs"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, f"{package}.msg", None)
            with pytest.raises(ModuleNotFoundError, match=f"expected the ROS package {package}"):
                make(config, print)
        before.check()


def test_a_failing_set_up_leaves_nothing(ros, make, monkeypatch):
    before, create, made = Before(ros.node), ros.node.create_timer, []

    def create_timer(*arguments):
        if made:
            raise RuntimeError("no timer")
        made.append(create(*arguments))
        return made[-1]

    monkeypatch.setattr(ros.node, "create_timer", create_timer)
    with pytest.raises(RuntimeError, match="no timer"):
        make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, print)
    assert made
    before.check()


def test_timers_that_still_run_after_the_end_do_nothing(ros, make):
    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, Collected())
    callbacks = [timer.callback for timer in pipeline._timers]
    ended, rounds, failed = threading.Event(), [0], []

    def spin():
        while not ended.is_set():
            for callback in callbacks:
                callback()
            rounds[0] += 1

    def await_rounds():
        """Waits until the callbacks have run again, or have failed."""
        enough = rounds[0] + 10
        waiting.until(lambda: failed or rounds[0] > enough, "the callbacks run")

    thread = threading.Thread(target=lambda: run(spin, failed))
    thread.start()
    try:
        await_rounds()
        pipeline.destroy()
        await_rounds()
    finally:
        ended.set()
        thread.join()
    assert not failed


def run(act, failed):
    """Runs it and notes what it raises."""
    try:
        act()
    except Exception as error:
        failed.append(error)


class Failing:
    """The compiled part; one of its threads fails."""

    def __init__(self, native):
        self._native = native

    def __getattr__(self, name):
        return getattr(self._native, name)

    def wait(self, patience_s):
        raise RuntimeError("fuse tick 7: the GPU is gone")


def test_the_end_tells_why_the_threads_had_failed(ros, make):
    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, print)
    pipeline._native = Failing(pipeline._native)
    ros.spin_until(lambda: pipeline.error is not None, "the error")
    with pytest.raises(RuntimeError, match="fuse tick 7: the GPU is gone"):
        pipeline.destroy()
    assert not pipeline._thread.is_alive()
    pipeline.destroy()  # once more does nothing


@pytest.mark.skipif(not has_gpu(), reason="no GPU: tensors cannot be on one")
def test_tensors_on_the_gpu_have_the_bits_of_those_on_the_host(ros, make):
    config = {"rate_hz": 50, "streams": {"wrench": {**WRENCH, "max_age_ms": 10_000}}}
    host, device = Collected(), Collected()
    make(config, host)
    pipeline = make(config, lambda tensor: device(tensor.on_host()), output="cuda")
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)

    def equal_ticks():
        publish_now(ros, publisher)
        ros.spin_for(0.02)
        ticks = set(host.tensors) & set(device.tensors)
        return [tick for tick in ticks if host.tensors[tick]["wrench"].valid.all() and same(tick)]

    def same(tick):
        ours, theirs = device.tensors[tick], host.tensors[tick]
        # A message may come between the two ticks of one number; then ages differ.
        told = (ours["wrench"].age_ns == theirs["wrench"].age_ns).all()
        assert not told or ours.data.tobytes() == theirs.data.tobytes()
        return told

    ros.spin_until(lambda: len(equal_ticks()) > 5, "equal ticks", detail=pipeline.stats)
    assert pipeline.stats()["refused"] == 0 and pipeline.error is None
