"""Receives fused tensors from a topic with rclpy."""

import ctypes

from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensor as FusedTensorMsg

from .tensor import decode

#: For a policy: it gets every tick while it keeps up, and else the newest one.
TENSOR_QOS = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)


# glibc's malloc.h; the value of the first may be at most 32 MiB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 << 20


def keep_large_buffers():
    """Lets this process reuse the memory of large messages. Call it once, at the start of `main`.

    Else glibc maps the memory of a large tensor again for every message and returns it after. With
    1 MB at 100 Hz this costs 80,000 page faults a second: more than half of the time to receive the
    tensors. The price is that the process keeps freed memory. Returns False if there is no glibc;
    then nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _KEPT_BYTES), (_M_TRIM_THRESHOLD, 4 * _KEPT_BYTES))
    return all([mallopt(option, value) == 1 for option, value in settings])


class TensorSubscriber:
    """Calls `callback(tensor)` with every `robocache.FusedTensor` on `topic`.

    The subscription is raw: rclpy gives the message's bytes, and `decode` makes views of them.
    rclpy's own deserialization would copy each field into Python objects.

    Attributes:
        received: messages so far.
        malformed: messages that were no fused tensor; they are logged, without a callback.
    """

    def __init__(self, node, callback, topic="fused_tensor", qos=TENSOR_QOS):
        self.received = 0
        self.malformed = 0
        self._node = node
        self._callback = callback
        self._subscription = node.create_subscription(
            FusedTensorMsg, topic, self._on_message, qos, raw=True
        )

    def destroy(self):
        """Ends the subscription."""
        self._node.destroy_subscription(self._subscription)

    def _on_message(self, message):
        self.received += 1
        try:
            tensor = decode(message)
        except ValueError as error:
            self.malformed += 1
            self._node.get_logger().error(
                f"{self._subscription.topic_name}: not a fused tensor: {error}",
                throttle_duration_sec=1.0,
            )
            return
        self._callback(tensor)
