"""What the policies and the node say during a soak."""

import json
import threading
import time
from collections import deque

import numpy as np

#: Lines that are kept of each policy: a minute.
KEPT = 240
#: Values of a tick that are noted.
OF_TICKS = (
    "published",
    "held_back",
    "publish_failed",
    "unread",
    "share_failed",
    "unsent",
    "overruns",
    "clock_jumps",
    "shared_readers",
    "fused_latency_p99_ms",
)
#: Values of a stream that are noted.
OF_STREAMS = ("received", "dropped", "lost", "queue_full", "missing", "resubscribed", "rows")


class PolicyReports:
    """The lines of a policy, through all its lives.

    Attributes:
        faults: what was wrong with tensors, so far.
        witnesses: values of the joints that nobody has checked yet: target, age [ns], and the values.
    """

    def __init__(self, subject):
        self._subject = subject
        self._life, self._file = -1, None
        self._lines = deque(maxlen=KEPT)
        self.faults, self.witnesses = [], []
        # The thread that samples and the one that disturbs read.
        self._lock = threading.Lock()

    def pump(self):
        """Reads what is new. Returns the lines of the last minute."""
        with self._lock:
            if self._life != self._subject.life:
                self._read()
                self._life, self._file = self._subject.life, None
            self._read()
            return list(self._lines)

    def _read(self):
        if self._file is None:
            if self._life < 0:
                return
            path = self._subject.output.with_name(f"{self._subject.name}-{self._life}.out")
            self._file = open(path)
        while True:
            at = self._file.tell()
            line = self._file.readline()
            if not line.endswith("\n"):
                self._file.seek(at)  # the policy is still writing it, or was killed
                return
            said = json.loads(line)
            self._lines.append(said)
            self.faults += said["faults"]
            if said["witness"]:
                self.witnesses.append(said["witness"])

    def valid_since(self, instant):
        """How long after an instant a valid tensor of a later tick came [s], up to a line too long; None if none has."""
        firsts = (line["first_valid"] for line in self.pump())
        return next((at - instant for at, stamp in filter(None, firsts) if stamp > instant), None)

    def between(self, begin, end):
        """Latencies [ms], tensors and tensors with an invalid step of a time."""
        lines = [line for line in self.pump() if begin < line["at"] <= end]
        latencies = [us / 1000 for line in lines for us in line["latency_us"]]
        tensors = sum(line["tensors"] for line in lines)
        return latencies, tensors, tensors - sum(line["valid"] for line in lines)


def percentiles(latencies):
    """The median and the 99th percentile by metric; empty without latencies."""
    if not latencies:
        return {}
    p50, p99 = np.percentile(latencies, [50, 99])
    return {"latency_p50_ms": p50, "latency_p99_ms": p99}


class Node:
    """A client of the node, in a thread of its own: its diagnostics, and requests to a managed node."""

    def __init__(self, diagnostics_of):
        import rclpy
        from lifecycle_msgs.srv import ChangeState
        from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("soak")
        self.diagnostics = diagnostics_of(self._node)
        self._request = ChangeState.Request
        self._client = self._node.create_client(ChangeState, "fusion_node/change_state")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._stop = threading.Event()

        def spin():
            try:
                while not self._stop.is_set():
                    self._executor.spin_once(timeout_sec=0.2)
            except ExternalShutdownException:
                pass

        self._thread = threading.Thread(target=spin, daemon=True)
        self._thread.start()
        self._seen = 0

    def change(self, transition, timeout_s):
        """Asks for a transition until it succeeds. Returns whether it did in time."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if not self._client.service_is_ready():
                time.sleep(0.05)
                continue
            request = self._request()
            request.transition.label = transition
            future = self._client.call_async(request)
            # The middleware drops an answer if it does not find its client in time.
            until = min(end, time.monotonic() + 2.0)
            while not future.done() and time.monotonic() < until:
                time.sleep(0.01)
            if future.done() and future.result().success:
                return True
            self._client.remove_pending_request(future)
            time.sleep(0.2)
        return False

    def values(self):
        """The newest counters by metric; empty if none came since the last call."""
        arrivals, ticks = self.diagnostics.arrivals, self.diagnostics.tick
        if arrivals == self._seen:
            return {}
        self._seen = arrivals
        found = {f"diag.{key}": ticks[key] for key in OF_TICKS if key in ticks}
        for name, values in self.diagnostics.streams.items():
            for key in OF_STREAMS:
                if key in values:
                    found[f"diag.{name.split()[0]}.{key}"] = values[key]
        return {metric: float(value) for metric, value in found.items() if value}

    def close(self):
        import rclpy

        self._stop.set()
        self._thread.join()
        self._node.destroy_node()
        rclpy.shutdown()
