"""Fused tensors from a topic, in a process of rclpy's."""

import ctypes

from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from robocache_ros.msg import FusedTensor as FusedTensorMsg

from .tensor import decode

#: What a policy wants: every tick while it keeps up, and the newest one when it does not.
TENSOR_QOS = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)


# glibc's malloc.h; the value of the first may be at most 32 MiB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 << 20


def keep_large_buffers():
    """Lets this process reuse the memory of large messages. Call it once, first thing in `main`.

    A tensor of a megabyte is otherwise mapped anew for every message and given back after it,
    which at 100 Hz costs 80,000 page faults a second: more than half of what it takes to receive
    the tensors. The price is that freed memory stays with the process. False where there is no
    glibc; nothing has changed then.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _KEPT_BYTES), (_M_TRIM_THRESHOLD, 4 * _KEPT_BYTES))
    return all([mallopt(option, value) == 1 for option, value in settings])


class TensorSubscriber:
    """Calls `callback(tensor)` with every `robocache.FusedTensor` on `topic`.

    The subscription is raw: rclpy hands over the message's bytes and `decode` makes views of
    them, where rclpy's own deserialization would copy each field into Python objects.

    Attributes:
        received: messages so far.
        malformed: those of them that were not a fused tensor; logged, and not passed on.
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
