"""The instants of a LeRobot dataset's frames.

LeRobot rounds seconds to float32, which at an hour is off by 0.1 ms. If the timestamps of an episode are those of
evenly spaced frames, the number of a frame tells its instant instead.
"""

from fractions import Fraction

import numpy as np

#: The column of our own datasets with the true instants of frames.
STAMPS = "stamp_ns"
#: How far the median time between frames may be from a period, as a part of it.
_OFF = 0.02


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


def other_spacing_ns(stamp_ns, fps):
    """The median time between frames [ns], if it contradicts the frames per second; None otherwise."""
    period = period_ns(fps)
    found = np.median(np.diff(stamp_ns)) if len(stamp_ns) > 1 else period
    return float(found) if abs(found - period) > _OFF * period else None


def told_of_spacing(spacings_ns, fps):
    """The sentence for episodes whose frames have other spacings than `fps` says, as of `other_spacing_ns`."""
    return (
        f"frames are {np.median(spacings_ns) / 1e6:.4g} ms apart (median of their stamps), and fps {fps:g} of meta/info.json "
        f"says {period_ns(fps) / 1e6:.4g} ms: rows keep their stamps, but ticks and steps of windows have the period of fps. "
        "If the stamps are right, correct fps and import again"
    )


def rounded_ns(seconds):
    """Timestamps as nanoseconds."""
    return np.rint(seconds * 1e9).astype(np.int64)


def _rate(fps):
    return Fraction(fps).limit_denominator(10**6)
