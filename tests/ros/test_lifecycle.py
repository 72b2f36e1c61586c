"""The managed node (`managed:=true`), asked by rclpy: its states, what it has in each of them, and its errors.

A lifecycle node of rclpy, whose states are those of rcl_lifecycle, gets the same requests.
"""

import contextlib
import os
import re
import signal
import stat
import time
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from fusion import RELIABLE, WRENCH, publish_now, subscribe_tensors, write_config
from geometry_msgs.msg import WrenchStamped
from managed import (
    ACTIVATE,
    ACTIVATED,
    CLEANUP,
    CONFIGURE,
    CONFIGURED,
    DEACTIVATE,
    SERVICES,
    Managed,
    start_managed,
)
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.node import NodeNameNonExistentError
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from yaml import safe_dump

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
SHUTDOWN = "shutdown"
#: Numbers and labels that no client may ask for, or only in other states.
REQUESTS = [*range(13), 20, 30, 40, 50, 60, 62, 97, 99, 255, "transition_success", "Configure", "x"]


@pytest.fixture
def config_file(tmp_path):
    return write_config(tmp_path, {"rate_hz": 50, "streams": {"wrench": WRENCH}})


class Peer(LifecycleNode):
    """A lifecycle node of rclpy. If `fails` is set, its transitions end in an error."""

    fails = False

    def on_configure(self, state):
        return TransitionCallbackReturn.ERROR if self.fails else TransitionCallbackReturn.SUCCESS

    on_activate = on_configure

    def _LifecycleNodeMixin__change_state(self, transition):
        # rclpy lets the error of rcl end the executor; the client of a node of rclcpp gets `false`.
        change = super()._LifecycleNodeMixin__change_state
        try:
            return change(transition)
        except rclpy_implementation.RCLError:
            return TransitionCallbackReturn.FAILURE


@pytest.fixture
def peer(ros):
    node = Peer("peer", context=ros.context)
    ros.executor.add_node(node)
    yield node
    ros.executor.remove_node(node)
    node.destroy_node()


def names_of(managed, node):
    """The services of the lifecycle, and the quality of service of the transitions."""
    own, offered = {f"/{managed.name}/{service}" for service in SERVICES}, {}

    def all_known():
        """True if the graph has the services under the node's name. It may learn the name later than them."""
        with contextlib.suppress(NodeNameNonExistentError):
            offered.update(node.get_service_names_and_types_by_node(managed.name, "/"))
        return own <= offered.keys()

    managed.until(all_known, "the services of the node by its name")
    (info,) = node.get_publishers_info_by_topic(f"/{managed.name}/transition_event")
    qos = info.qos_profile
    policies = (qos.reliability, qos.durability, qos.liveliness, qos.deadline, qos.lifespan)
    services = {name.split("/")[-1]: types for name, types in offered.items() if name in own}
    return services, info.topic_type, policies


def test_a_client_cannot_tell_it_from_a_lifecycle_node_of_rclpy(ros, start, peer, config_file):
    node = start_managed(ros, start, config_file=config_file)
    nodes = (node, Managed(ros, "peer"))
    of_node, of_peer = (names_of(managed, ros.node) for managed in nodes)
    assert of_node == of_peer and len(of_node[0]) == 5

    def both(ask):
        """What both nodes answer, which is the same."""
        ours, theirs = map(ask, nodes)
        assert ours == theirs, node.process.output
        return ours

    def step(transition, goal, ways=2):
        """A transition of both, by its number or its label. The events are the same."""
        assert both(lambda managed: managed.change(transition)) is (goal is not None)
        for managed in nodes:
            managed.until(lambda m=managed: len(m.events) >= ways, "its events")
        events = both(lambda managed: managed.events)
        assert len(events) == ways
        for managed in nodes:
            managed.events = []
        state, _, allowed, _ = both(Managed.all_answers)
        assert goal is None or state[1] == goal
        labels = {transition[0][1] for transition in allowed}
        numbers = {transition[0][0] for transition in allowed}
        for wrong in REQUESTS:
            if wrong not in labels | numbers:
                assert both(lambda managed, wrong=wrong: managed.change(wrong)) is False, wrong
        # If one comes later than these answers, it is found with the next step.
        both(Managed.all_answers)
        assert both(lambda managed: managed.events) == [], "a refused request has no event"

    step(CONFIGURE, "inactive")
    step(CLEANUP, "unconfigured")
    step("configure", "inactive")
    step(ACTIVATE, "active")
    step(DEACTIVATE, "inactive")
    step("activate", "active")
    step(DEACTIVATE, "inactive")
    step(CLEANUP, "unconfigured")
    peer.fails = True
    assert node.set(config_file="/no/such.yaml") == {}
    step(CONFIGURE, None, ways=3)
    assert both(Managed.state) == (1, "unconfigured")
    step(SHUTDOWN, "finalized")
    assert both(Managed.state) == (4, "finalized")


