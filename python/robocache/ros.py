"""Receives fused tensors, and what they mean, from topics with rclpy; or makes them in this process.

`PipelineNode` is of the package's compiled part, and loaded when it is first used. `TensorSubscriber` needs the
ROS package `robocache_ros`, which has the messages.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

from .actions import INFO_QOS as INFO_QOS
from .actions import ActionPublisher as ActionPublisher
from .message.ros_types import messages
from .message.tensor import FusedTensor, decode

if TYPE_CHECKING:
    from rclpy.node import Node

    from .contract import Contract

#: For a policy: it gets every tick while it keeps up, and else the newest one.
TENSOR_QOS = QoSProfile(
    depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)


# glibc's malloc.h; the value of the first may be at most 32 MiB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 << 20


def keep_large_buffers() -> bool:
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

    If `on_info` is given, it is called with the `robocache_ros.msg.FusedTensorInfo` on
    `<topic>/info`: once, and again whenever the node starts again. It says what the channels are.

    If `contract` is given, the folder of a policy with its `robocache.json` or a `robocache.Contract`, what the node
    serves must be what the policy was trained with. Tensors wait for the node's info: those that come before it are
    counted as `unchecked`, and `callback` does not get them. If the node serves something else, the callback of rclpy
    raises `robocache.ContractError`, so `spin` does, and `callback` gets no tensor any more. If the node starts again,
    its tensors wait for its new info. A middleware without sequence numbers (CycloneDDS) does not show that start before
    the info does.

    The subscription is raw: rclpy gives the message's bytes, and `decode` makes views of them.
    rclpy's own deserialization would copy each field into Python objects.

    Attributes:
        received: messages so far.
        malformed: messages that were no fused tensor; they are logged, without a callback.
        unchecked: tensors that came before the contract was checked, or are refused.
        differences: why the node is refused, a sentence each; empty if it is not.
    """

    def __init__(
        self,
        node: Node,
        callback: Callable[[FusedTensor], object],
        topic: str = "fused_tensor",
        qos: QoSProfile | int = TENSOR_QOS,
        on_info: Callable[[Any], object] | None = None,
        contract: str | os.PathLike[str] | Contract | None = None,
    ) -> None:
        kinds = messages("TensorSubscriber")
        self._contract = None
        if contract is not None:
            from .contract import trained  # of the compiled part

            self._contract = trained(contract)
        self._is_checked = self._contract is None
        # How many infos came more than starts of the node showed in the tensors: -1, 0 or 1.
        self._ahead = 0
        self._last: int | None = None
        self.unchecked = 0
        self.differences: list[str] = []
        self._on_info = on_info
        self.received = 0
        self.malformed = 0
        self._node = node
        self._callback = callback
        self._info = None
        # The info first: the executor takes it before a tensor that waits beside it.
        if on_info is not None or self._contract is not None:
            info_topic = f"{node.resolve_topic_name(topic)}/info"
            self._info = node.create_subscription(
                kinds.FusedTensorInfo, info_topic, self._on_info_message, INFO_QOS
            )
        self._subscription = node.create_subscription(
            kinds.FusedTensor, topic, self._on_message, qos, raw=True
        )

    @property
    def topic(self) -> str:
        """The topic's full name, after remapping."""
        return self._subscription.topic_name

    def destroy(self) -> None:
        """Ends the subscriptions."""
        self._node.destroy_subscription(self._subscription)
        if self._info is not None:
            self._node.destroy_subscription(self._info)

    def _on_info_message(self, info: Any) -> None:
        if self._contract is not None:
            self._check(self._contract, info)
        if self._on_info is not None:
            self._on_info(info)

    def _check(self, contract: Contract, info: Any) -> None:
        """Raises ContractError if the node serves something else than the policy was trained with."""
        from .contract import ContractError, expect_and_log, served_as

        self._is_checked, self.differences = False, []
        self._ahead = min(self._ahead + 1, 1)
        try:
            served = served_as(info.contract, self.topic)
            expect_and_log(contract, served, self.topic, self._node.get_logger())
        except ContractError as error:
            self.differences = error.differences
            self._node.get_logger().fatal(str(error))
            raise
        self._is_checked = True

    def _note_start(self, sequence: int | None) -> None:
        """Forgets the verdict if the node has started again and its new info has not come.

        The first tensor of a publisher has a lower number than the last one of the publisher before it.
        """
        if sequence is None:
            return
        begins = self._last is None or sequence <= self._last
        self._last = sequence
        if begins:
            self._ahead = max(self._ahead - 1, -1)
            self._is_checked = self._is_checked and self._ahead >= 0

    def _on_message(self, message: bytes, info: Any) -> None:
        self.received += 1
        if self._contract is not None:
            self._note_start(info.get("publication_sequence_number"))
        if not self._is_checked:
            self.unchecked += 1
            return
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


def __getattr__(name: str) -> Any:
    if name == "PipelineNode":
        from .node.pipeline_node import PipelineNode

        return PipelineNode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
