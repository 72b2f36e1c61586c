"""A warning for windows that are mostly invalid: their instants or ages do not fit the data."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .windows import Windows

#: Fewer windows say little.
LEAST_WINDOWS = 16
_FEW = 0.5


def look_at(windows: Windows, episodes: Any, cache: Any) -> None:
    """Warns, once for each plan, if most steps of a stream are invalid. Steps beyond their episode do not count. Of the
    workers of a DataLoader the first one warns.

    It adds up batches until they have `LEAST_WINDOWS`. If a GPU has made the windows, their `valid` is copied to the host.

    Args:
        windows: a batch.
        episodes: their numbers.
        cache: their `EpisodeCache`.
    """
    plan = windows.plan
    if plan.looked_at or _is_another_worker():
        return
    count, seen = plan.seen
    bounds = _bounds(_on_host(episodes).reshape(-1), cache)
    for name in windows:
        valid, target_ns = (
            _on_host(each) for each in (windows[name].valid, windows[name].target_ns)
        )
        inside = (bounds[:, :1] <= target_ns) & (target_ns <= bounds[:, 1:])
        of_stream = seen.setdefault(name, [0, 0])
        of_stream[0] += int((valid & inside).sum())
        of_stream[1] += int(inside.sum())
    count += windows.batch_size
    plan.seen = count, seen
    if count < LEAST_WINDOWS:
        return
    plan.looked_at = True
    shares = {name: valid / steps if steps else 1.0 for name, (valid, steps) in seen.items()}
    few = [name for name, share in shares.items() if share < _FEW]
    if not few:
        return
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    rate = (
        ""
        if cache.period_ns is None
        else f" The data has a frame or a tick each {cache.period_ns} ns."
    )
    warnings.warn(
        f"valid steps inside the episodes: {told}. Invalid steps hold their fill: read `valid` or `is_pad`.{rate} "
        f"If {few[0]!r} should be valid, check period_ns, margin_ns and valid_only of the sampler, its max_age_ms and "
        "max_gap_ms, and of bags its stamps (robocache inspect)",
        RuntimeWarning,
        stacklevel=3,
    )


def _is_another_worker() -> bool:
    """True in every worker of a DataLoader but the first, so that one process warns."""
    loading: Any = sys.modules.get("torch.utils.data")
    worker = None if loading is None else loading.get_worker_info()
    return worker is not None and worker.id > 0


def _bounds(episodes: np.ndarray, cache: Any) -> np.ndarray:
    """`[windows, 2]`: the first and the last instant of the episodes of windows [ns]; none of an unknown episode."""
    of_all = []
    for episode in cache.episodes:
        spans = [span for span in episode["spans"] if span[1] <= span[2]]
        begin, end = (
            min((span[1] for span in spans), default=1),
            max((span[2] for span in spans), default=0),
        )
        of_all.append((begin, end))
    known = np.array([*of_all, (1, 0)], np.int64)
    return known[np.where((episodes >= 0) & (episodes < len(of_all)), episodes, len(of_all))]


def _on_host(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray | list | tuple | range):
        return np.asarray(values)
    import torch

    return torch.as_tensor(values).cpu().numpy()
