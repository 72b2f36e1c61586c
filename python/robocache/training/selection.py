"""Which episodes a training has: by task, by marks, by the last value of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .statistics import host

__all__ = ["Columns", "kept", "selected", "value_of"]


def value_of(text: str) -> float:
    """The number of a mark: that of its text. Of other texts, "false" and "no" are 0, and all others 1."""
    try:
        return float(text)
    except ValueError:
        return float(text.lower() not in ("false", "no"))


def selected(
    cache: Any,
    tasks: str | Sequence[str] | None,
    marks: Mapping[str, Any] | None,
    last: Mapping[str, float] | None,
    where: Callable[[Mapping[str, Any]], bool] | None,
) -> list[str]:
    """The names of episodes: `EpisodeCache.select` has the arguments."""
    found = np.ones(len(cache.episodes), bool)
    if tasks is not None:
        wanted = {tasks} if isinstance(tasks, str) else set(tasks)
        if unknown := sorted(wanted - set(cache.tasks)):
            raise ValueError(
                f"tasks: expected some of {', '.join(map(repr, cache.tasks))}, found {unknown[0]!r}"
            )
        found &= [bool(_tasks(about) & wanted) for about in cache.episodes]
    for name, value in (marks or {}).items():
        noted = [_mark(about, name) for about in cache.episodes]
        if all(each is None for each in noted):
            known = sorted({m["name"] for e in cache.episodes for m in e.get("marks", ())})
            raise ValueError(f"marks: expected one of {', '.join(known) or 'none'}, found {name!r}")
        found &= [each is not None and each == float(value) for each in noted]
    for name, value in (last or {}).items():
        found &= _last(cache, name) == float(value)
    if where is not None:
        found &= [bool(where(about)) for about in cache.episodes]
    return [about["name"] for about, use in zip(cache.episodes, found, strict=True) if use]


def _tasks(about: Mapping[str, Any]) -> set[str]:
    return {about["task"], *(part["task"] for part in about.get("tasks", ()))} - {None}


def _mark(about: Mapping[str, Any], name: str) -> float | None:
    """The number of the newest mark of this name."""
    newest = [mark for mark in about.get("marks", ()) if mark["name"] == name][-1:]
    return value_of(newest[0]["value"]) if newest else None


def _last(cache: Any, name: str) -> np.ndarray:
    """By episode the first number of a stream at its end, however old it is; NaN if there is none."""
    if name not in cache.streams:
        raise ValueError(f"last: expected streams of {', '.join(cache.streams)}, found {name!r}")
    found = np.full(len(cache.episodes), np.nan)
    # If the clock began again, the newest epoch may end at an earlier instant than others.
    last = {
        number: (epoch, end)
        for number, about in enumerate(cache.episodes)
        for epoch, begin, end in about["spans"]
        if begin <= end
    }
    if not last:
        return found
    numbers = np.array(list(last), np.int64)
    epochs, ends = np.array(list(last.values()), np.int64).T
    # A label would be invalid behind the last row of its stream.
    seen = {"offsets_ns": [0], "label": False, "rows": "all", "max_age_ms": _ANY_AGE_MS}
    config = {name: seen}
    segment = cache.windows(numbers, ends, config, epochs=epochs)[name]
    rows, valid = host(segment.float32()).reshape(len(numbers), -1), host(segment.valid)
    found[numbers] = np.where(valid[:, 0], rows[:, 0], np.nan)
    return found


def kept(
    spans: tuple[np.ndarray, ...],
    episodes: Sequence[Mapping[str, Any]],
    period_ns: int,
    keep: Mapping[str, Any],
) -> tuple[np.ndarray, ...]:
    """Ranges that are inside those of `keep`: numbers of episodes, epochs, first and last instants.

    Args:
        spans: the same of all epochs of the clock in all episodes.
        episodes: of the cache.
        period_ns: of a frame.
        keep: of `WindowSampler.of`.

    Raises ValueError if an episode is unknown, or its ranges do not increase.
    """
    names = [each["name"] for each in episodes]
    firsts = [begin for each in episodes for _, begin, _ in each["spans"]]
    if unknown := [name for name in keep if name not in names]:
        raise ValueError(f"keep: expected names of episodes, found {unknown[0]!r}")
    found = []
    for episode, epoch, begin, end, first in zip(*spans, firsts, strict=True):
        frames = np.asarray(keep.get(names[episode], ()), np.int64).reshape(-1, 2)
        if (np.diff(frames.reshape(-1)) < 0).any() or (frames < 0).any():
            raise ValueError(
                f"keep of {names[episode]!r}: expected increasing ranges [first, end) of frames, found {frames.tolist()}"
            )
        # Instants on the grid are behind those of the rows by less than a frame.
        instants = first + frames * period_ns - [0, 1]
        own = [(episode, epoch, max(begin, low), min(end, high)) for low, high in instants.tolist()]
        # An episode without a range keeps its number, for weights.
        found += own or [(episode, epoch, period_ns, 0)]
    return tuple(np.array(found, np.int64).reshape(-1, 4).T)


class Columns:
    """Texts and tokens of episodes, an entry of each episode for each window of a batch.

    Args:
        cache: an EpisodeCache.
        columns: by name an array `[episodes, ...]`; or a list with a text for each episode, or with a list of texts or of
            arrays of one shape, of which each window draws one.

    Raises ValueError if a column has not an entry for each episode.
    """

    def __init__(self, cache: Any, columns: Mapping[str, Any]) -> None:
        self._columns: dict[str, Any] = {}
        for name, values in columns.items():
            if len(values) != len(cache.episodes):
                raise ValueError(
                    f"columns: expected {len(cache.episodes)} entries of {name!r}, one for each episode, found {len(values)}"
                )
            if not hasattr(values, "shape"):
                for each in values:
                    _check_entry(name, each)
                values = [each if isinstance(each, list | tuple) else [each] for each in values]
                if not all(values):
                    raise ValueError(
                        f"columns: expected an entry or more for each episode in {name!r}, found none"
                    )
            self._columns[name] = values

    def __iter__(self) -> Any:
        return iter(self._columns)

    def of(self, episodes: np.ndarray, seed: Sequence[int]) -> dict[str, Any]:
        """By name an array `[windows, ...]`, or a list of texts. Columns with equally many entries draw the same of them."""
        if not self._columns:
            return {}
        draws = np.random.default_rng([*seed, _DRAWS]).random(len(episodes))
        found: dict[str, Any] = {}
        for name, values in self._columns.items():
            if hasattr(values, "shape"):
                found[name] = np.asarray(values)[episodes]
                continue
            chosen = [
                values[episode][int(draw * len(values[episode]))]
                for episode, draw in zip(episodes.tolist(), draws.tolist(), strict=True)
            ]
            is_text = all(isinstance(each, str) for each in chosen)
            found[name] = chosen if is_text else np.stack([np.asarray(each) for each in chosen])
        return found


def _check_entry(name: str, entry: Any) -> None:
    """Raises ValueError for a list of numbers, of which a window would draw one."""
    if not isinstance(entry, list | tuple):
        return
    for each in entry:
        if not isinstance(each, str) and np.ndim(each) == 0:
            raise ValueError(
                f"columns: expected a list of texts or of arrays in {name!r}, found one of numbers such as {each!r}: give "
                "an array of them, such as of the tokens of a text"
            )


#: Ages that no episode has: ten years.
_ANY_AGE_MS = 3.2e11
#: Draws of entries are others than those of jitter.
_DRAWS = 0x7E87
