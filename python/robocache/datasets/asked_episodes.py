"""Which episodes of a store are asked for: by numbers, by names, by a split, or as a share."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

#: The names of the episodes of each split, which `robocache import` writes beside its store.
SPLITS = "splits.json"
_Episode = TypeVar("_Episode")


def numbers_of(
    names: Callable[[], Sequence[str]],
    *,
    episodes: Any = None,
    split: str | None = None,
    share: Any = None,
    path: Path | None = None,
) -> tuple[list[int] | None, int | None]:
    """The numbers of the episodes that are asked for, increasing; None for all. Also how many episodes they were chosen of,
    if that was asked.

    Args:
        names: returns the names of all episodes.
        episodes, split, share: of `EpisodeCache.load`.
        path: of the store, for `split`.

    Raises ValueError if there is no such episode, split or share, or the share is empty; TypeError if an argument is of
    another kind.
    """
    if split is not None and episodes is not None:
        raise ValueError(f"episodes: expected None with a split, found {episodes!r}")
    chosen, of = _of_list(names, episodes) if split is None else _of_split(names(), split, path)
    if chosen is not None and not chosen:
        of = len(names()) if of is None else of
        raise ValueError(f"episodes: expected one or more of {of}, found none: {episodes!r}")
    if share is None:
        return chosen, of
    if of is None:
        of = len(names())
    return share_among(list(range(of)) if chosen is None else chosen, share), of


def share_among(episodes: list[_Episode], share: Any) -> list[_Episode]:
    """Of these episodes every `world`-th, from `rank` on. Raises ValueError if this rank would have none."""
    rank, world = share_of(share)
    own = episodes[rank::world]
    if not own:
        raise ValueError(
            f"share: expected an episode or more for each of {world} ranks, found {len(episodes)} in all and none for rank "
            f"{rank}: give fewer ranks, or choose more episodes"
        )
    return own


def share_of(share: Any) -> tuple[int, int]:
    """A pair (rank, world) that was checked."""
    try:
        rank, world = (operator.index(each) for each in share)
    except (TypeError, ValueError):
        raise TypeError(
            f"share: expected a pair (rank, world) of whole numbers, found {share!r}"
        ) from None
    if not 0 <= rank < world:
        raise ValueError(f"share: expected (rank, world) with rank below world, found {share}")
    return rank, world


def _of_list(
    names: Callable[[], Sequence[str]], episodes: Any
) -> tuple[list[int] | None, int | None]:
    """The numbers of `episodes`: None, a slice, numbers or names."""
    if episodes is None:
        return None, None
    if isinstance(episodes, str):
        raise TypeError(
            f"episodes: expected a list of names, found the text {episodes!r}: a split is split={episodes!r}"
        )
    if isinstance(episodes, slice):
        of = len(names())
        return list(range(of)[episodes]), of
    try:
        listed = list(np.ravel(episodes)) if isinstance(episodes, np.ndarray) else list(episodes)
    except TypeError:
        raise TypeError(
            f"episodes: expected a list of numbers or names, or a slice, found {episodes!r}"
        ) from None
    if any(isinstance(each, str) for each in listed):
        known = names()
        return _of_names(known, listed, "episodes"), len(known)
    numbers = integers(episodes, "episodes").reshape(-1).tolist()
    if any(number < 0 for number in numbers):
        raise ValueError(f"episodes: expected numbers of 0 or more, found {min(numbers)}")
    return numbers, None


def _of_names(known: Sequence[str], asked: Sequence[Any], what: str) -> list[int]:
    """The numbers of names, increasing."""
    places = {name: number for number, name in enumerate(known)}
    missing = [name for name in asked if name not in places]
    if missing:
        some = ", ".join(known[:3]) + (", ..." if len(known) > 3 else "")
        raise ValueError(f"{what}: expected names of {some}, found {missing[0]!r}")
    return sorted({places[name] for name in asked})


def _of_split(
    known: Sequence[str], split: str, path: Path | None
) -> tuple[list[int] | None, int | None]:
    """The numbers of the episodes of a split that are in the store."""
    beside = (path or Path()).parent / SPLITS
    try:
        splits = json.loads(beside.read_text())
    except FileNotFoundError:
        raise ValueError(
            f"split: expected {beside}, which `robocache import` writes for a dataset with splits, found none"
        ) from None
    if split not in splits:
        raise ValueError(f"split: expected one of {', '.join(splits)}, found {split!r}")
    names = set(splits[split])
    chosen = [number for number, name in enumerate(known) if name in names]
    if not chosen:
        raise ValueError(f"split: expected an episode of {split!r} in {path}, found none")
    return chosen, len(known)


def integers(values, name):
    """Numbers as int64. A float does not hold an instant, and int64 not every uint64."""
    if type(values) is np.ndarray and values.dtype == np.int64:
        return values
    values = np.asarray(values)
    if values.dtype.kind not in "iu" and values.size:
        raise TypeError(f"{name}: expected integers, found {values.dtype}")
    most = np.iinfo(np.int64).max
    if values.dtype == np.uint64 and (values > most).any():
        raise ValueError(f"{name}: expected at most {most}, found {values.max()}")
    return values.astype(np.int64)
