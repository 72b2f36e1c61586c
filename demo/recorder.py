"""Records the fused tensor, the diagnostics and the raw joint states for the demo.

It runs on the same machine as the node, so it must cost little. A tensor is a view of its message, so
a whole tensor costs only a reference. Of most tensors it copies only the newest step of small segments.
"""

import time

from processes import Diagnostics
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from sensor_msgs.msg import JointState

from robocache.ros import INFO_QOS, TensorSubscriber

#: If a segment's newest step has at most this many elements, it is noted at every tick.
SMALL = 1024
#: Time between two whole tensors that are kept [s], and their largest number.
SNAPSHOT_PERIOD_S = 2.0
SNAPSHOTS = 4


class Recorder:
    """
    Attributes:
        arrivals: (arrival_ns, tick, stamp_ns) per tensor, in Unix time.
        valid: stream name to a list of (stamp_ns, steps that were valid, steps).
        newest: stream name to a list of (stamp_ns, row, age_ns) of valid newest steps.
        ages: stream name to a list of (stamp_ns, age of the newest step at the tick, None if that is not valid).
        snapshots: a few whole tensors, the newest last.
        joints: joint name to two lists, stamps and positions, as published.
        info: the serialized FusedTensorInfo; None before it came.
    """

    def __init__(self, node, configuration):
        self._node = node
        self.configuration = configuration
        self.arrivals = []
        self.valid = {}
        self.newest = {}
        self.ages = {}
        self.snapshots = []
        self.joints = {}
        self.info = None
        self._joint_subscriptions = []
        self._next_snapshot = 0.0
        self.diagnostics = Diagnostics(node)
        # A deeper queue than a policy's: no tensor may be lost while the table is drawn, because
        # this counts the published tensors.
        qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
        self.subscriber = TensorSubscriber(
            node, self._on_tensor, topic=configuration.output_topic, qos=qos
        )
        topic = f"{configuration.output_topic}/info"
        node.create_subscription(FusedTensorInfo, topic, self._on_info, INFO_QOS, raw=True)

    def _on_info(self, message):
        self.info = bytes(message)

    def _on_tensor(self, tensor):
        self.arrivals.append((time.time_ns(), tensor.tick, tensor.stamp_ns))
        for name, segment in tensor.segments.items():
            steps = (tensor.stamp_ns, int(segment.valid.sum()), len(segment.valid))
            self.valid.setdefault(name, []).append(steps)
            age = int(tensor.age_at_tick_ns(name)[-1]) if segment.valid[-1] else None
            self.ages.setdefault(name, []).append((tensor.stamp_ns, age))
            newest = segment.float32()[-1]
            if newest.size <= SMALL and segment.valid[-1]:
                entry = (tensor.stamp_ns, newest.copy(), int(segment.age_ns[-1]))
                self.newest.setdefault(name, []).append(entry)
        if time.monotonic() >= self._next_snapshot:
            self._next_snapshot = time.monotonic() + SNAPSHOT_PERIOD_S
            self.snapshots = [*self.snapshots[1 - SNAPSHOTS :], tensor]

    def watch_joints(self, topics, names):
        """Starts to record the positions of the joints `names` from these topics."""
        self.joints = {name: ([], []) for name in names}
        self._joint_subscriptions = [
            self._node.create_subscription(JointState, topic, self._on_joints, 100)
            for topic in topics
        ]

    def stop_watching_joints(self):
        while self._joint_subscriptions:
            self._node.destroy_subscription(self._joint_subscriptions.pop())

    def _on_joints(self, msg):
        stamp_ns = msg.header.stamp.sec * 1_000_000_000 + msg.header.stamp.nanosec
        for at, name in enumerate(msg.name):
            if name in self.joints:
                stamps, positions = self.joints[name]
                stamps.append(stamp_ns)
                positions.append(msg.position[at])

    def ticks_between(self, start_ns, end_ns):
        """Distinct ticks received with a stamp in [start, end)."""
        return len({tick for _, tick, stamp in self.arrivals if start_ns <= stamp < end_ns})

    def valid_share(self, stream, start_ns, end_ns):
        """Share of valid steps of a stream, in tensors with a stamp in [start, end); 0 if none."""
        inside = [
            entry[1:] for entry in self.valid.get(stream, []) if start_ns <= entry[0] < end_ns
        ]
        valid, steps = (sum(column) for column in zip(*inside)) if inside else (0, 0)
        return valid / max(steps, 1)

    def latencies_ns(self, start_ns, end_ns):
        """Arrival minus the tick's stamp, for ticks with a stamp in [start, end)."""
        return [a - stamp for a, _, stamp in self.arrivals if start_ns <= stamp < end_ns]

    def raw_and_aligned(self, stream, index, name):
        """One joint twice: raw as [stamp, position], aligned as [target, value, age]."""
        raw = sorted(zip(*self.joints.get(name, ([], []))))
        lags = {spec.name: spec.lag_ns for spec in self.configuration.streams}
        aligned = [
            (stamp - lags[stream], float(row.reshape(-1)[index]), age)
            for stamp, row, age in self.newest.get(stream, [])
        ]
        return raw, aligned