@pytest.mark.parametrize("way", [[], [CONFIGURE], [CONFIGURE, ACTIVATE]])
def test_it_can_be_shut_down_in_each_state_and_then_ended(ros, start, config_file, way):
    node = start_managed(ros, start, config_file=config_file)
    node.must(*way)
    node.must(5 + len(way))
    assert node.state() == (4, "finalized")
    assert node.way(2 * len(way) + 2)[-1] == ("shuttingdown", "finalized")
    assert node.process.stop() == 0


# ---- the sequence of nav2's lifecycle_manager ------------------------------------------------------


def test_the_sequence_of_the_lifecycle_manager(ros, start, peer, config_file):
    """Its start-up, pause, resume, reset and shutdown of two nodes, without bonds."""
    nodes = [start_managed(ros, start, config_file=config_file), Managed(ros, "peer")]

    def all_to(transition, goal, order=1):
        for managed in nodes[::order]:
            assert managed.change(transition) and managed.state()[0] == goal

    def start_up():
        all_to(CONFIGURE, 2)
        all_to(ACTIVATE, 3)

    tensors = subscribe_tensors(ros, "fused_tensor")
    start_up()
    ros.spin_until(lambda: tensors, "a tensor", detail=lambda: nodes[0].process.output)
    all_to(DEACTIVATE, 2, order=-1)
    all_to(ACTIVATE, 3)
    all_to(DEACTIVATE, 2, order=-1)
    all_to(CLEANUP, 1, order=-1)
    start_up()
    all_to(DEACTIVATE, 2, order=-1)
    all_to(CLEANUP, 1, order=-1)
    all_to(5, 4, order=-1)


# ---- what it has in each state ---------------------------------------------------------------------


def statuses(ros):
    """The newest diagnostics, by part; fills while `ros` spins."""
    found = {}

    def note(message):
        found.clear()
        found.update({status.name.split(": ")[1]: status for status in message.status})

    ros.node.create_subscription(DiagnosticArray, "/diagnostics", note, RELIABLE)
    return found


def test_each_state_has_what_it_needs(ros, start, config_file):
    node = start_managed(ros, start, config_file=config_file)
    seen = statuses(ros)
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)
    tensors, infos = subscribe_tensors(ros, "fused_tensor"), []
    ros.node.create_subscription(FusedTensorInfo, "fused_tensor/info", infos.append, LATCHED)

    def has(state, publishes, subscribes, parts=frozenset()):
        def so():
            publish_now(ros, publisher)
            counts = [ros.node.count_publishers(f"/fused_tensor{e}") for e in ("", "/info")]
            subscribed = publisher.get_subscription_count()
            told = set(seen) == {"lifecycle", *parts} and seen["lifecycle"].message == state
            return told and counts == [publishes] * 2 and subscribed == subscribes

        node.until(so, f"{state}: {seen}")

    has("unconfigured", 0, 0)
    assert seen["lifecycle"].level == DiagnosticStatus.OK
    node.must(CONFIGURE)
    has("inactive", 1, 0)
    node.until(lambda: infos, "the latched message of the tensors")
    assert [segment.name for segment in infos[0].segments] == ["wrench"]
    # When it was active [ns]. The last tensors show that no others came before them.
    active = []
    for _ in range(3):
        began = time.time_ns()
        node.must(ACTIVATE)

        def a_tensor_comes(began=began):
            publish_now(ros, publisher)
            return any(20_000_000 * tensor.tick >= began for tensor in tensors)

        node.until(a_tensor_comes, "a tensor")
        has("active", 1, 1, {"tick", "wrench"})
        node.must(DEACTIVATE)
        # A tick that was due when the work was stopped may still come.
        active.append((began, time.time_ns()))
        has("inactive", 1, 0)
    instants = [20_000_000 * tensor.tick for tensor in tensors]
    assert all(any(first <= ns <= last for first, last in active) for ns in instants), active
    assert len(infos) == 1, "the publisher stays"
    node.must(CLEANUP)
    has("unconfigured", 0, 0)


