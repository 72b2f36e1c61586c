"""Records the fused tensor, the diagnostics and the raw joint states for the demo.

It runs on the same machine as the node, so it must cost little. A tensor is a view of its message, so
a whole tensor costs only a reference. Of most tensors it copies only the newest step of small segments.
"""

import time

import numpy as np
from processes import Diagnostics
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensorInfo
from sensor_msgs.msg import JointState

from robocache.ros import INFO_QOS, TensorSubscriber

#: Tensors that wait for this process. Behind them, older ones are lost.
QUEUE = 10
#: If a segment's newest step has at most this many elements, it is noted at every tick.
SMALL = 1024
#: Time between two whole tensors that are kept [s], and their largest number.
SNAPSHOT_PERIOD_S = 2.0
SNAPSHOTS = 4


class Recorder:
    """
    Attributes:
        arrivals: (arrival_ns, tick, stamp_ns) per tensor, in Unix time.
        steps: stream name to a list of (stamp_ns, steps that were valid, steps, steps whose flag contradicts their age).
        newest: stream name to a list of (stamp_ns, row, age_ns) of valid newest steps.
        ages: stream name to a list of (stamp_ns, age of the newest step at the tick, None if that is not valid).
        snapshots: a few whole tensors, the newest last.
        joints: joint name to two lists, stamps and positions, as published.
        info: the serialized FusedTensorInfo; None before it came.
    """

    def __init__(self, node, configuration):
        self._node = node
        self.configuration = configuration
        self._specs = {stream.name: stream for stream in configuration.streams}
        self.arrivals = []
        self.steps = {}
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
        qos = QoSProfile(depth=QUEUE, reliability=ReliabilityPolicy.RELIABLE)
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
            wrong = self._flagged_wrong(name, segment)
            steps = (tensor.stamp_ns, int(segment.valid.sum()), len(segment.valid), wrong)
            self.steps.setdefault(name, []).append(steps)
            age = int(tensor.age_at_tick_ns(name)[-1]) if segment.valid[-1] else None
            self.ages.setdefault(name, []).append((tensor.stamp_ns, age))
            newest = segment.float32()[-1]
            if newest.size <= SMALL and segment.valid[-1]:
                entry = (tensor.stamp_ns, newest.copy(), int(segment.age_ns[-1]))
                self.newest.setdefault(name, []).append(entry)
        if time.monotonic() >= self._next_snapshot:
            self._next_snapshot = time.monotonic() + SNAPSHOT_PERIOD_S
            self.snapshots = [*self.snapshots[1 - SNAPSHOTS :], tensor]

    def subscriptions(self):
        """How many subscriptions to the tensor there are, this one included."""
        return self._node.count_subscribers(self.subscriber.topic)

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

    def lost_here(self, period_ns):
        """Ticks that are missing in front of a tensor that waited so long that the queue was full."""
        full_ns = (QUEUE - 1) * period_ns
        pairs = zip(self.arrivals, self.arrivals[1:])
        return sum(
            max(0, tick - before - 1)
            for (_, before, _), (arrival, tick, stamp) in pairs
            if arrival - stamp >= full_ns
        )

    def steps_between(self, stream, start_ns, end_ns):
        """Steps of a stream in tensors with a stamp in [start, end): the valid ones, all, and those with a wrong flag."""
        inside = [
            entry[1:] for entry in self.steps.get(stream, []) if start_ns <= entry[0] < end_ns
        ]
        return tuple(sum(column) for column in zip(*inside)) if inside else (0, 0, 0)

    def _flagged_wrong(self, name, segment):
        """How many steps of a segment are valid and too old, or not valid and new enough.

        Between two rows, their distance decides, which a step does not tell. With several inputs there are other reasons.
        """
        spec, age = self._specs.get(name), segment.age_ns
        if spec is None:
            return 0
        is_between = (age < 0) & (spec.strategy in ("linear", "slerp"))
        fresh = np.abs(age) <= np.where(is_between, spec.max_gap_ns, spec.max_age_ns)
        wrong = segment.valid & ~fresh
        if len(spec.inputs) == 1 and spec.fill == "zero":
            wrong |= ~segment.valid & fresh & ~is_between
        return int(wrong.sum())

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
