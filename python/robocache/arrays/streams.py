"""What `resample` and `fuse` take and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Resampled(NamedTuple):
    """Values at the targets, and what is known of them."""

    values: Any
    """`[..., D]`, where `...` is the shape of the targets. A value that is not valid is filled."""
    valid: Any
    """`bool`, of the shape of the targets; of `fuse`: `[streams, ...]`. Whether a value may be used."""
    age_ns: Any
    """`int64`, of the same shape: target minus the stamp of the newest row used. It is negative if that
    row is after the target, and `robocache.NO_AGE` if there is no row."""


@dataclass
class Stream:
    """One stream for `fuse`. The fields are the arguments of `resample`."""

    rows: Any
    stamps: Any
    strategy: str = "linear"
    max_age_ns: int | None = None
    max_gap_ns: int | None = None
    fill: str = "zero"
    lanes: Sequence[str] | None = None
    row_offsets: Any = None
