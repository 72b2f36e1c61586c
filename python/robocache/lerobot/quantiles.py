"""Exact quantiles of the columns of a dataset, however large it is.

A pass over the rows counts 11 bits of each value, as a radix sort does: float32 needs three passes, int64 six. So memory holds
a block of rows, and 2,048 counts for each rank that a quantile needs. The result is that of `numpy.quantile`.
"""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Bits that a pass counts.
_DIGIT = 11
#: Channels that are counted at once: they need at most 84 MB, unless a column has more.
_CHANNELS = 512
#: Values that are read at once.
_VALUES = 1 << 22


def of_table(paths, features, valid, shares):
    """Quantiles [share, channel] of columns of numbers, by key; the last axis of a column has its channels. If no row of a
    column is valid, they are of all its rows.

    Args:
        paths: of Parquet files with the same columns.
        features: a dict by key of the columns: each has a shape.
        valid: a dict by key of the names of columns that say which rows count.
        shares: numbers from 0 to 1.
    """
    found = {}
    for keys in _groups(features):
        of_keys = {key: features[key]["shape"] for key in keys}
        found |= quantiles(_Blocks(paths, of_keys, valid), shares)
        if none := [key for key in keys if key not in found]:
            of_none = {key: features[key]["shape"] for key in none}
            found |= quantiles(_Blocks(paths, of_none, {}), shares)
    return found


def of_counts(counts, shares):
    """Quantiles [share] of the whole numbers from 0 on; 0 if there is none. `counts` has how often each number occurs."""
    if not counts.any():
        return np.zeros(len(shares))
    rows, upto = int(counts.sum()), np.cumsum(counts)
    found = []
    for share in shares:
        place = share * (rows - 1)
        pair = np.searchsorted(upto, _around(place, rows), side="right")
        found.append(np.quantile(pair.astype(np.float64), place - int(place)))
    return np.array(found)


def quantiles(blocks, shares):
    """Quantiles [share, channel] by key: those of `numpy.quantile` in float64. A key without a row is left out.

    Args:
        blocks: a function of a set of keys, or of None for all. It yields dicts by key of values [row, channel], each time
            the same.
        shares: numbers from 0 to 1.
    """
    rows, example = {}, {}
    for block in blocks(None):
        for key, values in block.items():
            rows[key] = rows.get(key, 0) + len(values)
            example[key] = values[:0]
    columns = {key: _Ranks(example[key], count, shares) for key, count in rows.items() if count}
    while open_keys := {key for key, column in columns.items() if column.bits}:
        for key in open_keys:
            columns[key].begin()
        for block in blocks(open_keys):
            for key in open_keys:
                columns[key].count(block[key])
        for key in open_keys:
            columns[key].end()
    return {key: column.result() for key, column in columns.items()}


class _Ranks:
    """The values of some ranks in each channel of a column. Each pass finds more of their bits.

    Attributes:
        bits: how many are not known yet.
    """

    def __init__(self, example, rows, shares):
        self._dtype, self._channels = example.dtype, range(example.shape[1])
        self._rows, self._places = rows, [share * (rows - 1) for share in shares]
        self._ranks = sorted({rank for place in self._places for rank in _around(place, rows)})
        self.bits = 8 * self._dtype.itemsize
        # By channel and rank: the bits that are known, and the rank among the values that begin so.
        self._known = [[(0, rank) for rank in self._ranks] for _ in self._channels]

    def begin(self):
        """Begins a pass."""
        self._digit = min(_DIGIT, self.bits)
        self._counts = [
            {prefix: np.zeros(1 << self._digit, np.int64) for prefix, _ in known}
            for known in self._known
        ]

    def count(self, block):
        """Takes values [row, channel]."""
        shift, is_first = self.bits - self._digit, self.bits == 8 * self._dtype.itemsize
        for channel in self._channels:
            keys = _keys(block[:, channel])
            for prefix, counts in self._counts[channel].items():
                mine = keys if is_first else keys[keys >> self.bits == prefix]
                digits = (mine >> shift) & ((1 << self._digit) - 1)
                counts += np.bincount(digits.astype(np.int64), minlength=len(counts))

    def end(self):
        """Ends the pass, when it has all values."""
        for channel in self._channels:
            self._known[channel] = [self._next(channel, *known) for known in self._known[channel]]
        self.bits -= self._digit

    def result(self):
        """The quantiles [share, channel]."""
        keys = [[prefix for prefix, _ in known] for known in self._known]
        keys = np.array(keys, f"u{self._dtype.itemsize}")
        values = _values(keys, self._dtype).astype(np.float64)
        by_rank = dict(zip(self._ranks, values.T, strict=True))
        # As `numpy.quantile` interpolates between two ranks.
        return np.stack(
            [
                np.quantile(
                    [by_rank[rank] for rank in _around(place, self._rows)], place % 1, axis=0
                )
                for place in self._places
            ]
        )

    def _next(self, channel, prefix, rank):
        counts = self._counts[channel][prefix]
        upto = np.cumsum(counts)
        at = int(np.searchsorted(upto, rank, side="right"))
        return (prefix << self._digit) | at, rank - int(upto[at] - counts[at])


class _Blocks:
    """Blocks of columns of Parquet files, for `quantiles`. A block has the valid rows of each column."""

    def __init__(self, paths, shapes, valid):
        self._paths, self._shapes, self._valid = paths, shapes, valid
        self._rows = max(1, _VALUES // sum(math.prod(shape) for shape in shapes.values()))

    def __call__(self, keys):
        keys = list(self._shapes) if keys is None else sorted(keys)
        read = list(dict.fromkeys([*keys, *(name for key in keys for name in self._valid_of(key))]))
        for path in self._paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(self._rows, columns=read):
                    yield {key: self._values(batch, key) for key in keys}

    def _values(self, batch, key):
        use = np.ones(batch.num_rows, bool)
        for name in self._valid_of(key):
            use &= _numbers(batch[name])
        channels = self._shapes[key][-1]
        rows = _numbers(batch[key]).reshape(batch.num_rows, -1, channels)
        return rows[use].reshape(-1, channels)

    def _valid_of(self, key):
        return self._valid.get(key, ())


def _groups(features):
    """The keys of columns, in groups that are counted at once."""
    group, channels = [], 0
    for key, feature in features.items():
        if group and channels + feature["shape"][-1] > _CHANNELS:
            yield group
            group, channels = [], 0
        group.append(key)
        channels += feature["shape"][-1]
    if group:
        yield group


def _around(place, rows):
    """The two ranks around a place between 0 and `rows - 1`."""
    return int(place), min(int(place) + 1, rows - 1)


def _keys(values):
    """Unsigned numbers of the same size that have the order of the values."""
    dtype = values.dtype
    bits = np.ascontiguousarray(values).view(f"u{dtype.itemsize}")
    top = bits.dtype.type(1 << (8 * dtype.itemsize - 1))
    if dtype.kind in "ub":
        return bits
    if dtype.kind == "i":
        return bits ^ top
    # Of negative floats, more bits are less.
    return np.where(bits & top, ~bits, bits | top)


def _values(keys, dtype):
    """The values that have these keys."""
    top = keys.dtype.type(1 << (8 * dtype.itemsize - 1))
    if dtype.kind in "ub":
        return keys.view(dtype)
    if dtype.kind == "i":
        return (keys ^ top).view(dtype)
    return np.where(keys & top, keys ^ top, ~keys).view(dtype)


def _numbers(column):
    """The numbers of a column of Arrow, those of lists one after the other."""
    values = getattr(column, "storage", column)
    while pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False)
