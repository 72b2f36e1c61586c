"""`PipelineNode`: the pipeline of fusion_node inside the policy's own process, on the topics of rclpy."""

from __future__ import annotations

import importlib
import json
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.utilities import get_rmw_implementation_identifier

from .. import _native
from ..contract import Contract, config_text, expect_and_log, trained
from ..message.tensor import FusedTensor
from ..message.views import Views
from .pipeline import checked_output, device_number

if TYPE_CHECKING:
    from rclpy.node import Node

#: The queue of `/clock`: a tenth of a second at 1 kHz.
_CLOCK_QOS = QoSProfile(
    depth=100, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
)
#: Time between two looks at what the publishers offer [s].
_GRAPH_PERIOD_S = 0.5
#: Time between two reports on `/diagnostics` [s], as of fusion_node.
_REPORT_PERIOD_S = 1.0
#: The folder of the files for a middleware that advice names.
_FILES = "<robocache_ros>/config"
#: Time between two looks whether the node was destroyed [s].
_PATIENCE_S = 0.1


class PipelineNode:
    """Subscribes to the topics of a configuration, and calls `on_tensor(tensor)` at every tick.

    It is fusion_node without a second process and without a message on the way: the same clock, epochs,
    schedule, workers and arithmetic, so the tensors are bit for bit the same. The threads of the compiled
    part tick; Python's part only hands the bytes of messages over.

        node = rclpy.create_node("policy")
        pipeline = PipelineNode(node, "robot.yaml", lambda tensor: act(tensor["joints"].float32()))
        rclpy.spin(node)
        pipeline.destroy()

    It also publishes fusion_node's report on `/diagnostics`, once a second, under the node's name.

    If the node has `use_sim_time`, `/clock` sets the clock; read once, here.

    Args:
        node: the node of rclpy that subscribes. The caller must spin it.
        config: a path, the text of a configuration, or a dict. Types that it selects numbers from come
            from the ROS that is sourced.
        on_tensor: is called with each `FusedTensor`, on a thread of its own. If it is slow, it gets the
            newest tensor next, and those between are counted as missed. What it raises is logged and
            counted as `callback_failed`.
        backend, device: where to compute, as of `Pipeline`.
        output: "host", or "cuda" for tensors in memory of the GPU, as of `Pipeline`.
        digest: whether each tensor gets the node's digest; not with output="cuda".
        priority: the real-time priority of the tick thread, 0 for ordinary.
        cpus: the processors of the tick thread; empty for all.
        contract: the folder of the policy, with its `robocache.json`, or a `robocache.Contract`: what the configuration
            makes must be what the policy was trained with.

    Attributes:
        error: why the threads ended, if they failed, which `destroy` raises too; None else.

    Raises:
        ContractError: the policy was trained with something else.
        ValueError: the configuration is wrong.
        RuntimeError: the backend cannot be used, or the GPU has no memory for tensors.
        ModuleNotFoundError: the package of a message is missing, also `diagnostic_msgs`.

    If it raises, no thread and no subscription stays.
    """

    def __init__(
        self,
        node: Node,
        config: str | os.PathLike[str] | Mapping[str, Any],
        on_tensor: Callable[[FusedTensor], object],
        *,
        backend: str = "auto",
        device: Any = 0,
        output: str = "host",
        digest: bool = False,
        priority: int = 0,
        cpus: Iterable[int] = (),
        contract: str | os.PathLike[str] | Contract | None = None,
    ) -> None:
        self.error: RuntimeError | None = None
        self._node = node
        self._on_tensor = on_tensor
        self._counts = {"callbacks": 0, "callback_failed": 0, "clock_malformed": 0}
        self._ended = threading.Event()
        text, file = config_text(config)
        policy = trained(contract)
        if policy is not None:
            served = Contract(_native.contract_of(text, file, False))  # as `contract` says it
            expect_and_log(policy, served, file, node.get_logger())
        simulated = bool(
            node.has_parameter("use_sim_time") and node.get_parameter("use_sim_time").value
        )
        place = (backend, device_number(device), checked_output(output, digest))
        # Before the threads start: what is missing then leaves nothing behind.
        self._diagnostics_types = tuple(
            _type_of(f"diagnostic_msgs/msg/{kind}")
            for kind in ("DiagnosticArray", "DiagnosticStatus", "KeyValue")
        )
        self._lock = threading.Lock()
        # By input: what was asked for, and the subscription.
        self._subscriptions: dict[int, tuple[tuple[bool, bool], Any]] = {}
        self._timers: list[Any] = []
        self._clock: Any = None
        self._diagnostics: Any = None
        self._thread: threading.Thread | None = None
        self._native = _native.LivePipeline(
            text, file, *place, simulated, bool(digest), priority, list(cpus)
        )
        try:
            self._subscribe_all(simulated)
            self._report_and_renew()
            self._thread = threading.Thread(target=self._serve, name="tensors", daemon=True)
            self._thread.start()
        except BaseException:
            # What is made by now must push nothing more, and no thread may stay.
            self._ended.set()
            try:
                self._destroy_all()
            finally:
                self._native.close()
            raise

    @property
    def period_ns(self) -> int:
        """Time between two ticks [ns]."""
        return self._native.period_ns

    def contract(self) -> Contract:
        """What a policy relies on that is trained on these tensors: a `robocache.Contract`."""
        return Contract(self._native.contract())

    @property
    def layout(self) -> list[dict[str, Any]]:
        """What each segment means, as `Pipeline.layout`."""
        return json.loads(self._native.layout())

    def stats(self) -> dict[str, Any]:
        """The counters until now: those of `Pipeline.stats`, and of this node.

        `missed` tensors were replaced by a newer one before the callback took them. `refused` tensors were not
        handed over because the GPU had no memory for them.
        """
        missed = self._native.missed
        return {**json.loads(self._native.stats()), **self._counts, "missed": missed}

    def destroy(self) -> None:
        """Ends the threads and the subscriptions. It does not end the node.

        Raises RuntimeError if a thread had failed, with what is in `error`; only the first call does.
        """
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
        try:
            self._destroy_all()
        finally:
            try:
                self._native.close()
            finally:
                if self._thread is not None and threading.current_thread() is not self._thread:
                    self._thread.join()
        # `wait` has taken the failure, so that `close` does not know of it.
        if self.error is not None:
            raise self.error

    def _destroy_all(self) -> None:
        """Ends what was made of the node of rclpy. What is gone with the node already is no error."""
        made = [subscription for _, subscription in self._subscriptions.values()]
        ends = [(self._node.destroy_timer, timer) for timer in self._timers]
        ends += [(self._node.destroy_publisher, self._diagnostics)]
        ends += [(self._node.destroy_subscription, of) for of in [*made, self._clock]]
        for end, entity in ends:
            if entity is not None:
                end(entity)

    def _subscribe_all(self, simulated: bool) -> None:
        self._inputs = json.loads(self._native.inputs())
        self._types = [_type_of(known["ros_type"]) for known in self._inputs]
        for number in range(len(self._inputs)):
            self._subscribe(number, self._request(number))
        if simulated:
            kind = _type_of("rosgraph_msgs/msg/Clock")
            self._clock = self._node.create_subscription(
                kind, "/clock", self._on_clock, _CLOCK_QOS, raw=True
            )

    def _report_and_renew(self) -> None:
        """Begins the report on `/diagnostics` and the looks at the publishers."""
        topics = [self._node.resolve_topic_name(known["topic"]) for known in self._inputs]
        self._native.watch(topics, get_rmw_implementation_identifier(), _FILES)
        kind = self._diagnostics_types[0]
        self._diagnostics = self._node.create_publisher(kind, "/diagnostics", 10)
        for period_s, act in ((_GRAPH_PERIOD_S, self._renew), (_REPORT_PERIOD_S, self._report)):
            # Appended one by one: if the second fails, the first is destroyed.
            self._timers.append(self._node.create_timer(period_s, self._unless_ended(act)))

    def _unless_ended(self, act: Callable[[], object]) -> Callable[[], None]:
        """The callback of a timer: an executor may still run it while another thread ends this."""

        def callback() -> None:
            with self._lock:
                if not self._ended.is_set():
                    act()

        return callback

    def _request(self, number: int) -> tuple[bool, bool]:
        """Whether to ask for reliable, and for transient local; tells the monitor of the publishers."""
        known = self._inputs[number]
        topic = self._node.resolve_topic_name(known["topic"])
        offers = self._node.get_publishers_info_by_topic(topic)
        seen = [
            (
                _node_of(offer),
                offer.topic_type,
                offer.qos_profile.reliability == ReliabilityPolicy.RELIABLE,
                offer.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
            )
            for offer in offers
        ]
        return self._native.see(number, seen)

    def _subscribe(self, number: int, request: tuple[bool, bool]) -> None:
        reliable, local = request
        qos = QoSProfile(
            depth=self._inputs[number]["depth"],
            history=HistoryPolicy.KEEP_LAST,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if local else DurabilityPolicy.VOLATILE,
        )

        def on_message(message: bytes, info: Any) -> None:
            if not self._ended.is_set():
                self._native.push(number, message, *_transit(info))

        topic = self._inputs[number]["topic"]
        made = self._node.create_subscription(self._types[number], topic, on_message, qos, raw=True)
        self._subscriptions[number] = (request, made)

    def _renew(self) -> None:
        """Subscribes again where the publishers now offer something else."""
        for number, (before, subscription) in list(self._subscriptions.items()):
            request = self._request(number)
            if request != before:
                # The new one first: a message that comes twice replaces itself.
                self._subscribe(number, request)
                self._node.destroy_subscription(subscription)

    def _report(self) -> None:
        """Publishes on `/diagnostics` what fusion_node publishes there."""
        stamp_ns, parts = self._native.report()
        array, status, pair = self._diagnostics_types
        message = array()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
        name = self._node.get_fully_qualified_name()
        message.status = [
            status(
                level=bytes([level]),
                name=f"{name}: {part}",
                message=words,
                hardware_id="robocache",
                values=[pair(key=key, value=value) for key, value in values],
            )
            for part, level, words, values in parts
        ]
        self._diagnostics.publish(message)

    def _on_clock(self, message: bytes, info: Any) -> None:
        if not self._ended.is_set() and not self._native.set_clock(message, *_transit(info)):
            self._counts["clock_malformed"] += 1

    def _serve(self) -> None:
        """Hands tensors to the callback until the end."""
        views = Views()
        while not self._ended.is_set():
            try:
                native = self._native.wait(_PATIENCE_S)
            except RuntimeError as error:
                self.error = error
                self._node.get_logger().fatal(f"the pipeline has ended: {error}")
                return
            if native is None:
                continue
            try:
                self._counts["callbacks"] += 1
                self._on_tensor(views.of(native))
            except Exception:
                self._counts["callback_failed"] += 1
                self._node.get_logger().error(
                    f"on_tensor: {traceback.format_exc()}", throttle_duration_sec=1.0
                )


def _node_of(offer: Any) -> str | None:
    """The full name of a publisher's node; None while the graph does not know it."""
    if not offer.node_name or offer.node_name.startswith("_"):
        return None
    return f"{offer.node_namespace.rstrip('/')}/{offer.node_name}"


def _transit(info: Any) -> tuple[int | None, int | None]:
    """When a message was published and when it arrived [ns]; None where the middleware does not tell."""
    return info["source_timestamp"] or None, info["received_timestamp"] or None


def _type_of(name: str) -> Any:
    """The class of the messages of this type. Raises ModuleNotFoundError that names the package."""
    package, _, own = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), own)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name}: expected the ROS package {package}, found no module {error.name}: install it"
            " (apt: ros-$ROS_DISTRO-" + package.replace("_", "-") + ") or source it",
            name=error.name,
        ) from error
    except AttributeError:
        raise ValueError(
            f"{name}: expected a message of package {package}, found no {own} there"
        ) from None
