"""An example policy: makes one command from each fused tensor, but none without good data.

    python3 examples/policy_node.py --ros-args -p inputs:='[joints]' -p max_age_ms:=50.0

`inputs` are the streams that it needs. With a simulator's clock, add -p use_sim_time:=true. A node with a
longer lag needs a longer max_age_ms. With -p contract:=DIR it refuses to be served something else than the
policy in this folder was trained with.

Replace `Policy.act` by a network; a real policy needs the rest too. If a stream that it depends on
is invalid or too old, the policy publishes no command. It logs the reason, at most once a second.
The controller must stop by itself when no command comes.

The policy takes the positions of its first input by the names of the channels, which the node
publishes on `<topic>/info`. So a change of the configuration cannot exchange joints silently.
"""

import signal
import threading

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Float64MultiArray

from robocache.ros import TensorSubscriber, keep_large_buffers


class Policy(Node):
    def __init__(self):
        super().__init__("policy")
        # The streams that this policy reads. Other streams may be invalid.
        self.inputs = self.declare_parameter("inputs", ["joints", "wrench"]).value
        # The policy's own limit, beside the node's max_age_ms: the greatest time since the sensor's
        # measurement [ms]. It contains the lag.
        self.max_age_ns = int(self.declare_parameter("max_age_ms", 100.0).value * 1e6)
        self.stiffness = self.declare_parameter("stiffness", 0.5).value
        # The names of the channels of each input; None before the node has published them.
        self.channels = None
        # The place of the joint positions in a row of the first input. With config/robocache.yaml, a
        # row has 14 positions and then 14 velocities, which are not commanded.
        self.positions = []

        self.command = self.create_publisher(Float64MultiArray, "/policy/command", 1)
        self.acted = 0
        self.refused = 0
        # The folder of the checkpoint, with its robocache.json: another configuration than that of the training is
        # refused.
        contract = self.declare_parameter("contract", "").value or None
        TensorSubscriber(
            self, self.on_tensor, topic="fused_tensor", on_info=self.on_info, contract=contract
        )

    def on_info(self, info):
        """Learns what the channels are: once, and again whenever the node starts again."""
        self.channels = {segment.name: list(segment.channels) for segment in info.segments}
        names = self.channels.get(self.inputs[0], [])
        self.positions = [at for at, name in enumerate(names) if name.endswith(".position")]

    def on_tensor(self, tensor):
        problem = self.problem_with(tensor)
        if problem:
            self.refused += 1
            self.get_logger().warning(f"not acting: {problem}", throttle_duration_sec=1.0)
            return
        self.acted += 1
        self.command.publish(Float64MultiArray(data=self.act(tensor).tolist()))

    def problem_with(self, tensor):
        """The reason why the policy must not act on this tensor, or None."""
        if self.channels is None:
            return "the node has not told what the channels are"
        tensor_age_ns = self.get_clock().now().nanoseconds - tensor.stamp_ns
        if tensor_age_ns > self.max_age_ns:
            return f"the tensor itself is {tensor_age_ns / 1e6:.0f} ms old{self.limit()}"
        for name in self.inputs:
            segment = tensor.segments.get(name)
            if segment is None:
                return f"expected a stream {name!r}, found {', '.join(tensor.segments)}"
            # Every step that the network reads must be valid, including the whole history. An
            # invalid step holds a fill value, such as zeros, and not a measurement.
            if not segment.valid.all():
                return f"{name}: {np.count_nonzero(~segment.valid)} invalid step(s)"
            # `age_ns` is relative to the step's target, which is before the tick by the lag. The
            # policy needs the time since the measurement: stamp_ns - (target_ns - age_ns) up to the
            # tick, plus the age of the tensor itself.
            step = newest_step(tensor, name)
            if step is None:
                return f"{name}: all of its steps are in the future"
            age_ns = tensor_age_ns + int(tensor.age_at_tick_ns(name)[step])
            if age_ns > self.max_age_ns:
                return (
                    f"{name}: the newest value was measured {age_ns / 1e6:.0f} ms ago{self.limit()}"
                )
        first, names = tensor[self.inputs[0]], self.channels.get(self.inputs[0], [])
        if first.shape[1:] != (len(names),):
            shape = list(first.shape)
            return f"expected {len(names)} channels in {first.name}, found a segment of {shape}"
        if not self.positions:
            return f"expected joint positions in {first.name}, found {', '.join(names)}"
        return None

    def limit(self):
        """The limit of ages, for a refusal."""
        return f", more than max_age_ms ({self.max_age_ns / 1e6:g} ms)"

    def act(self, tensor):
        """In place of a network: one number per joint, which pulls the joint gently to zero."""
        # A view of the message without a copy; on a GPU: tensor["joints"].torch().cuda().
        first = self.inputs[0]
        positions = tensor[first].float32()[newest_step(tensor, first), self.positions]
        return -self.stiffness * positions.astype(np.float64)


def newest_step(tensor, name):
    """The newest step that is not after the tick, or None.

    With a `horizon`, the steps after it are in the future: intentions of a plan, not measurements.
    """
    past = np.flatnonzero(tensor[name].target_ns <= tensor.stamp_ns)
    return int(past[-1]) if past.size else None


def main():
    keep_large_buffers()
    # rclpy's own SIGINT handler raises inside callbacks. A stop flag ends the process cleanly.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    policy = Policy()
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(policy)
    try:
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.2)
    except ExternalShutdownException:
        pass
    policy.get_logger().info(f"acted on {policy.acted} tensors, refused {policy.refused}")
    policy.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
