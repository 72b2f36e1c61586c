"""Gives the chunks of a policy to `fusion_node` through a topic, which makes commands of them.

    publisher = ActionPublisher(node, "arm", contract="checkpoint/")

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

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from .message.chunk import MOST_REFUSED, ChunkForm, RefusalsTold
from .message.ros_types import messages

if TYPE_CHECKING:
    import numpy.typing as npt
    from rclpy.node import Node

    from .contract import Contract, ContractError
    from .message.tensor import FusedTensor

#: As the node's: a chunk is not lost on the way while the policy sends tens per second.
ACTION_QOS = QoSProfile(
    depth=16, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE
)

#: What the node offers on `<topic of the tensors>/info`: who joins late gets the message, too.
INFO_QOS = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
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
            and what relative rows are added to. ValueError if it has no such actions. What the node serves, and what it
            makes of chunks, must be what the policy was trained with. Otherwise `send` raises
            `robocache.ContractError`. Chunks are not sent before the node has said its contract.
        tensor_topic: where the node's tensors are: with a contract, the node says its own on `<tensor_topic>/info`.

    Attributes:
        unchecked: chunks that were not sent, because the node had not said its contract.
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
        tensor_topic: str = "fused_tensor",
    ) -> None:
        self._messages = messages("ActionPublisher")
        self._node = node
        of_policy = None
        if contract is not None:
            from .contract import trained  # of the compiled part

            of_policy = trained(contract)
        self._form = ChunkForm(names, None if of_policy is None else of_policy.json)
        self._contract = of_policy
        self._is_checked = of_policy is None
        #: Why the node is refused.
        self._refusal: ContractError | None = None
        self.unchecked = 0
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
        self._info_topic = f"{node.resolve_topic_name(tensor_topic)}/info"
        self._info = None
        if of_policy is not None:
            self._info = node.create_subscription(
                self._messages.FusedTensorInfo, self._info_topic, self._take_info, INFO_QOS
            )

    def send(
        self,
        tensor: FusedTensor,
        values: npt.ArrayLike,
        reference: npt.ArrayLike | None = None,
    ) -> int:
        """Sends a chunk that answers a tensor. Returns its number, by which `CommandStatus` names it. By a contract, the
        number is 0 if the chunk was not sent, because the node has not said its contract yet.

        Args:
            tensor: the tensor that the policy saw.
            values: [rows, joints]; row k is for the instant of the tensor's tick plus the k-th offset of the group.
                They are what the policy gives: the node takes the operators of the group back.
            reference: [joints], for a group with relative joints: what their rows are added to, without operators. By
                default it is that of the tensor if the publisher has a contract.

        Raises:
            ValueError: another shape, no rows, more than 1024, or a value that is not finite; or the tensor's value to which rows
                are added is invalid. Nothing is sent.
            ContractError: the node serves, or makes of chunks, something else than the policy was trained with. Nothing
                is sent.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        rows, relative = self._form.rows_and_reference(tensor, values, reference)
        if not self._is_checked:
            self.unchecked += 1
            self._look()
            return 0
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
        """Warns once if no node takes the chunks a second after the first, or none has the group, or said its contract."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if self.status is not None and self._is_checked:
            self._is_known = True
        if self._is_known or now - self._began < ABSENT_S:
            return
        if not self._publisher.get_subscription_count():
            words = (
                f"no node takes chunks on {self._publisher.topic_name}: is fusion_node active, and has its configuration"
                " `commands`?"
            )
        elif not self._is_checked:
            words = f"chunks are not sent: no node has said its contract on {self._info_topic}"
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
        if self._info is not None:
            self._node.destroy_subscription(self._info)

    def _take_info(self, info: Any) -> None:
        """Compares what a node says at its start with the contract of the policy."""
        from .contract import ContractError, expect_and_log, served_as

        assert self._contract is not None  # its subscription is there with a contract alone
        self._is_checked, self._refusal = False, None
        try:
            served = served_as(info.contract, self._info_topic)
            expect_and_log(self._contract, served, self._info_topic, self._node.get_logger())
        except ContractError as error:
            self._refusal = error
            self._node.get_logger().fatal(str(error))
            return
        self._is_checked = True

    def _take_status(self, status: Any) -> None:
        if status.group != self._group:
            self._others.add(status.group)
            return
        self.status = status
        refused = list(zip(status.refused_sequences, status.refused_reasons))
        self.refused.extend(refused)
        for words in self._told.news([reason for _, reason in refused], status.joints):
            self._node.get_logger().warning(words)
        if self._on_status is not None:
            self._on_status(status)
