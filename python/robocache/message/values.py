"""Values with a name and an element type that behave as an array of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


class Values:
    """What a segment has in common with an array: `shape`, `len`, indices, `numpy` and `numpy.asarray`.

    They have numbers for every element type: of bf16, for which NumPy has no type, as float32.
    """

    __slots__ = ()
    name: str
    dtype: str

    # The class has these.
    array: Any
    shape: tuple[int, ...]
    float32: Any
    torch: Any

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    def numpy(self) -> np.ndarray:
        """The values as an array of NumPy: of bf16 a copy as float32, otherwise a view. From a GPU they are copied."""
        if not isinstance(self.array, np.ndarray):
            tensor = self.torch()
            return (tensor.float() if self.dtype == "bf16" else tensor).cpu().numpy()
        return self.float32() if self.dtype == "bf16" else self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not isinstance(self.array, np.ndarray):
            raise TypeError(
                f"'{self.name}': expected values on the host for an array of NumPy, found them on a GPU: "
                "give numpy() for a copy, or torch()"
            )
        values = self.numpy()
        if copy is False and not np.shares_memory(values, self.array):
            raise ValueError(f"'{self.name}': expected copy=None for bf16, found False")
        made = values if dtype is None else values.astype(dtype, copy=False)
        return made.copy() if copy and np.shares_memory(made, self.array) else made

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """A part of the values: of NumPy, or of torch on a GPU."""
        return (self.numpy() if isinstance(self.array, np.ndarray) else self.torch())[key]
