"""Statistics of numbers that come block by block."""

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
#: Bins of the histogram that quantiles are read from.
_BINS = 5000


class Rows:
    """Statistics of numbers, over all axes but the last.

    The caller gives all blocks to `measure`, and then all of them to `count`.
    """

    def __init__(self):
        self._frames = self._rows = 0
        self._min = self._max = self._mean = self._squares = None
        self._edges = self._histograms = None

    @property
    def is_empty(self):
        """True before the first value."""
        return self._frames == 0

    def measure(self, block):
        """Takes the extent and the mean of values [frame, ...]."""
        if not len(block):
            return
        rows = _rows(block)
        least, most = rows.min(axis=0), rows.max(axis=0)
        mean = rows.mean(axis=0, dtype=np.float64)
        squares = np.square(rows - mean).sum(axis=0)
        if self._mean is None:
            self._min, self._max, self._mean, self._squares = least, most, mean, squares
        else:
            self._min, self._max = np.minimum(self._min, least), np.maximum(self._max, most)
            apart, rest = mean - self._mean, self._rows
            self._squares += squares + apart**2 * (rest * len(rows) / (rest + len(rows)))
            self._mean += apart * (len(rows) / (rest + len(rows)))
        self._frames += len(block)
        self._rows += len(rows)

    def count(self, block):
        """Counts the same values for the quantiles."""
        rows = _rows(block)
        if self._edges is None:
            self._edges = [edges_of(*extent) for extent in zip(self._min, self._max, strict=True)]
            self._histograms = np.zeros((len(self._edges), _BINS))
        for at, edges in enumerate(self._edges):
            self._histograms[at] += np.histogram(rows[:, at], bins=edges)[0]

    def result(self):
        """The statistics by name: arrays of one dimension."""
        found = {"min": self._min, "max": self._max, "mean": self._mean}
        found["std"] = np.sqrt(self._squares / self._rows)
        found["count"] = np.array([self._frames])
        counted = list(zip(self._histograms, self._edges, strict=True))
        for name, share in QUANTILES.items():
            found[name] = np.array([quantile(*each, share * self._rows) for each in counted])
        return found


def _rows(block):
    """Values [row, last axis]. Integers become floats as in LeRobot: small ones float32, others float64."""
    rows = block.reshape(-1, block.shape[-1] if block.ndim > 1 else 1)
    return rows.astype(np.result_type(rows.dtype, np.float32), copy=False)


def edges_of(least, most):
    """The edges of the bins. If all values are equal, the bins contain them nevertheless."""
    return np.linspace(least - 1e-10, most + 1e-10, _BINS + 1)


def quantile(histogram, edges, wanted):
    """The value below which `wanted` of the counted values are."""
    upto = np.cumsum(histogram)
    at = int(np.searchsorted(upto, wanted))
    if at == 0 or at >= len(upto):
        return edges[0 if at == 0 else -1]
    inside = (wanted - upto[at - 1]) / histogram[at]
    return edges[at] + inside * (edges[at + 1] - edges[at])
