"""`robocache.ros.PipelineNode`: the tensors of fusion_node, made in the policy's process."""

import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from diagnostic_msgs.msg import DiagnosticArray
from fusion import (
    MS,
    PATIENCE,
    RELIABLE,
    T0,
    WRENCH,
    Fusion,
    publish_now,
    start_fusion,
    streams,
    wrench,
)
from geometry_msgs.msg import WrenchStamped
from rclpy.parameter import Parameter

sys.path.insert(0, str(REPOSITORY / "python"))
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
        fusion.until(lambda number=number: number in ours.tensors, f"our tick {number}")
        mine, theirs = ours.tensors[number], fusion.tensors[number]
        assert mine.digest == theirs.digest == robocache.digest_of(mine) != 0
    assert mine["wrench"].valid.all() and mine["force"].valid.all()
    assert ours.threads == {pipeline._thread}
    assert pipeline.stats()["ticks"] >= 20


def test_it_needs_no_other_process(ros, make):
    ours = Collected()
    pipeline = make({"rate_hz": 50, "streams": {"wrench": {**WRENCH, "qos": {}}}}, ours)
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)

    def valid():
        publish_now(ros, publisher)
        ros.spin_until(lambda: False, 0.02)
        return any(tensor["wrench"].valid.all() for tensor in ours.tensors.values())

    assert ros.spin_until(valid, PATIENCE), pipeline.stats()
    # A QoS of `auto` asks for what the publishers offer.
    assert ros.spin_until(lambda: pipeline._subscriptions[0][0] == (True, False), PATIENCE)
    assert ros.spin_until(valid, PATIENCE)
    assert pipeline.layout[0]["name"] == "wrench" and pipeline.period_ns == 20 * MS


def test_it_reports_as_the_node_does(ros, make):
    reports = []
    ros.node.create_subscription(DiagnosticArray, "/diagnostics", reports.append, 10)
    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, Collected())
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)

    def received():
        publish_now(ros, publisher)
        ros.spin_until(lambda: False, 0.02)
        found = (
            [dict((v.key, v.value) for v in of.values) for of in reports[-1].status]
            if reports
            else []
        )
        return len(found) == 2 and int(found[1]["received"]) > 3

    assert ros.spin_until(received, PATIENCE), reports
    ticks, wrench = reports[-1].status
    name = ros.node.get_fully_qualified_name()
    assert (ticks.name, wrench.name) == (f"{name}: tick", f"{name}: wrench")
    values = {pair.key: pair.value for pair in ticks.values}
    assert values["backend"] == "cpu" or values["backend"] == "cpu+cuda"
    assert float(values["published_hz"]) > 0 and float(values["latency_p99_ms"]) >= 0
    assert {pair.key: pair.value for pair in wrench.values}["topic"] == "/wrench"
    pipeline.destroy()


def test_a_slow_callback_gets_the_newest_tensor(ros, make):
    ticks = []

    def slow(tensor):
        ticks.append(tensor.tick)
        time.sleep(0.2)
        if len(ticks) == 2:
            raise KeyError("of the policy")

    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, slow)
    assert ros.spin_until(lambda: len(ticks) >= 5, PATIENCE)
    stats = pipeline.stats()
    assert stats["missed"] > 10 and stats["callback_failed"] == 1 and pipeline.error is None
    steps = [after - before for before, after in zip(ticks, ticks[1:])]
    assert min(steps) > 10, "the newest of 20 ticks, not the next one"
    pipeline.destroy()
    pipeline.destroy()  # once more does nothing
    assert not pipeline._thread.is_alive()


def test_what_is_wrong_is_an_exception(make):
    with pytest.raises(ValueError, match="rate_hz: expected"):
        make({"streams": {"wrench": WRENCH}}, print)
    config = yaml.safe_dump({"rate_hz": 50, "streams": {"wrench": WRENCH}})
    with pytest.raises(ValueError, match="backend: expected auto, cpu or cuda"):
        make(config, print, backend="tpu")


def running():
    """How many threads this process has, those of the compiled part too.

    Their names would not do: a thread of the middleware gets its name some time after it began.
    """
    return len(list(Path("/proc/self/task").iterdir()))


def left_behind(node):
    """The resources that a pipeline could leave behind."""
    made = (node.subscriptions, node.publishers, node.timers)
    return running(), [len(list(entities)) for entities in made]


def test_a_missing_package_is_named_and_nothing_is_left(ros, make, monkeypatch):
    config = {"rate_hz": 100, "streams": {"wrench": WRENCH}}
    before = left_behind(ros.node)
    for package in ("diagnostic_msgs", "geometry_msgs"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, f"{package}.msg", None)
            with pytest.raises(ModuleNotFoundError, match=f"expected the ROS package {package}"):
                make(config, print)
        assert left_behind(ros.node) == before


def test_a_failing_set_up_leaves_nothing(ros, make, monkeypatch):
    before, create, made = left_behind(ros.node), ros.node.create_timer, []

    def create_timer(*arguments):
        if made:
            raise RuntimeError("no timer")
        made.append(create(*arguments))
        return made[-1]

    monkeypatch.setattr(ros.node, "create_timer", create_timer)
    with pytest.raises(RuntimeError, match="no timer"):
        make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, print)
    assert made and left_behind(ros.node) == before


def test_timers_that_still_run_after_the_end_do_nothing(ros, make):
    pipeline = make({"rate_hz": 100, "streams": {"wrench": WRENCH}}, Collected())
    callbacks = [timer.callback for timer in pipeline._timers]
    ended = threading.Event()

    def spin():
        while not ended.is_set():
            for callback in callbacks:
                callback()

    failed = []
    thread = threading.Thread(target=lambda: run(spin, failed))
    thread.start()
    time.sleep(0.1)
    pipeline.destroy()
    time.sleep(0.1)
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
    assert ros.spin_until(lambda: pipeline.error is not None, PATIENCE)
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
        ros.spin_until(lambda: False, 0.02)
        ticks = set(host.tensors) & set(device.tensors)
        return [tick for tick in ticks if host.tensors[tick]["wrench"].valid.all() and same(tick)]

    def same(tick):
        ours, theirs = device.tensors[tick], host.tensors[tick]
        # A message may come between the two ticks of one number; then ages differ.
        told = (ours["wrench"].age_ns == theirs["wrench"].age_ns).all()
        assert not told or ours.data.tobytes() == theirs.data.tobytes()
        return told

    assert ros.spin_until(lambda: len(equal_ticks()) > 5, PATIENCE), pipeline.stats()
    assert pipeline.stats()["refused"] == 0 and pipeline.error is None
