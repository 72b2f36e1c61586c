"""Chunks of actions, as policies give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def rows_and_reference(
    names: Sequence[str], values: npt.ArrayLike, reference: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The rows of a chunk, [rows, names], and the reference of each name, which is empty without one.

    Raises ValueError if they have another shape, no rows, or a value that is not finite.
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
    for name, array in (("values", rows), ("reference", relative)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers, found NaN or infinity")
    return rows, relative
