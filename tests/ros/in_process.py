"""`robocache.Pipeline` in place of a node, for tests of numbers: the bytes of rclpy, without topics, threads and waits."""

from fusion import MS, T0, segments
from rclpy.serialization import deserialize_message, serialize_message
from robocache_ros.msg import FusedTensor
from tf2_msgs.msg import TFMessage

import robocache


class InProcess:
    """Has methods of `Fusion`. What is sent is taken on return, at the instant of the clock."""

    def __init__(self, config):
        self.pipeline = robocache.Pipeline({"rate_hz": 100, **config})
        self.now_ns = T0 - 10 * MS

    def send(self, topic, message):
        """Gives a message, or raw bytes in its place, and returns the `PushResult`."""
        data = message if isinstance(message, bytes) else serialize_message(message)
        return self.pipeline.push(topic, data, self.now_ns)

    def move(self, *transforms):
        """Sends moving transforms."""
        self.send("/tf", TFMessage(transforms=list(transforms)))

    def fix(self, *transforms):
        """Sends fixed transforms."""
        self.send("/tf_static", TFMessage(transforms=list(transforms)))

    def advance(self, ns):
        """Sets the clock. A jump back begins an epoch, as in the node."""
        if ns < self.now_ns:
            self.pipeline.begin_epoch()
        self.now_ns = ns

    def tick(self, ns):
        """The segments of the tick at this instant. Messages that have waited for too long by then are dropped."""
        self.advance(ns)
        tensor = self.pipeline.tick_at(ns)
        assert tensor.stamp_ns == ns
        self.message = deserialize_message(bytes(tensor.message), FusedTensor)
        return segments(self.message)

    def check_drops(self, topic, messages):
        """Sends each (message, reason), and checks that it is dropped and counted with that reason."""
        dropped = self.value(topic, "dropped")
        for message, reason in messages:
            counted = self.value(topic, f"dropped.{reason}")
            result = self.send(topic, message)
            assert (result.accepted, result.reason) == (False, reason), f"{result}\n{message}"
            assert self.value(topic, f"dropped.{reason}") == counted + 1
        assert self.value(topic, "dropped") == dropped + len(messages)

    def value(self, part, key):
        """A counter of an input, by its name or topic, with the keys of the diagnostics; `rows` of a stream."""
        stats = self.pipeline.stats()
        if key == "rows":
            return stats["streams"][part]["rows"]
        (counters,) = (of for name, of in stats["inputs"].items() if part in name.split())
        key, _, reason = key.partition(".")
        if key.endswith("dropped"):
            return counters[key].get(reason, 0) if reason else sum(counters[key].values())
        return counters[key]
