"""Gives the chunks of a policy to `fusion_node` through a topic, which makes commands of them.

    publisher = ActionPublisher(node, "arm", ["shoulder", "elbow"])

    def on_tensor(tensor):
        publisher.send(tensor, policy(tensor))      # [rows, joints]

It needs rclpy and the ROS package `robocache_ros`. docs/actions.md says when a chunk counts, and what follows.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

from .message.chunk import MOST_REFUSED, ChunkForm, RefusalsTold
from .message.ros_types import messages

if TYPE_CHECKING:
    import numpy.typing as npt
    from rclpy.node import Node

    from .contract import Contract
    from .message.tensor import FusedTensor

#: As the node's: a chunk is not lost on the way while the policy sends tens per second.
ACTION_QOS = QoSProfile(
    depth=16, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)

#: After this time without a node that takes chunks, a publisher warns [s].
ABSENT_S = 1.0


class ActionPublisher:
    """Sends chunks of one group of joints.

    Args:
        node: your rclpy node.
        group: the group, as the node's configuration names it.
        names: its joints, in the order of the configuration and of a row; by default those of the contract.
        topic: where the node takes chunks.
        on_status: called with each `robocache_ros.msg.CommandStatus` of this group.
        contract: the folder of the policy, or a `robocache.Contract` with `actions`. It has the joints, the number of rows,
            and what relative rows are added to. ValueError if it has no such actions.

    Attributes:
        sequence: the number of the newest chunk; 0 before the first.
        status: the newest `CommandStatus` of this group; None before the first.
        refused: number and reason of the newest 16 chunks that were refused, the oldest first. The log has each reason
            once. If several publishers write to a group, these are of all of them.
    """

    def __init__(
        self,
        node: Node,
        group: str,
        names: Sequence[str] | None = None,
        topic: str = "action_chunk",
        status_topic: str = "command_status",
        on_status: Callable[[Any], object] | None = None,
        *,
        contract: str | os.PathLike[str] | Contract | None = None,
    ) -> None:
        self._messages = messages("ActionPublisher")
        self._node = node
        of_policy = None
        if contract is not None:
            from .contract import trained  # of the compiled part

            of_policy = trained(contract)
        self._form = ChunkForm(names, None if of_policy is None else of_policy.json)
        self._group = group
        self._on_status = on_status
        #: When the first chunk was sent [s], until the node is known to take them.
        self._began: float | None = None
        self._is_known = False
        self._told = RefusalsTold(group)
        #: Other groups of the node.
        self._others: set[str] = set()
        self.refused: deque[tuple[int, str]] = deque(maxlen=MOST_REFUSED)
        self.sequence = 0
        self.status: Any = None
        self._publisher = node.create_publisher(self._messages.ActionChunk, topic, ACTION_QOS)
        self._subscription = node.create_subscription(
            self._messages.CommandStatus, status_topic, self._take_status, ACTION_QOS
        )

    def send(
        self,
        tensor: FusedTensor,
        values: npt.ArrayLike,
        reference: npt.ArrayLike | None = None,
    ) -> int:
        """Sends a chunk that answers a tensor. Returns its number, by which `CommandStatus` names it.

        Args:
            tensor: the tensor that the policy saw.
            values: [rows, joints]; row k is for the instant of the tensor's tick plus the k-th offset of the group.
                They are what the policy gives: the node takes the operators of the group back.
            reference: [joints], for a group with relative joints: what their rows are added to, without operators. By
                default it is that of the tensor if the publisher has a contract.

        Raises:
            ValueError: another shape, no rows, more than 1024, or a value that is not finite; or the tensor's value to which rows
                are added is invalid. Nothing is sent.
        """
        rows, relative = self._form.rows_and_reference(tensor, values, reference)
        self.sequence += 1
        chunk = self._messages.ActionChunk(
            run=tensor.run,
            epoch=tensor.epoch,
            tick=tensor.tick,
            sequence=self.sequence,
            group=self._group,
            names=self._form.names,
            rows=len(rows),
            values=rows.ravel(),
            reference=relative,
        )
        chunk.stamp.sec, chunk.stamp.nanosec = divmod(tensor.stamp_ns, 1_000_000_000)
        self._publisher.publish(chunk)
        if not self._is_known:
            self._look()
        return self.sequence

    def _look(self) -> None:
        """Warns once if no node takes the chunks a second after the first, or none has the group."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if self.status is not None:
            self._is_known = True
        if self._is_known or now - self._began < ABSENT_S:
            return
        if not self._publisher.get_subscription_count():
            words = (
                f"no node takes chunks on {self._publisher.topic_name}: is fusion_node active, and has its configuration"
                " `commands`?"
            )
        elif self._others:
            words = (
                f"the node has no group {self._group!r}: it has {', '.join(sorted(self._others))}"
            )
        else:
            return
        self._is_known = True
        self._node.get_logger().warning(words)

    def destroy(self) -> None:
        """Ends the publisher and the subscription."""
        self._node.destroy_publisher(self._publisher)
        self._node.destroy_subscription(self._subscription)

    def _take_status(self, status: Any) -> None:
        if status.group != self._group:
            self._others.add(status.group)
            return
        self.status = status
        refused = list(zip(status.refused_sequences, status.refused_reasons))
        self.refused.extend(refused)
        for words in self._told.news([reason for _, reason in refused]):
            self._node.get_logger().warning(words)
        if self._on_status is not None:
            self._on_status(status)
