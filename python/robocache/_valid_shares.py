"""A warning for windows that are mostly invalid: their instants or ages do not fit the data."""

from __future__ import annotations

import warnings

from .windows import Windows

#: Fewer windows say little.
LEAST_WINDOWS = 16
_FEW = 0.5


def look_at(windows: Windows, period_ns: int | None) -> None:
    """Warns, once for each plan, if a stream is invalid at the instants of most windows.

    Args:
        windows: a batch.
        period_ns: of the cache.
    """
    plan = windows.plan
    if plan.looked_at or windows.batch_size < LEAST_WINDOWS:
        return
    plan.looked_at = True
    shares = windows.valid_shares()
    few = [name for name, share in shares.items() if share < _FEW]
    if not few:
        return
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    rate = "" if period_ns is None else f" The data has a frame or a tick each {period_ns} ns."
    warnings.warn(
        f"valid at the instants of this batch: {told}. Invalid steps hold their fill: read `valid` or `is_pad`.{rate} "
        f"If {few[0]!r} should be valid, check period_ns, margin_ns and valid_only of the sampler, and its max_age_ms",
        RuntimeWarning,
        stacklevel=3,
    )
