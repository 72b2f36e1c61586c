"""The client of robocache: fused tensors as NumPy arrays, without a copy.

    tensor = robocache.decode(message_bytes)    # the CDR bytes of robocache_ros/msg/FusedTensor
    joints = tensor.segments["joints"]          # or tensor["joints"]
    if joints.valid.all():
        act(joints.array)                       # a view of message_bytes, shape [steps, ...]

`robocache.decode` and `robocache.from_msg` need only NumPy. `robocache.ros.TensorSubscriber` needs
rclpy and the package `robocache_ros`.
"""

from .tensor import NO_AGE, FusedTensor, Segment, decode, digest_of, from_msg

__all__ = ["NO_AGE", "FusedTensor", "Segment", "decode", "digest_of", "from_msg"]
