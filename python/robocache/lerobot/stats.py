"""Statistics of the columns of a LeRobot dataset. Policies normalise by them.

Those of an episode are defined as LeRobot defines them. Sums are in float64, because LeRobot's float32 sums over many pixels
lose digits. The quantiles of a dataset are those of all its values (`quantiles`), not of its episodes.
"""

import numpy as np

from ..training.running import QUANTILES, Rows, edges_of, quantile

__all__ = ["NAMES", "QUANTILES", "Pixels", "Rows", "Total"]

#: What a column has, in the order of the files.
NAMES = ("min", "max", "mean", "std", "count", *QUANTILES)
#: An image larger than this is thinned out until its longer side has about `_TARGET` pixels.
_LARGE, _TARGET = 300, 150


class Pixels:
    """Statistics of an episode's images [height, width, 3], each channel in 0..1. Some frames are enough.

    Attributes:
        counts: how many pixels have each of the values 0..255 [channel, value]. None are counted if no frame is valid.
    """

    def __init__(self, valid):
        """`valid` says of each frame whether its image counts. If none does, all do, and `count` is 0."""
        self._is_valid = bool(valid.any())
        frames = np.flatnonzero(valid) if self._is_valid else np.arange(len(valid))
        self._wanted = set(frames[_sampled(len(frames))].tolist())
        self._taken = 0
        self._counts = np.zeros((3, 256), np.int64)

    @classmethod
    def of_all(cls, frames):
        """Statistics of all of some frames, which the caller has chosen."""
        made = cls(np.ones(frames, bool))
        made._wanted = set(range(frames))
        return made

    @property
    def counts(self):
        return self._counts if self._is_valid else np.zeros_like(self._counts)

    def add(self, first, images):
        """Takes the images of the frames from `first`."""
        for number, image in enumerate(images, start=first):
            if number in self._wanted:
                self._taken += 1
                for channel, counts in enumerate(self._counts):
                    seen = _thinned(image)[..., channel]
                    counts += np.bincount(seen.ravel(), minlength=256)

    def result(self):
        """The statistics by name: arrays [3, 1, 1], as LeRobot has them of an image."""
        channels = [_of_counts(counts) for counts in self._counts]
        found = {
            name: np.array([channel[name] for channel in channels]).reshape(3, 1, 1) / 255
            for name in channels[0]
        }
        return {**found, "count": np.array([self._taken if self._is_valid else 0])}


class Total:
    """Statistics of many episodes, without quantiles."""

    def __init__(self):
        self._columns = {}

    def add(self, episode):
        """Takes an episode's statistics: a dict of column to a dict of name to array."""
        for key, stats in episode.items():
            stats = {name: np.asarray(value, np.float64) for name, value in stats.items()}
            sofar = self._columns.get(key)
            self._columns[key] = stats if sofar is None else _joined(sofar, stats)

    def result(self, quantiles):
        """The statistics of all, as lists. `quantiles` has those of each column, in the order of `QUANTILES`."""
        found = {}
        for key, stats in self._columns.items():
            of_all = {**stats, **dict(zip(QUANTILES, quantiles[key], strict=True))}
            found[key] = {name: of_all[name].tolist() for name in NAMES}
            found[key]["count"] = stats["count"].astype(int).tolist()
        return found


def _sampled(frames):
    """The frames of an episode whose pixels count: all of a short one, 100 of 400 frames, 1,000 of 10,000."""
    number = max(min(100, frames), min(int(frames**0.75), 10_000))
    return np.round(np.linspace(0, frames - 1, number)).astype(int).tolist()


def _thinned(image):
    """Every n-th pixel of a large image."""
    height, width = image.shape[:2]
    if max(height, width) < _LARGE:
        return image
    step = max(height, width) // _TARGET
    return image[::step, ::step]


def _of_counts(counts):
    """The statistics of pixels, given how many have each of the values 0..255."""
    seen, number = np.flatnonzero(counts), counts.sum()
    mean = np.average(seen, weights=counts[seen])
    edges = edges_of(np.float32(seen[0]), np.float32(seen[-1]))
    histogram = np.histogram(seen.astype(np.float32), bins=edges, weights=counts[seen])[0]
    return {
        "min": seen[0],
        "max": seen[-1],
        "mean": mean,
        "std": np.sqrt(np.average((seen - mean) ** 2, weights=counts[seen])),
        **{name: quantile(histogram, edges, share * number) for name, share in QUANTILES.items()},
    }


def _joined(one, other):
    """The statistics of two parts. A part without a valid value does not count."""
    if not other["count"].all():
        return one
    if not one["count"].all():
        return other
    count = one["count"] + other["count"]
    part = other["count"] / count
    mean = one["mean"] + (other["mean"] - one["mean"]) * part
    apart = (one["mean"] - other["mean"]) ** 2 * part * (1 - part)
    variance = one["std"] ** 2 * (1 - part) + other["std"] ** 2 * part + apart
    least, most = (np.minimum, "min"), (np.maximum, "max")
    extent = {name: take(one[name], other[name]) for take, name in (least, most)}
    return {**extent, "mean": mean, "std": np.sqrt(variance), "count": count}
