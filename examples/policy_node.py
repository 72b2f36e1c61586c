"""An example policy: makes one command from each fused tensor, but none without good data.

    python3 examples/policy_node.py --ros-args -r fused_tensor:=/robocache/fused -p max_age_ms:=50.0

Replace `Policy.act` by a network; a real policy needs the rest too. If a stream that it depends on
is invalid or too old, the policy publishes no command. It logs the reason, at most once a second.
The controller must stop by itself when no command comes.
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
        # The policy's own limit, beside the node's max_age_ms: the largest age of the tensor, and
        # of the newest step of an input [ms].
        self.max_age_ns = int(self.declare_parameter("max_age_ms", 100.0).value * 1e6)
        self.stiffness = self.declare_parameter("stiffness", 0.5).value
        # How many elements of the first input's row are joint positions. They come first if
        # `fields` in the node's configuration begins with `position`. With config/robocache.yaml, a
        # row has 14 positions and then 14 velocities, which are not commanded. The tensor gives the
        # length of a row and not its meaning, so this number must fit the configuration.
        self.commanded = self.declare_parameter("commanded", 14).value

        self.command = self.create_publisher(Float64MultiArray, "/policy/command", 1)
        self.acted = 0
        self.refused = 0
        TensorSubscriber(self, self.on_tensor, topic="fused_tensor")

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
        now_ns = self.get_clock().now().nanoseconds
        if now_ns - tensor.stamp_ns > self.max_age_ns:
            return f"the tensor itself is {(now_ns - tensor.stamp_ns) / 1e6:.0f} ms old"
        for name in self.inputs:
            segment = tensor.segments.get(name)
            if segment is None:
                return f"expected a stream {name!r}, found {', '.join(tensor.segments)}"
            # Every step that the network reads must be valid, including the whole history. An
            # invalid step holds a fill value, such as zeros, and not a measurement.
            if not segment.valid.all():
                return f"{name}: {np.count_nonzero(~segment.valid)} invalid step(s)"
            if segment.age_ns[-1] > self.max_age_ns:
                return f"{name}: newest value is {segment.age_ns[-1] / 1e6:.0f} ms old"
        shape = tensor[self.inputs[0]].shape
        width = shape[-1]
        if len(shape) != 2:
            return f"expected vectors in {self.inputs[0]}, found a segment of {list(shape)}"
        if not 1 <= self.commanded <= width:
            row = f"the row of {self.inputs[0]} has {width} elements"
            return f"expected `commanded` in 1..{width} ({row}), found {self.commanded}"
        return None

    def act(self, tensor):
        """In place of a network: one number per joint, which pulls the joint gently to zero."""
        # A view of the message without a copy; on a GPU: tensor["joints"].torch().cuda().
        positions = tensor[self.inputs[0]].float32()[-1, : self.commanded]
        return -self.stiffness * positions.astype(np.float64)


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
