"""What the demo listens to: the fused tensor, the diagnostics and the raw joint states.

It shares the machine with what it watches. Tensors are views of their messages, so keeping a
whole one costs a reference; of the rest only the newest step of small segments is copied.
"""

import time

import numpy as np
from processes import Diagnostics
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from robocache.ros import TensorSubscriber

#: Segments whose newest step has at most this many elements are noted at every tick.
SMALL = 1024
#: Every so many seconds a whole tensor is kept, and so many at most.
SNAPSHOT_PERIOD_S = 2.0
SNAPSHOTS = 4


class Recorder:
    """
    Attributes:
        arrivals: (arrival_ns, tick, stamp_ns) per tensor, in Unix time.
        valid: stream name to a list of (stamp_ns, steps that were valid, steps).
        newest: stream name to a list of (stamp_ns, row, age_ns), of newest steps that were valid.
        snapshots: a few whole tensors, the newest last.
        joints: joint name to two lists, stamps and positions, as published.
    """

    def __init__(self, node, configuration):
        self._node = node
        self.configuration = configuration
        self.arrivals = []
        self.valid = {}
        self.newest = {}
        self.snapshots = []
        self.joints = {}
        self._joint_subscription = None
        self._next_snapshot = 0.0
        self.diagnostics = Diagnostics(node)
        # Deeper than a policy's, for what is counted here is what was published: a table that is
        # being drawn must not pass for a lost tick.
        qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
        self.subscriber = TensorSubscriber(
            node, self._on_tensor, topic=configuration.output_topic, qos=qos
        )

    def _on_tensor(self, tensor):
        self.arrivals.append((time.time_ns(), tensor.tick, tensor.stamp_ns))
        for name, segment in tensor.segments.items():
            steps = (tensor.stamp_ns, int(segment.valid.sum()), len(segment.valid))
            self.valid.setdefault(name, []).append(steps)
            newest = segment.array[-1]
            if newest.size <= SMALL and segment.valid[-1]:
                entry = (tensor.stamp_ns, newest.copy(), int(segment.age_ns[-1]))
                self.newest.setdefault(name, []).append(entry)
        if time.monotonic() >= self._next_snapshot:
            self._next_snapshot = time.monotonic() + SNAPSHOT_PERIOD_S
            self.snapshots = [*self.snapshots[1 - SNAPSHOTS :], tensor]

    def watch_joints(self, topic, names):
        """Starts to record the positions of the joints `names` from their own topic."""
        self.joints = {name: ([], []) for name in names}
        self._joint_subscription = self._node.create_subscription(
            JointState, topic, self._on_joints, 100
        )

    def stop_watching_joints(self):
        if self._joint_subscription is not None:
            self._node.destroy_subscription(self._joint_subscription)
            self._joint_subscription = None

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
        """Valid steps of a stream, of all in the tensors with a stamp in [start, end); 0 of none."""
        inside = [
            entry[1:] for entry in self.valid.get(stream, []) if start_ns <= entry[0] < end_ns
        ]
        valid, steps = (sum(column) for column in zip(*inside)) if inside else (0, 0)
        return valid / max(steps, 1)

    def latencies_ms(self, start_ns, end_ns):
        """Arrival minus the tick's stamp, of the ticks with a stamp in [start, end) [ms]."""
        inside = [a - stamp for a, _, stamp in self.arrivals if start_ns <= stamp < end_ns]
        return np.array(inside) / 1e6

    def raw_and_aligned(self, stream, index, name):
        """One joint twice: raw as (stamps, positions), aligned as (targets, values, ages)."""
        raw_stamps, raw = (np.array(column) for column in self.joints.get(name, ([], [])))
        order = np.argsort(raw_stamps, kind="stable")
        entries = self.newest.get(stream, [])
        targets = np.array([stamp for stamp, _, _ in entries], dtype=np.int64)
        targets -= self.configuration.lag_ns
        values = np.array([row.reshape(-1)[index] for _, row, _ in entries], dtype=np.float64)
        ages = np.array([age for _, _, age in entries], dtype=np.int64)
        return (raw_stamps[order], raw[order]), (targets, values, ages)
