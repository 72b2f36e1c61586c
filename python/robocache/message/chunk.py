"""Chunks of actions, as policies give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

#: Rows of a chunk at most.
MOST_ROWS = 1024

#: Refusals that a status lists at most.
MOST_REFUSED = 16

#: Reasons for which a node refuses a chunk, in words. docs/actions.md has them all.
REFUSALS = {
    "malformed": "the node cannot read it: it is of another version of robocache",
    "group": "the node has no group of this name",
    "names": "the group has other joints, or another order of them",
    "shape": "it has more rows than the group's rows.steps",
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

    def news(self, reasons: Sequence[str]) -> list[str]:
        """A sentence for each reason that is new."""
        new = [reason for reason in dict.fromkeys(reasons) if reason not in self._told]
        self._told.update(new)
        return [
            f"a chunk of group {self._group!r} was refused ({reason}): "
            f"{REFUSALS.get(reason, 'docs/actions.md has the reasons')}"
            for reason in new
        ]


def rows_and_reference(
    names: Sequence[str], values: npt.ArrayLike, reference: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The rows of a chunk, [rows, names], and the reference of each name, which is empty without one.

    Raises ValueError if they have another shape, no rows, more than 1024, or a value that is not finite.
    """
    joints = len(names)
    rows = np.asarray(values, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != joints or not len(rows):
        raise ValueError(
            f"values: expected [rows, {joints}], one column for each of "
            f"{', '.join(names)}, found the shape {list(rows.shape)}"
        )
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
