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


class Late(Resampled):
    """The same, of a call on tensors that put ages and validity into one tensor: they are made when they are asked for.

    Its memory has the values, and that tensor of int64: the ages, and behind them the bytes of validity.
    """

    def __new__(cls, values: Any, valid: Any, age_ns: Any) -> Resampled:
        """What makes another one of its type and three parts, such as a transform of torch, gets a plain one."""
        return Resampled(values, valid, age_ns)

    def _whole(self) -> Resampled:
        made = self.__dict__.get("whole")
        if made is None:
            import torch

            values, report, _ = super().__iter__()
            lead = values.shape[:-1]
            steps = lead.numel()
            valid = report[steps:].view(torch.bool)[:steps].view(lead)
            made = Resampled(values, valid, report[:steps].view(lead))
            self.__dict__["whole"] = made
        return made

    @property
    def valid(self) -> Any:
        return self._whole().valid

    @property
    def age_ns(self) -> Any:
        return self._whole().age_ns

    def __iter__(self) -> Any:
        return iter(self._whole())

    def __getitem__(self, at: Any) -> Any:
        return self._whole()[at]

    def __add__(self, other: Any) -> Any:
        return self._whole() + other

    def __eq__(self, other: object) -> bool:
        return self._whole() == other

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())

    def __reduce__(self) -> Any:
        return Resampled, tuple(self._whole())


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