def test_another_policy_without_a_new_process(ros, start, tmp_path, config_file):
    other = tmp_path / "other.yaml"
    streams = {"left": WRENCH, "right": {**WRENCH, "topic": "right"}}
    output = {"topic": "policy"}
    other.write_text(safe_dump({"rate_hz": 20, "output": output, "streams": streams}))
    node = start_managed(ros, start)
    assert not node.change(CONFIGURE)
    node.process.wait_for("parameter config_file: expected the path of a configuration")
    first, second = subscribe_tensors(ros, "fused_tensor"), subscribe_tensors(ros, "policy")
    assert node.set(config_file=str(config_file)) == {}
    node.must(CONFIGURE, ACTIVATE)
    node.until(lambda: first, "a tensor")
    reason = (
        "expected an unconfigured node, found one that is active: "
        "deactivate it and clean it up before"
    )
    assert node.set(config_file=str(other)) == {"config_file": reason}
    node.must(DEACTIVATE, CLEANUP)
    refused = node.set(config_file=str(other), rate_hz=40, backend="gpu", managed=False, x=1)
    assert refused.pop("managed").startswith("read-only")
    assert refused == {
        "backend": "parameter backend: expected auto, cpu or cuda, found 'gpu'",
        "x": "not a parameter of this node",
    }
    node.until(lambda: len(node.changes) == 3, "the changes are told")
    assert [list(change) for change in node.changes] == [["config_file"]] * 2 + [["rate_hz"]]
    assert node.changes[2]["rate_hz"].double_value == 40.0
    node.must(CONFIGURE, ACTIVATE)
    node.until(lambda: len(second) > 3, "tensors of the other policy")
    assert [segment.name for segment in second[-1].segments] == ["left", "right"]
    ticks = [tensor.tick for tensor in second]
    assert ticks == sorted(set(ticks)), "each once, in order"
    stamp = second[-1].header.stamp
    assert stamp.sec * 10**9 + stamp.nanosec == second[-1].tick * 25_000_000


