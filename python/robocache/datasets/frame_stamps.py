"""The instants of a LeRobot dataset's frames.

LeRobot rounds seconds to float32, which at an hour is off by 0.1 ms. If the timestamps of an episode are those of
evenly spaced frames, the number of a frame tells its instant instead.
"""

from fractions import Fraction

import numpy as np

#: The column of our own datasets with the true instants of frames.
STAMPS = "stamp_ns"
#: How far the median time between frames may be from a period, and each of these times, as parts of it.
_OFF, _UNEVEN = 0.002, 0.1


def exact_ns(frames, fps):
    """The exact instants of evenly spaced frames, rounded to nanoseconds: frame number / fps."""
    rate = _rate(fps)
    whole, rest = np.divmod(frames * rate.denominator, rate.numerator)
    return whole * 10**9 + (rest * 10**9 + rate.numerator // 2) // rate.numerator


def period_ns(fps):
    """The whole nanoseconds between two ticks at this rate, as in the node: 33,333,333 at 30 Hz."""
    rate = _rate(fps)
    # Halves go up, as in the node.
    return (2 * 10**9 * rate.denominator + rate.numerator) // (2 * rate.numerator)


def is_even(seconds, frames, fps):
    """Whether each timestamp is that of its frame's number."""
    # 0.1 ms is LeRobot's own tolerance. Neighbouring float32 are further apart beyond 1,024 s.
    tolerance = np.maximum(1e-4, np.spacing(seconds.astype(np.float32)))
    return np.abs(seconds - exact_ns(frames, fps) / 1e9) <= tolerance


def at_ticks(frames, fps):
    """The instants of frames at the ticks of a node with this rate: frame k is at tick k + 1, as a stamp of zero means
    that none was set."""
    return (frames + 1) * period_ns(fps)


def other_spacing(stamp_ns, fps):
    """How the stamps of frames differ from the ticks of the frames per second, or None: a kind ("median", "uneven" or
    "grid"), and the median, the shortest and the longest time between frames [ns]."""
    if len(stamp_ns) < 2:
        return None
    between, period = np.diff(stamp_ns), period_ns(fps)
    median = float(np.median(between))
    if abs(median - period) > _OFF * period:
        kind = "median"
    elif (np.abs(between - period) > _UNEVEN * period).any():
        kind = "uneven"
    elif (np.asarray(stamp_ns) % period).any():
        kind = "grid"
    else:
        return None
    return kind, median, float(between.min()), float(between.max())


def told_of_spacings(spacings, fps):
    """By sentence a dict by the names of its episodes: of a dict by name of what `other_spacing` found."""
    told, period_ms = {}, period_ns(fps) / 1e6
    for kind, sentence in _SPACINGS.items():
        found = {name: times for name, (of, *times) in spacings.items() if of == kind}
        if not found:
            continue
        medians, shortest, longest = np.array([*found.values()]).T / 1e6
        range_ms = f"from {shortest.min():.4g} to {longest.max():.4g} ms apart"
        text = sentence.format(ms=np.median(medians), range=range_ms, fps=fps, period_ms=period_ms)
        told[text] = found
    return told


_SPACINGS = {
    "median": "frames are {ms:.4g} ms apart (median of their stamps; {range}), and fps {fps:g} of meta/info.json says "
    "{period_ms:.4g} ms: rows keep their stamps, but ticks and steps of windows have the configured rate, which is that of "
    "fps by default. If the stamps are right, correct fps and import again",
    "uneven": "frames are unevenly spaced, {range}, where fps {fps:g} says {period_ms:.4g} ms: an instant of a window may be "
    "between two frames. There, values are interpolated or held, and beyond max_gap_ms or max_age_ms they are invalid: weigh "
    "the loss by `valid`",
    "grid": "stamps of frames are not at the ticks of fps {fps:g} ({range}): at an instant, hold has the frame before, which is "
    "up to a period old, and linear is between two frames",
}


def expect_range(stamp_ns):
    """Raises ValueError if the header of a message could not hold one of these stamps."""
    seconds = np.asarray(stamp_ns, np.int64) // 10**9
    if len(seconds) and not 0 <= seconds.min() <= seconds.max() < 2**31:
        raise ValueError(
            f"expected stamps from 1970 to 2038, found {int(np.min(stamp_ns))} to {int(np.max(stamp_ns))} ns"
        )


def rounded_ns(seconds):
    """Timestamps as nanoseconds."""
    return np.rint(seconds * 1e9).astype(np.int64)


def _rate(fps):
    return Fraction(fps).limit_denominator(10**6)
