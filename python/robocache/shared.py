"""Tensors of a node on the same machine, for a policy without ROS.

    from robocache.shared import TensorReader

    for tensor in TensorReader("robot/fused_tensor"):     # the node's parameter shared_output
        joints = tensor.segments["joints"]
        if joints.valid.all():
            act(joints.float32())

The node writes each tensor into shared memory, and the arrays are views of it: nothing is copied. This module needs the
wheel and NumPy. The process must run as the same user as the node; in containers, docs/policy.md says what they share.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

from ._native import SharedReader, SharedTensor
from .contract import Contract, served_as, trained
from .message.tensor import FusedTensor
from .message.views import Views

__all__ = ["TensorReader"]

#: After this time without a node of this name, a wait warns [s].
ABSENT_S = 1.0


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
        self._contract = trained(contract)
        self._checked_run: int | None = None
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
        """Whether the node of a tensor is known to serve what the policy was trained with.

        Raises ContractError if it serves something else.
        """
        if self._contract is None or native.run == self._checked_run:
            return True
        info = self.info
        if info is None:
            return False
        self._contract.expect(served_as(info["contract"], self._service), self._service)
        self._checked_run = native.run
        return True

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
        found = ", ".join(map(repr, self.services)) or "none: does the node run, as this user?"
        warnings.warn(
            f"TensorReader: no node shares tensors as {self._service!r} (its parameter"
            f" shared_output). It waits. The names that nodes have: {found}",
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
