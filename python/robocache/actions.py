"""Gives the chunks of a policy to `fusion_node` through a topic, which makes commands of them.

    publisher = ActionPublisher(node, "arm", ["shoulder", "elbow"])

    def on_tensor(tensor):
        publisher.send(tensor, policy(tensor))      # [rows, joints]

It needs rclpy and the ROS package `robocache_ros`. docs/actions.md says when a chunk counts, and what follows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

from .contract import Contract, trained
from .message.chunk import ChunkForm
from .message.ros_types import messages

if TYPE_CHECKING:
    import numpy.typing as npt
    from rclpy.node import Node

    from .message.tensor import FusedTensor

#: As the node's: a chunk is not lost on the way while the policy sends tens per second.
ACTION_QOS = QoSProfile(
    depth=16, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)


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
        of_policy = trained(contract)
        self._form = ChunkForm(names, None if of_policy is None else of_policy.json)
        self._group = group
        self._on_status = on_status
        self._began, self._warned = 0.0, False
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
            ValueError: another shape, no rows, or a value that is not finite; or the tensor's value to which rows are added is
                invalid. Nothing is sent.
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
        self._warn_alone()
        return self.sequence

    def _warn_alone(self) -> None:
        """Warns once if no node takes the chunks a second after the first."""
        now = time.monotonic()
        self._began = self._began or now
        if self._warned or now - self._began < 1.0 or self._publisher.get_subscription_count():
            return
        self._warned = True
        self._node.get_logger().warning(
            f"no node takes chunks on {self._publisher.topic_name}: is fusion_node active, and has its configuration"
            " `commands`?"
        )

    def destroy(self) -> None:
        """Ends the publisher and the subscription."""
        self._node.destroy_publisher(self._publisher)
        self._node.destroy_subscription(self._subscription)

    def _take_status(self, status: Any) -> None:
        if status.group != self._group:
            return
        self.status = status
        if self._on_status is not None:
            self._on_status(status)
