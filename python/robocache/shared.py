"""Tensors of a node on the same machine, and chunks of actions that answer them, for a policy without ROS.

    from robocache.shared import ActionWriter, TensorReader

    service, checkpoint = "robot/fused_tensor", "checkpoint/"     # the node's parameter shared_output
    actions = ActionWriter(service, "arm", contract=checkpoint)
    for tensor in TensorReader(service, contract=checkpoint):
        joints = tensor.segments["joints"]
        if joints.valid.all():
            actions.send(tensor, policy(joints.float32()))    # [rows, joints]

The node writes each tensor into shared memory, and the arrays are views of it: nothing is copied. It makes commands of the
chunks: docs/actions.md. This module needs the wheel and NumPy. The process must run as the same user as the node; in
containers, docs/policy.md says what they share.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._native import SharedReader, SharedTensor, SharedWriter
from .contract import Contract, served_as, trained
from .message.chunk import ChunkForm, RefusalsTold
from .message.tensor import FusedTensor
from .message.views import Views

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ActionStatus", "ActionWriter", "TensorReader"]

#: After this time without a node of this name, a wait warns [s].
ABSENT_S = 1.0


class RunCheck:
    """Comparison of a policy's contract with that of a node, once for each run of the node.

    Args:
        contract: that of the policy; without one, everything passes.
        service: the name of the node.
    """

    def __init__(self, contract: Contract | None, service: str) -> None:
        self._contract, self._service = contract, service
        self._passed: int | None = None

    def passes(self, run: int, info: Callable[[], str | None]) -> bool:
        """True if the node of this run serves what the policy was trained with; False if it has not said its contract yet.

        `info` gives what the node says of this run, as JSON, or None. Raises ContractError if it serves something else.
        """
        if self._contract is None or run == self._passed:
            return True
        text = info()
        if text is None:
            return False
        served = served_as(json.loads(text)["contract"], self._service)
        self._contract.expect(served, self._service)
        self._passed = run
        return True


class TensorReader:
    """Reads the tensors that a node shares under a name. The newest counts: an older one that was not taken is gone.

    The node may start later, or start again: the reader waits, and goes on with the new tensors. A tensor owns its
    memory until the last of its arrays is gone. Of each reader at most three tensors may be in shared memory. If more are
    kept, the next one is a copy, and a warning says so once.

    The arrays are read-only. One thread at a time uses a reader.

    Args:
        service: the value of the node's parameter `shared_output`.
        contract: the folder of the policy, with its `robocache.json`, or a `robocache.Contract`. What the node serves must
            be what the policy was trained with; otherwise what gives tensors raises `robocache.ContractError`. Tensors
            that come before the node has said its contract, up to a second after the first one, are not given.

    Raises ValueError if the name is wrong, and RuntimeError if there are four readers already.
    """

    def __init__(
        self, service: str, *, contract: str | os.PathLike[str] | Contract | None = None
    ) -> None:
        self._check = RunCheck(trained(contract), service)
        self._service = service
        self._native = SharedReader(service)
        self._has_warned = False
        #: When a wait says which names there are; None after it has, or after the node came.
        self._absent_at: float | None = time.monotonic() + ABSENT_S
        self._run: int | None = None
        self._views = Views(is_shared=True)

    def wait(self, timeout_s: float | None = None) -> FusedTensor | None:
        """Waits for a tensor that was not taken yet: a `robocache.FusedTensor`, or None if none came in time.

        If no node has shared tensors under this name within a second, it warns once, and says which names there are.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            native = self._native.wait(self._until_absent(timeout_s))
            if native is None:
                self._say_if_absent()
            elif self._is_checked(native):
                return self._tensor(native)
            if until is not None:
                timeout_s = max(0.0, until - time.monotonic())
                if native is None and not timeout_s:
                    return None

    def latest(self) -> FusedTensor | None:
        """The newest tensor if it was not taken yet, otherwise None. Does not wait."""
        native = self._native.latest()
        return self._tensor(native) if native is None or self._is_checked(native) else None

    def __iter__(self) -> Iterator[FusedTensor]:
        """Yields each newest tensor, for ever."""
        while True:
            tensor = self.wait()
            if tensor is not None:  # as always without a timeout
                yield tensor

    @property
    def missed(self) -> int:
        """Tensors that a newer one replaced before they were taken."""
        return self._native.missed

    @property
    def services(self) -> list[str]:
        """The names under which nodes of this user share tensors now."""
        return self._native.services()

    @property
    def run(self) -> int | None:
        """The run of the node that the newest tensor is of; None before the first tensor."""
        return self._run

    @property
    def info(self) -> dict[str, Any] | None:
        """What the tensors mean: a dict with the fields of `robocache_ros/msg/FusedTensorInfo`; None before it came, up
        to a second after the first tensor.

        `info["segments"]` has the names of the channels of each segment, and `info["config"]` the node's configuration.
        """
        text = self._native.info()
        return None if text is None else json.loads(text)

    def close(self) -> None:
        """Ends the reader. Tensors that it gave stay valid."""
        self._native.close()

    def __enter__(self) -> TensorReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_checked(self, native: SharedTensor) -> bool:
        """True if the node of a tensor is known to serve what the policy was trained with.

        Raises ContractError if it serves something else.
        """
        return self._check.passes(native.run, self._native.info)

    def _until_absent(self, timeout_s: float | None) -> float | None:
        """The time to wait until the reader looks whether the node is absent, at most `timeout_s`."""
        if self._absent_at is None or (timeout_s is not None and not timeout_s >= 0.0):
            return timeout_s
        left = max(0.0, self._absent_at - time.monotonic())
        return left if timeout_s is None else min(left, timeout_s)

    def _say_if_absent(self) -> None:
        """Warns once if no node has this name for a second: it may be mistaken."""
        if self._absent_at is None or time.monotonic() < self._absent_at:
            return
        self._absent_at = None
        if self._native.is_open:
            return
        warnings.warn(
            f"TensorReader: no node shares tensors as {self._service!r} (its parameter"
            f" shared_output). It waits. The names that nodes have: {_named(self.services)}",
            RuntimeWarning,
            stacklevel=3,
        )

    def _tensor(self, native: SharedTensor | None) -> FusedTensor | None:
        if native is None:
            return None
        if not self._has_warned and self._native.copied:
            self._has_warned = True
            warnings.warn(
                "TensorReader: more than three tensors are kept, so the next ones are copied: keep"
                " copies of what you need (array.copy()) instead of the tensors",
                RuntimeWarning,
                stacklevel=3,
            )
        if native.run != self._run:
            self._run, self._views = native.run, Views(is_shared=True)
        return self._views.of(native)


