"""Columns that an item has beside its streams: integers, booleans and places, exact. It needs PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

__all__ = ["FrameColumns"]


class FrameColumns(Mapping[str, np.ndarray]):
    """Columns of all chosen frames: a mapping of the keys of items to arrays `[frames, ...]`.

    Columns of one number are rows of one array for each type, so that a batch takes all of them at once.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        groups: dict[np.dtype, list[str]] = {}
        for key, values in columns.items():
            if values.ndim == 1:
                groups.setdefault(values.dtype, []).append(key)
        self._tables = [
            (keys, np.stack([columns[key] for key in keys]))
            for keys in groups.values()
            if len(keys) > 1
        ]
        self._columns = dict(columns)
        for keys, table in self._tables:
            self._columns.update(zip(keys, table, strict=True))
        self._alone = [key for key in columns if all(key not in keys for keys, _ in self._tables)]

    def __getitem__(self, key: str) -> np.ndarray:
        return self._columns[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def taken(self, frames: np.ndarray) -> dict[str, torch.Tensor]:
        """The values of frames, by key."""
        found: dict[str, torch.Tensor] = {}
        for keys, table in self._tables:
            rows = torch.from_numpy(table.take(frames, axis=1)).unbind()
            found.update(zip(keys, rows, strict=True))
        for key in self._alone:
            found[key] = torch.from_numpy(self._columns[key].take(frames, axis=0))
        return found
