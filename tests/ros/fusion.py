"""Drives the node under test step by step: sends messages, sets its clock, receives its tensors.

The tensor is read from the plain rclpy message with NumPy, and not by the package's own client. So
an error in the client does not hide an error in the node.
"""

import importlib
from dataclasses import dataclass

import numpy as np
import yaml
from builtin_interfaces.msg import Time
from conftest import PATIENCE
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensor
from rosgraph_msgs.msg import Clock

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

    Without `publish` it has no publishers.
    """

    def __init__(self, ros, process, config, period_ms=10, sim_time=True, publish=True):
        self.ros, self.process, self.config = ros, process, config
        self.period_ns = period_ms * MS
        #: Received tensors by tick, and the ticks in order of arrival.
        self.tensors, self.ticks = {}, []
        #: The last level, words and values of each part; and all words so far.
        self.status, self.said = {}, []
        self.node_time_ns = None
        self.sent = {}
        node = ros.node
        node.create_subscription(FusedTensor, "fused_tensor", self._on_tensor, RELIABLE)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, RELIABLE)
        self._clock = node.create_publisher(Clock, "/clock", RELIABLE) if sim_time else None
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

    def _on_diagnostics(self, message):
        self.node_time_ns = nanoseconds(message.header.stamp)
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            part = status.name.split(": ")[1]
            self.status[part] = (status.level, status.message, values)
            self.said.append((part, status.message))

    def until(self, predicate, what, timeout=PATIENCE):
        """Handles messages until the predicate holds. The failure says what was awaited."""
        done = self.ros.spin_until(predicate, timeout)
        assert done, f"not in {timeout} s: {what}\n{self.status}\n{self.process.output}"

    def _connect(self):
        publishers = [*self.publishers.values(), *([self._clock] if self._clock else [])]
        self.until(
            lambda: all(p.get_subscription_count() > 0 for p in publishers) and self.status,
            "the node subscribes and publishes diagnostics",
        )

    def warm_up(self):
        """Ticks before T0 until a tensor comes, which shows that the node knows this client."""
        # Within the second that a stamp may be ahead of the clock.
        ns = T0 - 95 * self.period_ns
        while not self.tensors:
            assert ns < T0, f"no tensor:\n{self.process.output}"
            self.set_clock(ns)
            self.ros.spin_until(lambda: self.tensors, 0.2)
            ns += self.period_ns
        return self

    def tick_of(self, ns):
        """The number of the tick at this instant."""
        assert ns % self.period_ns == 0
        return ns // self.period_ns

    def value(self, part, key):
        """A number of the newest diagnostics: of a stream, or of `tick`. What is not counted is 0."""
        value = self.status[part][2][key]
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

    def settle(self):
        """Waits until the node has accepted or dropped every message that was sent."""

        def dealt_with(name, spec):
            dealt = self.value(name, "accepted") + self.value(name, "dropped")
            return dealt == sum(self.sent[topic] for topic in topics_of(spec))

        self.until(
            lambda: all(dealt_with(*stream) for stream in self.config["streams"].items()),
            f"accepted and dropped as many as sent: {self.sent}",
        )

    def set_clock(self, ns):
        """Publishes an instant on /clock. The node's subscription is best effort."""
        self._clock.publish(Clock(clock=time_message(ns)))

    def advance(self, ns):
        """Sets the clock and waits until the node has it."""

        def there():
            self.set_clock(ns)
            return self.ros.spin_until(lambda: self.node_time_ns == ns, 1.0)

        self.until(there, f"the node's clock at {ns}")

    def tick(self, ns):
        """The segments of the tick at this instant, after all sent messages have been taken."""
        self.settle()
        tick = self.tick_of(ns)

        def served():
            self.set_clock(ns)
            return self.ros.spin_until(lambda: tick in self.tensors, 1.0)

        self.until(served, f"the tensor of tick {tick}")
        message = self.tensors[tick]
        assert nanoseconds(message.header.stamp) == ns
        grids = {name: spec.get("cloud", {}) for name, spec in self.config["streams"].items()}
        sparse = [name for name, grid in grids.items() if grid.get("output") == "sparse"]
        return segments(message, sparse)


def start_fusion(
    ros, start, folder, config, *arguments, period_ms=10, sim_time=True, publish=True, **kwargs
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
    return Fusion(ros, process, config, period_ms, sim_time, publish)
