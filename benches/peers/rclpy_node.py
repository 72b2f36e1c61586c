"""The node that a user would write today, with rclpy, a deque per topic, NumPy and OpenCV.

The benchmark compares `fusion_node` with it. It reads the same configuration, and publishes the
same message and the same diagnostics. It is as fast as this approach allows:

- Message data is viewed and not copied.
- No Python loop runs over points or pixels.
- An image or a cloud is encoded once, on arrival.
- All ticks use the same output message, which has no digest.

    python3 benches/peers/rclpy_node.py --ros-args -p config_file:=config/robocache.yaml
"""

import array
import importlib
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from robocache_ros.msg import FusedTensor, TensorSegment
from streams import DLPACK, KINDS, OUTPUT_TYPES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import configuration  # noqa: E402

SEGMENT_ALIGN = 64


def make_message(config, streams):
    """Makes the output message, and for each stream a NumPy view that writes into its data.

    The data is one array.array, which rclpy takes without a conversion.
    """
    message, offset, places = FusedTensor(), 0, []
    message.header.frame_id = config.base_frame
    for stream in streams:
        shape = (stream.spec.steps, *stream.shape)
        dtype = OUTPUT_TYPES[stream.spec.dtype]
        code, bits = DLPACK[stream.spec.dtype]
        segment = TensorSegment(name=stream.spec.name, dtype_code=code, dtype_bits=bits)
        segment.dtype_lanes, segment.shape, segment.byte_offset = 1, shape, offset
        message.segments.append(segment)
        size = int(np.prod(shape)) * dtype.itemsize
        places.append((offset, size, shape, dtype))
        offset += size + -size % SEGMENT_ALIGN
    message.data = array.array("B", bytes(offset))
    data = np.frombuffer(message.data, dtype=np.uint8)
    views = [data[at : at + size].view(kind).reshape(shape) for at, size, shape, kind in places]
    return message, views


def complete(message, streams, tick, stamp_ns):
    """Writes the tick, and what the message says of each step of the fused values."""
    for stream, segment in zip(streams, message.segments):
        segment.valid = stream.valid.tolist()
        segment.target_ns = stream.target_ns.tolist()
        segment.age_ns = stream.age_ns.tolist()
        segment.count = stream.count.tolist()
        segment.inputs_valid = stream.valid.astype(int).tolist()  # of the only input
    stamp = message.header.stamp
    stamp.sec, stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
    message.tick = tick


class FusionPeer(Node):
    def __init__(self):
        super().__init__("rclpy_peer")
        self.config = configuration.load(self.declare_parameter("config_file", "").value)
        # single: one thread for callbacks and ticks. thread: ticks have their own thread.
        # multi: rclpy's thread pool. bench.py --peer-executor compares them.
        self.executor_kind = self.declare_parameter("executor", "thread").value
        self.period_ns = self.config.period_ns
        self.streams = [KINDS[spec.kind](spec) for spec in self.config.streams]
        self.lock = threading.Lock()
        self.last_tick = None
        self.published = self.held_back = self.overruns = 0
        self.latencies_ms, self.window_ms = [], []
        self.message, self.views = make_message(self.config, self.streams)
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
        self.output = self.create_publisher(FusedTensor, self.config.output_topic, qos)
        self.diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        for stream in self.streams:
            self._subscribe(stream)
        diagnostics_period_s = self.declare_parameter("diagnostics_period_s", 1.0).value
        self.create_timer(diagnostics_period_s, self.publish_diagnostics)

    def _subscribe(self, stream):
        source = stream.input
        kind = getattr(importlib.import_module(f"{source.package}.msg"), source.message)
        # `auto` asks for what the robot's publishers offer, and best_effort matches all of them.
        explicit = source.reliability == "reliable"
        reliable = ReliabilityPolicy.RELIABLE if explicit else ReliabilityPolicy.BEST_EFFORT

        def on_message(msg):
            stream.push(msg, time.time_ns(), self.lock)

        self.create_subscription(
            kind,
            source.topic,
            on_message,
            QoSProfile(depth=source.depth, reliability=reliable),
            callback_group=MutuallyExclusiveCallbackGroup(),
        )

    def tick(self):
        """Fuses and publishes the newest tick. The ticks missed before it are overruns."""
        tick = time.time_ns() // self.period_ns
        if self.last_tick is not None:
            if tick <= self.last_tick:
                return
            self.overruns += tick - self.last_tick - 1
        self.last_tick = tick
        stamp_ns = tick * self.period_ns
        with self.lock:
            for stream, view in zip(self.streams, self.views):
                stream.fuse(stamp_ns, view)
        if any(s.spec.required and not s.valid[-1] for s in self.streams):
            self.held_back += 1
            return
        complete(self.message, self.streams, tick, stamp_ns)
        self.output.publish(self.message)
        self.published += 1
        self.window_ms.append((time.time_ns() - stamp_ns) / 1e6)

    def publish_diagnostics(self):
        """Publishes the tick's status with the keys of fusion_node."""
        window, self.window_ms = self.window_ms, []
        self.latencies_ms += window
        values = {
            "backend": "numpy",
            "rate_hz": self.config.rate_hz,
            "published": self.published,
            "held_back": self.held_back,
            "overruns": self.overruns,
            "realtime_priority": 0,  # rclpy threads have ordinary priority
            "tick": self.last_tick,
            **percentiles("latency", window),
            **percentiles("total_latency", self.latencies_ms),
        }
        name = self.get_fully_qualified_name()
        status = [DiagnosticStatus(name=f"{name}: tick", values=key_values(values))]
        for stream in self.streams:
            age = int(stream.age_ns[-1])
            values = {
                "topic": stream.input.topic,
                "received": stream.received,
                "dropped": stream.dropped,
                "age_ms": age / 1e6,
                "valid_share": stream.steps_valid / max(stream.steps_served, 1),
            }
            status.append(
                DiagnosticStatus(name=f"{name}: {stream.spec.name}", values=key_values(values))
            )
        array_msg = DiagnosticArray(status=status)
        array_msg.header.stamp = self.get_clock().now().to_msg()
        self.diagnostics.publish(array_msg)

    def tick_until(self, stop):
        """Ticks on the calling thread: sleeps until each instant of the grid."""
        while not stop.is_set():
            time.sleep((-time.time_ns() % self.period_ns) / 1e9)
            self.tick()


def percentiles(prefix, values):
    if not values:
        return {}
    p50, p99 = np.percentile(values, [50, 99])
    return {
        f"{prefix}_p50_ms": f"{p50:.4f}",
        f"{prefix}_p99_ms": f"{p99:.4f}",
        f"{prefix}_max_ms": f"{max(values):.4f}",
    }


def key_values(values):
    return [KeyValue(key=key, value=str(value)) for key, value in values.items()]


def main():
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    node = FusionPeer()
    multi = node.executor_kind == "multi"
    executor = MultiThreadedExecutor(4) if multi else SingleThreadedExecutor()
    executor.add_node(node)
    ticker = None
    if node.executor_kind == "thread":
        ticker = threading.Thread(target=node.tick_until, args=(stop,))
        ticker.start()
    else:
        # A timer keeps the phase of its start, so it starts on the grid.
        time.sleep((-time.time_ns() % node.period_ns) / 1e9)
        node.create_timer(
            node.period_ns / 1e9, node.tick, callback_group=MutuallyExclusiveCallbackGroup()
        )
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.2)
    if ticker is not None:
        ticker.join()
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
