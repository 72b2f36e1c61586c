"""The shapes of a batch, the same for arrays of every library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .. import _native

# The numbers by which the extension knows element types.
CODES = {"float32": 0, "float16": 1, "bfloat16": 2}
# No limit of an age or a gap.
NO_LIMIT = 2**63 - 1
# The names of lanes, with their letter in the extension.
LANES = {"linear": "l", "angular": "a", "quaternion": "q", "held": "h"}


class Layout(NamedTuple):
    """What the shapes of a batch's arrays say."""

    episodes: int
    # The shape of the targets, with which those of the results begin.
    lead: tuple[int, ...]
    # Targets of an episode, or of all if they have offsets; likewise the rows of each stream.
    targets: int
    rows: list[int]
    # Elements of a row of each stream.
    dims: list[int]


def layout(
    rows: Sequence[Sequence[int]],
    stamps: Sequence[Sequence[int]],
    targets: Sequence[int],
    row_offsets: Sequence[Sequence[int] | None],
    target_offsets: Sequence[int] | None,
) -> Layout:
    """Checks the shapes of a batch. Every argument is a shape, or None where there are no offsets."""
    ragged = target_offsets is not None
    if target_offsets is not None:
        episodes = episodes_of(target_offsets, "target_offsets")
        expect_dims(targets, 1, "targets, which have offsets", "[sum of T]")
    elif len(targets) == 2:
        episodes = targets[0]
    else:
        expect_dims(targets, 1, "targets", "[T] or [B, T]")
        episodes = 1
    alone = not ragged and len(targets) == 1
    counts, dims = [], []
    for own, own_stamps, offsets in zip(rows, stamps, row_offsets, strict=True):
        if offsets is not None:
            if alone:
                raise ValueError(
                    "targets: expected [B, T], or target_offsets, as there are row_offsets;"
                    f" found {list(targets)}"
                )
            found = episodes_of(offsets, "row_offsets")
            expect_dims(own, 2, "rows, which have offsets", "[sum of S, D]")
        elif alone:
            found = 1
            expect_dims(own, 2, "rows, as targets are [T]", "[S, D]")
        else:
            expect_dims(own, 3, "rows", "[B, S, D], or [sum of S, D] with row_offsets")
            found = own[0]
        if found != episodes:
            raise ValueError(
                f"rows: expected {episodes} episodes, as there are of targets, found {found}"
            )
        if tuple(own_stamps) != tuple(own[:-1]):
            raise ValueError(
                f"stamps: expected the shape {list(own[:-1])}, found {list(own_stamps)}"
            )
        counts.append(own[-2])
        dims.append(own[-1])
    return Layout(episodes, tuple(targets), targets[-1], counts, dims)


def episodes_of(offsets: Sequence[int], name: str) -> int:
    """The number of episodes that offsets divide rows or targets into."""
    expect_dims(offsets, 1, name, "[B + 1]")
    if offsets[0] == 0:
        raise ValueError(f"{name}: expected at least one offset, 0, found none")
    return offsets[0] - 1


def expect_dims(shape: Sequence[int], dims: int, name: str, expected: str) -> None:
    """Raises ValueError if an array has another number of dimensions."""
    if len(shape) != dims:
        raise ValueError(f"{name}: expected the shape {expected}, found {list(shape)}")


def letters(lanes: str | Sequence[str] | None) -> str:
    """The lanes of a row as the extension has them: a letter per element, none for the strategy's own."""
    if lanes is None:
        return ""
    if isinstance(lanes, str):
        raise TypeError("lanes: expected a sequence of names, one per element, found a string")
    try:
        return "".join([LANES[lane] for lane in lanes])
    except (KeyError, TypeError):
        names = ", ".join(LANES)
        raise ValueError(f"lanes: expected names of {names}, found {list(lanes)}") from None


def limit(value: int | None) -> int:
    """An age or a gap; None is no limit."""
    return NO_LIMIT if value is None else value


def code(dtype: str, name: str) -> int:
    """The number of an element type."""
    try:
        return CODES[dtype]
    except KeyError:
        expected = ", ".join(CODES)
        raise TypeError(f"{name}: expected elements of {expected}, found {dtype}") from None


@lru_cache(maxsize=1024)
def rule(
    strategy: str, max_age_ns: int, max_gap_ns: int, fill: str, dim: int, lanes: str
) -> _native.Rule:
    """The rule of a stream; the same object for the same arguments."""
    return _native.Rule(strategy, max_age_ns, max_gap_ns, fill, dim, lanes)
