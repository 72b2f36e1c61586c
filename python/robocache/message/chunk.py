"""Chunks of actions, as policies give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from .tensor import FusedTensor

#: Rows of a chunk at most.
MOST_ROWS = 1024

#: Refusals that a status lists at most.
MOST_REFUSED = 16

#: Reasons for which a node refuses a chunk, in words. docs/actions.md has them all.
REFUSALS = {
    "malformed": "the node cannot read it: it is of another version of robocache",
    "group": "the node has no group of this name",
    "names": "the group has other joints, or another order of them",
    "shape": "it has more rows than the group",
    "no_rows": "it has no rows",
    "non_finite": "a value leaves the range of numbers when the node takes the operators back",
    "reference": "the group has relative joints: send needs a reference",
    "run": "it answers a tensor of an earlier start of the node",
    "epoch": "it answers a tensor from before the node's clock jumped",
    "not_served": "the node has not sent the tick that it answers, or the measured joints were invalid in that tensor",
    "older": "it answers an older tick than the newest chunk did",
    "too_old": "it answers a tick from more than 10 s ago",
    "sequence": "its number does not rise",
    "writer": "another writer has the group, until it has sent no chunk for watchdog_ms",
    "disabled": "commands are disabled: call the service enable_commands of the node",
}


class RefusalsTold:
    """Refused chunks of a writer that nobody has been told of yet: each reason is told once."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._told: set[str] = set()

    def news(self, reasons: Sequence[str], joints: Sequence[str]) -> list[str]:
        """A sentence for each reason that is new. `joints`: those of the node's group, in its order."""
        new = [reason for reason in dict.fromkeys(reasons) if reason not in self._told]
        self._told.update(new)
        return [
            f"a chunk of group {self._group!r} was refused ({reason}): "
            f"{REFUSALS.get(reason, 'docs/actions.md has the reasons')}"
            + (f": {', '.join(joints)}" if reason == "names" else "")
            for reason in new
        ]


class ChunkForm:
    """The form of the chunks of a group: its joints and, if a contract says it, its rows and what these are added to.

    Args:
        names: the joints, in the order of a row; None for those of the contract.
        contract: the JSON of the contract of the policy, or None.

    Attributes:
        names: the joints.

    Raises TypeError if neither is given; ValueError if the contract has no such actions, or a reference that no tensor has
    in full.
    """

    def __init__(self, names: Sequence[str] | None, contract: str | None) -> None:
        given = None if names is None else list(names)
        if contract is None and given is None:
            raise TypeError(
                "names: expected the joints, or a contract that has them, found neither"
            )
        self._form = None
        if contract is not None:
            from .._native import ActionForm  # of the compiled part

            self._form = ActionForm(contract, given)
        self.names: list[str] = given or (self._form.joints if self._form else [])

    def rows_and_reference(
        self, tensor: FusedTensor, values: npt.ArrayLike, reference: npt.ArrayLike | None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The rows of a chunk, [rows, names], and the reference of each name, which is empty without one. By a contract, the
        reference is of the tensor, unless the caller gives one.

        Raises ValueError if they have another shape, no rows, or a value that is not finite; or if the reference is not valid
        in the tensor.
        """
        joints = len(self.names)
        rows = np.asarray(values, dtype=np.float32)
        # A policy may give the first rows alone.
        count = "rows" if self._form is None else f"1 to {self._form.rows}"
        fits = rows.ndim == 2 and len(rows) and rows.shape[1] == joints
        if not fits or (self._form is not None and len(rows) > self._form.rows):
            raise ValueError(
                f"values: expected [{count}, {joints}], one column for each of "
                f"{', '.join(self.names)}, found the shape {list(rows.shape)}"
            )
        if reference is None:
            reference = self._reference(tensor)
        relative: npt.NDArray[np.float32] = np.zeros(0, np.float32)
        if reference is not None:
            relative = np.asarray(reference, dtype=np.float32)
            if relative.shape != (joints,):
                raise ValueError(
                    f"reference: expected [{joints}], found the shape {list(relative.shape)}"
                )
        if len(rows) > MOST_ROWS:
            raise ValueError(f"values: expected at most {MOST_ROWS} rows, found {len(rows)}")
        for name, array in (("values", rows), ("reference", relative)):
            if not np.isfinite(array).all():
                raise ValueError(f"{name}: expected finite numbers, found NaN or infinity")
        return rows, relative

    def _reference(self, tensor: FusedTensor) -> list[float] | None:
        """What relative rows are added to: the newest step of a stream, as its messages had it."""
        if self._form is None or self._form.reference is None:
            return None
        name, shape = self._form.reference
        segment = tensor.segments.get(name)
        if segment is None or segment.dtype != "f32" or list(segment.shape) != list(shape):
            raise ValueError(
                f"tensor: expected '{name}' of f32 {list(shape)}, to which rows are added, found {segment}"
            )
        if not segment.valid[-1]:
            raise ValueError(
                f"tensor: expected a valid newest step of '{name}', to which rows are added, found an invalid one"
            )
        return self._form.values(segment.numpy()[-1].tolist())
