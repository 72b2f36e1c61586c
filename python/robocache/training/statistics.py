"""Statistics of vectors by stream: of all rows, or of what comes out of windows. Policies normalise by them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .running import Rows

__all__ = ["Statistics", "host", "of_windows"]

#: What openpi's file has of a key.
_OF_OPENPI = ("mean", "std", "q01", "q99")
#: Windows that are made at once.
_BATCH = 512


class Statistics(dict[str, dict[str, np.ndarray]]):
    """By stream a dict of arrays by name: `mean`, `std`, `min`, `max`, `count` and quantiles."""

    def json(self) -> dict[str, dict[str, Any]]:
        """The same as lists of numbers, for `json.dumps`. A number that is none is None."""
        return {
            stream: {name: _plain(array) for name, array in of.items()}
            for stream, of in self.items()
        }

    def named(self, keys: Mapping[str, str] | None) -> dict[str, dict[str, np.ndarray]]:
        """The statistics by other names.

        Args:
            keys: by stream its name; None for all streams as they are.

        Raises ValueError if there is no such stream, or one has no rows.
        """
        keys = {name: name for name in self} if keys is None else keys
        if unknown := [name for name in keys if name not in self]:
            raise ValueError(f"keys: expected streams of {', '.join(self)}, found {unknown[0]!r}")
        for name in keys:
            if any(not np.isfinite(array).all() for array in self[name].values()):
                raise ValueError(
                    f"{name!r}: expected statistics of rows, found none of some channel"
                )
        return {key: self[name] for name, key in keys.items()}

    def save_norm_stats(
        self, folder: str | os.PathLike[str], keys: Mapping[str, str] | None = None
    ) -> Path:
        """Writes `norm_stats.json` as openpi reads it. Returns its path.

        Args:
            folder: an existing folder.
            keys: by stream its key: openpi's are `state` and `actions`.
        """
        found = {
            key: {name: of[name].tolist() for name in _OF_OPENPI}
            for key, of in self.named(keys).items()
        }
        path = Path(folder) / "norm_stats.json"
        path.write_text(json.dumps({"norm_stats": found}, indent=2) + "\n", encoding="utf-8")
        return path

    def save_stats(
        self, folder: str | os.PathLike[str], keys: Mapping[str, str] | None = None
    ) -> Path:
        """Writes `stats.json` as LeRobot has it in `meta/`. Returns its path.

        Args:
            folder: an existing folder.
            keys: by stream its key, such as `{"state": "observation.state"}`.
        """
        found = {
            key: {
                name: array[:1].tolist() if name == "count" else array.tolist()
                for name, array in of.items()
            }
            for key, of in self.named(keys).items()
        }
        path = Path(folder) / "stats.json"
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        return path


def _plain(array: np.ndarray) -> Any:
    if np.isfinite(array).all():
        return array.tolist()
    flat = [float(each) if np.isfinite(each) else None for each in array.reshape(-1)]
    return np.array(flat, object).reshape(array.shape).tolist()


def of_windows(
    cache: Any,
    config: Any,
    sampler: Any,
    streams: Sequence[str] | None,
    per_step: bool,
    padded: bool,
) -> Statistics:
    """The statistics of windows at all items of a sampler: `EpisodeCache.window_statistics` has the arguments."""
    plan = cache.plan(config)
    known = {stream.name: stream for stream in plan.streams if cache.streams[stream.name]["vector"]}
    names = list(known) if streams is None else list(streams)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"streams: expected vectors of these windows, {', '.join(known)}, found {unknown[0]!r}"
        )
    steps = {name: len(known[name].offsets_ns) if per_step else 1 for name in names}
    rows = {name: [Rows() for _ in range(steps[name])] for name in names}
    for take in (Rows.measure, Rows.count):
        for begin in range(0, sampler.items, _BATCH):
            places = np.arange(begin, min(begin + _BATCH, sampler.items))
            episodes, instants, epochs = sampler.at(0, places)
            windows = cache.windows(episodes, instants, plan, epochs=epochs)
            for name, of_stream in rows.items():
                values, valid = host(windows[name].float32()), host(windows[name].valid)
                use = np.ones_like(valid) if padded else valid
                for step, of_step in enumerate(of_stream):
                    own = (slice(None), step) if per_step else slice(None)
                    if use[own].any():
                        take(of_step, values[own][use[own]])
    found = Statistics()
    for name, of_stream in rows.items():
        if lacking := [step for step, of in enumerate(of_stream) if of.is_empty]:
            raise ValueError(
                f"{name!r}: expected a valid value at each step, found none at step {lacking[0]}"
            )
        parts = [of.result() for of in of_stream]
        found[name] = {
            key: np.stack([part[key] for part in parts]) if per_step else parts[0][key]
            for key in parts[0]
        }
    return found


def host(values: Any) -> np.ndarray:
    """Values of NumPy or torch in host memory."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