@dataclass(frozen=True)
class ActionStatus:
    """Status of a group, as a node tells it to a writer of its chunks.

    Attributes:
        stamp_ns: the instant of the command tick, on the node's clock.
        run: the run of the node, as in its tensors.
        stage: disabled, waiting, following, stalled, ended or stopping (docs/actions.md).
        waits_for: enabling, measured, chunk, first_row or rest, before the group follows a plan; empty while it does.
        sequence: the number of the newest chunk that counts; None if there is none, or another writer's.
        delay_ticks: command ticks from the instant that this chunk answers to the one that found it.
        refused: the number and the reason of chunks of this writer that were refused: the newest 16, the oldest first.
        commands: command ticks with a command, since the start of the node or its activation.
        chunks: chunks that counted, of all writers, since the start of the node or its activation.
        chunks_late: chunks whose rows were all past.
        rows_late: rows that were past when their chunk came.
        clipped: for each joint, commands that a limit changed.
    """

    stamp_ns: int
    run: int
    stage: str
    waits_for: str
    sequence: int | None
    delay_ticks: int | None
    refused: list[tuple[int, str]]
    commands: int
    chunks: int
    chunks_late: int
    rows_late: int
    clipped: dict[str, int]


class ActionWriter:
    """Sends chunks of one group of joints to a node on the same machine, which makes commands of them.

    The node may start later, or start again: chunks without a node are gone, and the next one goes to the new node. One thread
    at a time uses a writer.

    Args:
        service: the value of the node's parameter `shared_output`.
        group: the group, as the node's configuration names it.
        names: its joints, in the order of the configuration and of a row; by default those of the contract.
        contract: the folder of the policy, or a `robocache.Contract` with `actions`. It has the joints, the number of rows,
            and what relative rows are added to. What the node serves, and what it makes of chunks, must be what the
            policy was trained with. Otherwise `send` raises `robocache.ContractError`. Chunks are not sent before the
            node has said its contract, up to a second after the writer was made.

    Attributes:
        unchecked: chunks that were not sent, because the node of their tensor had not said its contract.

    Raises ValueError if the name of the service is wrong, or the contract has no such actions, and RuntimeError if there are
    four writers already.
    """

    def __init__(
        self,
        service: str,
        group: str,
        names: Sequence[str] | None = None,
        *,
        contract: str | os.PathLike[str] | Contract | None = None,
    ) -> None:
        of_policy = trained(contract)
        self._form = ChunkForm(names, None if of_policy is None else of_policy.json)
        self._check = RunCheck(of_policy, service)
        self.unchecked = 0
        self._service, self._group = service, group
        self._told = RefusalsTold(group)
        self._native = SharedWriter(service, group, self._form.names)
        if of_policy is not None:
            self._native.info(0)  # it begins to listen
        self._began = time.monotonic()
        #: When a send says which names there are; None after it has, or after the node came.
        self._absent_at: float | None = self._began + ABSENT_S
        #: True if the node has the group, or a warning says that it has not.
        self._is_known = False

    def send(
        self,
        tensor: FusedTensor,
        values: npt.ArrayLike,
        reference: npt.ArrayLike | None = None,
    ) -> int:
        """Sends a chunk that answers a tensor. Returns its number, by which `status` names it. By a contract, the number is
        0 if the chunk was not sent, because the node has not said its contract yet.

        If no node takes chunks under this name a second after the writer was made, it warns once, and says which names there
        are. It goes on: the chunk is gone. It also warns once for each reason for which the node has refused a chunk.

        Args:
            tensor: the tensor that the policy saw.
            values: [rows, joints]; row k is for the instant of the tensor's tick plus the k-th offset of the group.
                They are what the policy gives: the node takes the operators of the group back.
            reference: [joints], for a group with relative joints: what their rows are added to, without operators. By
                default it is that of the tensor if the writer has a contract.

        Raises:
            ValueError: another shape, no rows, more than 1024, or a value that is not finite; or the tensor's value to which
                rows are added is invalid. Nothing is sent.
            ContractError: the node serves, or makes of chunks, something else than the policy was trained with. Nothing
                is sent.
        """
        is_checked = self._check.passes(tensor.run, lambda: self._native.info(tensor.run))
        rows, relative = self._form.rows_and_reference(tensor, values, reference)
        answered = (tensor.run, tensor.epoch, tensor.stamp_ns, tensor.tick)
        contiguous = (np.ascontiguousarray(rows), np.ascontiguousarray(relative))
        sequence = self._native.send(answered, *contiguous) if is_checked else 0
        self.unchecked += not is_checked
        self._say_refused()
        self._say_if_absent()
        if not self._is_known:
            self._say_if_unknown()
        return sequence

    @property
    def status(self) -> ActionStatus | None:
        """The newest status of this group; None before the first."""
        found = self._native.status()
        if found is None:
            return None
        (stamp_ns, run, stage, waits_for), newest, refused, counts, clipped = found
        sequence, delay_ticks = newest or (None, None)
        return ActionStatus(
            stamp_ns, run, stage, waits_for, sequence, delay_ticks, refused, *counts, dict(clipped)
        )

    def close(self) -> None:
        """Ends the writer. Another one may have the group after the node's `watchdog_ms`."""
        self._native.close()

    def __enter__(self) -> ActionWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say_refused(self) -> None:
        """Warns once for each reason for which the node has refused a chunk of this writer."""
        status = self._native.status()
        if status is None:
            return
        joints = [joint for joint, _ in status[4]]
        for words in self._told.news([reason for _, reason in status[2]], joints):
            warnings.warn(f"ActionWriter: {words}", RuntimeWarning, stacklevel=3)

    def _say_if_absent(self) -> None:
        """Warns once if no node takes chunks under this name for a second: it may be mistaken."""
        if self._absent_at is None or time.monotonic() < self._absent_at:
            return
        self._absent_at = None
        if self._native.has_node:
            return
        warnings.warn(
            f"ActionWriter: no node takes chunks as {self._service!r}: does fusion_node run with this shared_output,"
            " and has its configuration `commands`? Chunks are gone until one does. Nodes share tensors as"
            f" {_named(self._native.services())}",
            RuntimeWarning,
            stacklevel=3,
        )

    def _say_if_unknown(self) -> None:
        """Warns once if the node has told of other groups, and not of this one."""
        groups = self._native.groups()
        # A node tells of all its groups at once, at its first command tick.
        if not groups or time.monotonic() < self._began + ABSENT_S:
            return
        self._is_known = True
        if self._group not in groups:
            warnings.warn(
                f"ActionWriter: the node has no group {self._group!r}: it has {', '.join(groups)}",
                RuntimeWarning,
                stacklevel=3,
            )


def _named(services: Sequence[str]) -> str:
    """The names of services, for people."""
    return ", ".join(map(repr, services)) or "none: does the node run, as this user?"