def test_after_its_work_neither_memory_is_locked_nor_a_thread_urgent(ros, start, config_file):
    given = {"lock_memory": True, "realtime_priority": 20, "config_file": config_file}
    node = start_managed(ros, start, **given)

    def locked_and_urgent():
        process, stats = Path(f"/proc/{node.process.pid}"), []
        (locked,) = re.findall(r"VmLck:\s*(\d+)", (process / "status").read_text())
        for task in (process / "task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended
                stats.append((task / "stat").read_text())
        # The policy is field 41; the name of the thread may have spaces.
        return int(locked) > 0, any(stat.rpartition(")")[2].split()[38] == "1" for stat in stats)

    assert locked_and_urgent() == (False, False)
    node.must(CONFIGURE, ACTIVATE)
    said = node.process.wait_for("ticks run at ")
    # What the system permits decides.
    urgent = "ticks run at real-time priority 20 (SCHED_FIFO)" in said
    if os.geteuid() == 0:
        node.until(lambda: locked_and_urgent() == (True, urgent), f"locked memory, {urgent=}")
    node.must(DEACTIVATE)
    assert locked_and_urgent() == (False, False)


# ---- errors ----------------------------------------------------------------------------------------

FAILED = [("errorprocessing", "unconfigured")]


def test_an_error_in_a_transition_leaves_the_node_unconfigured(ros, start, tmp_path, config_file):
    node = start_managed(ros, start, config_file="/no/such.yaml", record_to=config_file)
    seen = statuses(ros)
    assert not node.change(CONFIGURE)
    ways = [("unconfigured", "configuring"), ("configuring", "errorprocessing"), *FAILED]
    assert node.way(3) == ways
    node.process.wait_for("/no/such.yaml")
    node.until(
        lambda: seen and seen["lifecycle"].level == DiagnosticStatus.ERROR,
        "the diagnostics have the error",
    )
    assert "/no/such.yaml" in seen["lifecycle"].message
    node.set(config_file=str(config_file))
    node.must(CONFIGURE)
    assert node.way(2) == CONFIGURED
    node.until(lambda: seen["lifecycle"].message == "inactive", "the error is over")
    assert not node.change(ACTIVATE)
    ways = [("inactive", "activating"), ("activating", "errorprocessing"), *FAILED]
    assert node.way(3) == ways
    node.process.wait_for("record_to: ")
    node.until(lambda: ros.node.count_publishers("/fused_tensor") == 0, "nothing is left")
    node.set(record_to="")
    node.must(CONFIGURE, ACTIVATE)
    assert node.way(4) == CONFIGURED + ACTIVATED


def test_a_fault_while_it_works_leads_through_error_processing(
    ros,
    start,
    tmp_path,
    config_file,
    node_faults,
):
    fault = tmp_path / "fault"
    node = start_managed(ros, start, config_file=config_file, env=node_faults(take=fault))
    tensors = subscribe_tensors(ros, "fused_tensor")
    publisher = ros.node.create_publisher(WrenchStamped, "wrench", RELIABLE)
    for _ in range(2):
        node.must(CONFIGURE, ACTIVATE)
        node.until(lambda: publish_now(ros, publisher) or tensors, "a tensor")
        node.way(4)
        fault.touch()
        node.until(lambda: publish_now(ros, publisher) or len(node.events) > 2, "the fault")
        fault.unlink()
        ways = [("active", "deactivating"), ("deactivating", "errorprocessing"), *FAILED]
        assert node.way(3) == ways
        assert node.state() == (1, "unconfigured")
        tensors.clear()
    said = [line for line in node.process.output.splitlines() if "ERROR" in line]
    assert len(said) == 2 and "take a message of /wrench" in said[0]


# ---- requests and signals during a transition ------------------------------------------------------


@pytest.fixture
def configuring(ros, start, tmp_path, config_file):
    """A node that configures, the answer that is awaited, and `finish()`, which gives it its configuration."""
    path = tmp_path / "slow.yaml"
    os.mkfifo(path)
    node = start_managed(ros, start, config_file=config_file)
    node.set(config_file=str(path))
    changed = node.ask("change_state", node.change_request(CONFIGURE))
    node.until(lambda: node.events, "the transition begins")

    def finish():
        with open(path, "w") as file:
            file.write(config_file.read_text())

    yield node, changed, finish
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_requests_during_a_transition_wait_for_its_end(configuring):
    """As in a node of rclcpp, whose services are served one after the other."""
    node, changed, finish = configuring
    state, again = node.ask("get_state"), node.ask("change_state", node.change_request(CONFIGURE))
    # The node takes these requests after the others.
    for _ in range(3):
        assert node.set(rate_hz=5.0)["rate_hz"].startswith("expected an unconfigured node")
    assert not (changed.done() or state.done() or again.done())
    finish()
    node.until(lambda: changed.done() and state.done() and again.done(), "the answers")
    assert changed.result().success and not again.result().success
    assert (state.result().current_state.id, node.state()) == (2, (2, "inactive"))
    assert node.way(2) == CONFIGURED


def test_a_shutdown_during_a_transition_is_carried_out_after_it(configuring):
    node, changed, finish = configuring
    ended = node.ask("change_state", node.change_request(SHUTDOWN))
    finish()
    node.until(lambda: changed.done() and ended.done(), "both answers")
    assert changed.result().success and ended.result().success
    assert node.state() == (4, "finalized")


@pytest.mark.parametrize("way", [[], [CONFIGURE], [CONFIGURE, ACTIVATE]])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_each_state(ros, start, config_file, way, signum):
    node = start_managed(ros, start, config_file=config_file)
    node.must(*way)
    assert node.process.stop(signum) == 0
    assert f"{signum.name}: shutting down" in node.process.output


def test_a_signal_during_a_transition_ends_it_in_order(configuring):
    node, _, finish = configuring
    os.kill(node.process.pid, signal.SIGINT)
    node.process.wait_for("SIGINT: shutting down; a transition is under way")
    finish()
    assert node.process.wait() == 0, "the transition ends, and then the node"


def test_a_signal_during_a_transition_that_hangs_ends_it_too(configuring):
    node, *_ = configuring
    node.process.expected_code = 1
    os.kill(node.process.pid, signal.SIGINT)
    node.process.wait_for("a transition is under way")
    node.process.stop(signal.SIGTERM)
    assert "SIGTERM again" in node.process.output
