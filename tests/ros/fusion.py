"""Drives the node under test step by step: sends messages, sets its clock, receives its tensors.

The tensor is read from the plain rclpy message with NumPy, and not by the package's own client. So
an error in the client does not hide an error in the node.
"""

import importlib
import itertools
import time
from dataclasses import dataclass

import numpy as np
import yaml
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from robocache_ros.msg import FusedTensor
from rosgraph_msgs.msg import Clock
from waiting import PATIENCE, Wait

MS = 1_000_000
#: An instant like that of a real clock, and a multiple of every period in the tests [ns].
T0 = 1_795_000_000_000 * MS
#: Age of a step without a row.
NO_AGE = 2**63 - 1


def type_of(name):
    """The class of messages of this type."""
    package, _, own = name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), own)


RELIABLE = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
BEST_EFFORT = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)


def time_message(ns):
    """An instant [ns] as a message."""
    return Time(sec=ns // 10**9, nanosec=ns % 10**9)


def nanoseconds(stamp):
    """A message's instant [ns]."""
    return stamp.sec * 10**9 + stamp.nanosec


def stamped(message_type, ns, **fields):
    """A message with this header stamp [ns]."""
    message = message_type(**fields)
    message.header.stamp = time_message(ns)
    return message


def wrench(ns, *force):
    """A wrench with this force."""
    message = stamped(WrenchStamped, ns)
    message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = map(float, force)
    return message


def streams(**given):
    """Streams whose topics have their names, with reliable delivery and strategy hold."""
    common = {"max_age_ms": 50, "strategy": "hold", "qos": {"reliability": "reliable"}}

    def topic(name, spec):
        return {} if "inputs" in spec else {"topic": f"/{name}"}

    return {name: {**topic(name, spec), **common, **spec} for name, spec in given.items()}


def topics_of(spec):
    """The topics of a stream's inputs, with the types of their messages."""
    inputs = spec.get("inputs", [spec])
    return {given["topic"]: given.get("type") or spec["type"] for given in inputs}


def f32(values):
    """The values as float32."""
    return np.array(values, np.float32)


#: A stream of wrenches; its topic is relative.
WRENCH = {
    "type": "geometry_msgs/msg/WrenchStamped",
    "topic": "wrench",
    "max_age_ms": 50,
    "qos": {"reliability": "reliable"},
}


def write_config(folder, config):
    """Writes a configuration and returns its path."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def publish_now(ros, publisher):
    """Publishes a wrench stamped with the system's time."""
    message = WrenchStamped()
    message.header.stamp = ros.node.get_clock().now().to_msg()
    publisher.publish(message)


def subscribe_tensors(ros, topic):
    """A list that fills with the tensors on a topic."""
    tensors = []
    ros.node.create_subscription(FusedTensor, topic, tensors.append, RELIABLE)
    return tensors


@dataclass
class Segment:
    """One stream's part of a tensor."""

    array: np.ndarray
    valid: list
    target_ns: list
    age_ns: list
    count: list
    inputs_valid: list


def elements(code, bits, data):
    """The bytes as an array of a DLPack type; bfloat16, which NumPy lacks, as float32."""
    if (code, bits) == (4, 16):
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    kinds = {(2, 32): "<f4", (2, 16): "<f2", (1, 8): "u1", (0, 32): "<i4"}
    return np.frombuffer(data, kinds[code, bits])


def segments(message, sparse=()):
    """The segments of a FusedTensor by name; checks what must hold for every message.

    The segments of streams in `sparse` need not be dense.
    """
    data = bytes(message.data)
    found, end = {}, 0
    for part in message.segments:
        assert part.dtype_lanes == 1 and part.byte_offset % 64 == 0
        assert end <= part.byte_offset < end + 64, "segments follow each other"
        end = part.byte_offset + int(np.prod(part.shape)) * part.dtype_bits // 8
        assert end <= len(data) and part.name not in found
        array = elements(part.dtype_code, part.dtype_bits, data[part.byte_offset : end])
        steps = part.shape[0]
        per_step = (part.valid, part.target_ns, part.age_ns, part.count, part.inputs_valid)
        assert [len(values) for values in per_step] == [steps] * len(per_step)
        assert list(part.target_ns) == sorted(part.target_ns)
        array = array.reshape(part.shape)
        for valid, _, _, count, inputs in zip(*per_step):
            assert inputs != 0 or not valid, "a valid step has its inputs"
            is_sparse = part.name.partition(".")[0] in sparse
            assert count == part.shape[1] or is_sparse, "every segment is dense"
        found[part.name] = Segment(array, *map(list, per_step))
    return found


class Fusion:
    """A running fusion_node with a publisher for each of its topics and a clock to set.

    Without `publish` it has no publishers. With `raw` it keeps the bytes of the tensors too. It tells the reports of
    several nodes apart by their names.
    """

    #: The node's name in its reports.
    NAME = "/fusion_node"

    def __init__(self, ros, process, config, period_ms=10, sim_time=True, publish=True, raw=False):
        self.ros, self.process, self.config = ros, process, config
        self.period_ns = period_ms * MS
        #: Received tensors by tick, and the ticks in order of arrival.
        self.tensors, self.ticks = {}, []
        #: The bytes of the tensors by tick.
        self.raw = {}
        #: The last level, words and values of each part of each node, and of this one; and all its words so far.
        self.statuses, self.said = {self.NAME: {}}, []
        self.status = self.statuses[self.NAME]
        self.node_time_ns = None
        self.sent = {}
        node = ros.node
        on_tensor = self._on_bytes if raw else self._on_tensor
        node.create_subscription(FusedTensor, "fused_tensor", on_tensor, RELIABLE, raw=raw)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, RELIABLE)
        self._clock = node.create_publisher(Clock, "/clock", RELIABLE) if sim_time else None
        self._set_ns = None
        self.publishers = {}
        for spec in config["streams"].values() if publish else ():
            for topic, kind in topics_of(spec).items():
                if topic not in self.publishers:
                    self.publishers[topic] = node.create_publisher(type_of(kind), topic, RELIABLE)
                    self.sent[topic] = 0
        self._connect()

    def _on_tensor(self, message):
        self.ticks.append(message.tick)
        self.tensors[message.tick] = message

    def _on_bytes(self, data):
        message = deserialize_message(data, FusedTensor)
        self.raw[message.tick] = bytes(data)
        self._on_tensor(message)

    def _on_diagnostics(self, message):
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            node, part = status.name.split(": ")
            of_node = self.statuses.setdefault(node, {})
            of_node[part] = (status.level, status.message, values)
            if of_node is self.status:
                self.node_time_ns = nanoseconds(message.header.stamp)
                self.said.append((part, status.message))

    def until(self, predicate, what, timeout=PATIENCE):
        """Handles messages until the predicate holds. The failure says what was awaited."""
        self.ros.spin_until(
            predicate, what, timeout, lambda: f"{self.status}\n{self.process.output}"
        )

    def _connect(self):
        publishers = [*self.publishers.values(), *([self._clock] if self._clock else [])]
        self.until(
            lambda: (
                all(p.get_subscription_count() > 0 for p in publishers)
                and self.status
                and self.is_found()
            ),
            "the node subscribes, publishes diagnostics, and knows the publishers",
        )

    def is_found(self, node=NAME):
        """True if the node knows each publisher. What one sends before may never reach the node."""
        topics = {self.ros.node.resolve_topic_name(topic) for topic in self.publishers}
        parts = [values for _, _, values in self.statuses.get(node, {}).values()]
        found = {of["topic"] for of in parts if int(of.get("publishers", 0)) > 0}
        return topics <= found

    def warm_up(self):
        """Ticks before T0 until a tensor comes, which shows that the node knows this client."""
        if self.tensors:
            return self
        wait = Wait("a first tensor", detail=lambda: self.process.output)
        # Shortly before T0, because a stamp may not be far ahead of the clock. The last tick is repeated.
        first, last = T0 - 95 * self.period_ns, T0 - self.period_ns
        for ns in itertools.chain(range(first, last, self.period_ns), itertools.repeat(last)):
            self.set_clock(ns)
            if self.ros.spin_for(0.2, until=lambda: self.tensors):
                return self
            wait.check()

    def tick_of(self, ns):
        """The number of the tick at this instant."""
        assert ns % self.period_ns == 0
        return ns // self.period_ns

    def value(self, part, key, node=NAME):
        """A number of the newest diagnostics: of a stream, or of `tick`. What is not counted is 0."""
        value = self.statuses[node][part][2][key]
        return 0.0 if value == "not counted" else float(value)

    def await_value(self, part, key, expected):
        """Waits until the diagnostics show this number."""
        self.until(
            lambda: part in self.status and self.value(part, key) == expected,
            f"{part}: {key} = {expected}",
        )

    def send(self, topic, message):
        """Publishes a message, or raw bytes in its place."""
        self.publishers[topic].publish(message)
        self.sent[topic] += 1

    def settle(self, node=NAME):
        """Waits until the node has accepted or dropped every message that was sent."""

        def dealt_with(name, spec):
            dealt = self.value(name, "accepted", node) + self.value(name, "dropped", node)
            return dealt == sum(self.sent[topic] for topic in topics_of(spec))

        self.until(
            lambda: all(dealt_with(*stream) for stream in self.config["streams"].items()),
            f"{node} accepted and dropped as many as sent: {self.sent}",
        )

    def fence(self):
        """Waits for a report that the node makes from now on. It tells of all that the node has taken by now."""
        if self._clock:
            self.advance(self._set_ns + 1)
        else:
            now_ns = time.time_ns()
            self.until(lambda: self.node_time_ns > now_ns, "a report of the node")

    def set_clock(self, ns):
        """Publishes an instant on /clock. The node's subscription is best effort."""
        self._set_ns = ns
        self._clock.publish(Clock(clock=time_message(ns)))

    def advance(self, ns):
        """Sets the clock and waits until the node has it."""

        def there():
            self.set_clock(ns)
            return self.ros.spin_for(1.0, until=lambda: self.node_time_ns == ns)

        self.until(there, f"the node's clock at {ns}")

    def tick(self, ns):
        """The segments of the tick at this instant, after all sent messages have been taken."""
        self.settle()
        tick = self.tick_of(ns)

        def served():
            self.set_clock(ns)
            return self.ros.spin_for(1.0, until=lambda: tick in self.tensors)

        self.until(served, f"the tensor of tick {tick}")
        message = self.tensors[tick]
        assert nanoseconds(message.header.stamp) == ns
        grids = {name: spec.get("cloud", {}) for name, spec in self.config["streams"].items()}
        sparse = [name for name, grid in grids.items() if grid.get("output") == "sparse"]
        return segments(message, sparse)


def start_fusion(
    ros,
    start,
    folder,
    config,
    *arguments,
    period_ms=10,
    sim_time=True,
    publish=True,
    raw=False,
    **kwargs,
):
    """Writes the configuration, starts a node on it and waits until it is connected."""
    config.setdefault("rate_hz", 1000 / period_ms)
    parameters = {
        "config_file": write_config(folder, config),
        "use_sim_time": str(sim_time).lower(),
        "diagnostics_period_s": 0.1,
    }
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    process = start("fusion_node", "--ros-args", *given, *arguments, **kwargs)
    return Fusion(ros, process, config, period_ms, sim_time, publish, raw)
