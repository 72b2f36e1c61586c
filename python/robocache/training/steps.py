"""The targets of the steps of a window: `history`, `horizon` and `lag_ms` as whole nanoseconds."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from typing import Any

from ..datasets.frame_stamps import period_ns as period_of_rate

#: What `history` and `horizon` may have.
_KEYS = ("steps", "step_ms", "rate_hz")
#: A step so close to a frame is likely meant to be one.
_CLOSE = 0.02


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    """True for numbers of Python and NumPy, but not for true and false."""
    return isinstance(value, kind) and not isinstance(value, bool)


def nanoseconds(ms: float, what: str) -> int:
    """Whole nanoseconds of milliseconds, rounded: 1000 / 30 ms are 33,333,333 ns."""
    if not _is_number(ms):
        raise TypeError(f"{what}: expected a number of milliseconds, found {ms!r}")
    if not abs(ms) < 1e12:
        raise ValueError(f"{what}: expected milliseconds, found {ms}")
    return round(float(ms) * 1e6)


def on_grid(ns: int, period_ns: int | None) -> int:
    """A time that is whole frames but for the rounding of `period_ns`, as these frames: 500 ms of 30 Hz are 15 frames of
    33,333,333 ns, 5 ns less. Others stay as they are."""
    if not period_ns:
        return ns
    frames = round(ns / period_ns)
    # The period is off by half a nanosecond at most, and so is the time.
    return frames * period_ns if 2 * abs(ns - frames * period_ns) <= abs(frames) + 1 else ns


def offsets_of(
    config: Mapping[str, Any],
    name: str,
    lag_ns: int,
    period_ns: int | None,
    frames_ns: int | None = None,
) -> list[int]:
    """The targets minus the instant of `history` and `horizon` [ns], the oldest first. Both count the present step.

    Args:
        config: what is asked of a stream.
        name: of the stream, for errors.
        lag_ns: of the present step, if `config` has no `lag_ms`.
        period_ns: a step that says no other length, as of `EpisodeCache.period_ns`; None if unknown.
        frames_ns: the same if rows are at frames, so that steps must be, too; None for rows at any instants.
    """
    back, back_ns = _steps(config, "history", name, period_ns)
    ahead, ahead_ns = _steps(config, "horizon", name, period_ns)
    if "lag_ms" in config:
        lag_ns = nanoseconds(config["lag_ms"], f"lag_ms of '{name}'")
    back_ns, ahead_ns, lag_ns = (on_grid(ns, frames_ns) for ns in (back_ns, ahead_ns, lag_ns))
    past = [-(back - 1 - at) * back_ns - lag_ns for at in range(back)]
    return past + [at * ahead_ns - lag_ns for at in range(1, ahead)]


def _steps(
    config: Mapping[str, Any], key: str, name: str, period_ns: int | None
) -> tuple[int, int]:
    """How many steps there are, and how long each is [ns]."""
    part = config.get(key, {"steps": 1})
    what = f"{key} of '{name}'"
    is_dict = isinstance(part, Mapping)
    count: Any = part.get("steps") if is_dict else None
    if (
        not is_dict
        or set(part) - set(_KEYS)
        or not _is_number(count, numbers.Integral)
        or count < 1
        or {"step_ms", "rate_hz"} <= set(part)
    ):
        raise ValueError(
            f"{what}: expected steps (at least 1) and, if a step is no frame, step_ms or rate_hz, found {part}"
        )
    if "rate_hz" in part:
        rate = part["rate_hz"]
        if not _is_number(rate) or not 0 < rate <= 1e9:
            raise ValueError(f"rate_hz in {what}: expected more than 0 Hz, found {rate!r}")
        return count, int(period_of_rate(float(rate)))
    if "step_ms" not in part:
        if count == 1:
            return 1, 0
        if period_ns is None:
            raise ValueError(
                f"{what}: expected step_ms or rate_hz, because this cache has no rate of its own, found {part}"
            )
        return count, period_ns
    step_ns = nanoseconds(part["step_ms"], f"step_ms in {what}")
    if step_ns <= 0 and count > 1:
        raise ValueError(f"step_ms in {what}: expected more than 0 ms, found {part['step_ms']}")
    if period_ns is not None and 0 < abs(step_ns - period_ns) <= _CLOSE * period_ns:
        warnings.warn(
            f"{what}: step_ms {part['step_ms']:g} is {step_ns} ns, and a frame is {period_ns} ns: the last of {count} "
            f'steps is {abs(step_ns - period_ns) * (count - 1) / 1e6:.3g} ms off its frame. {{"steps": {count}}} is one '
            "frame each",
            UserWarning,
            stacklevel=2,
        )
    return count, step_ns
