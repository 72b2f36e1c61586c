"""Which windows a batch has: an order that is a pure function of (seed, epoch), in any process.

    sampler = WindowSampler.of(cache, period_ns=10_000_000, batch_size=64, seed=1)
    episodes, instants_ns = sampler.batch(epoch=0, number=17)     # no batch before it is needed

The order is a keyed permutation of all items, so that the state of a run is an epoch and a number.
"""

import numpy as np

__all__ = ["WindowSampler"]

_ROUNDS = 6
#: Items whose order is computed at once: alone, a batch of 64 takes as long as 1,000 items.
_BLOCK = 4096
_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


class WindowSampler:
    """Batches of (episode, instant). An item is an instant of an episode: `first_ns`, and every `period_ns` up to `last_ns`.

    Without weights, each item comes once in an epoch. With weights, an epoch has as many items, and each is drawn by
    itself: the episode by its weight, then one of its items.

    Rank r of `world` has every `world`-th batch, from batch r on. So ranks never share an item, and together they have all.

    Args:
        ranges: `[episodes, 2]`: the first and the last instant of each [ns]. An episode whose last is before its first has
            no item.
        period_ns: from one instant to the next [ns].
        batch_size: items of a batch.
        seed: of the order.
        weights: per episode, not negative; None for the same chance of every item.
        rank, world: this process among all.
        drop_last: whether the items that make no whole round of batches of all ranks are left out. Then all ranks have
            equally many batches, which DDP needs.
        batches: how many batches an epoch of this rank has, at most as many as there are; None for all. If ranks hold
            different episodes, all give the least of their lengths here, because DDP needs equally many.
        shuffle: if False, items are in their order. Not with weights.
    """

    def __init__(
        self,
        ranges,
        *,
        period_ns,
        batch_size,
        seed=0,
        weights=None,
        rank=0,
        world=1,
        drop_last=True,
        shuffle=True,
        batches=None,
    ):
        ranges = np.asarray(ranges, np.int64).reshape(-1, 2)
        if period_ns < 1 or batch_size < 1:
            raise ValueError(
                f"expected a period and a batch of at least 1, found {period_ns} and {batch_size}"
            )
        if not 0 <= rank < world:
            raise ValueError(f"rank: expected 0 to {world - 1}, found {rank}")
        if weights is not None and not shuffle:
            raise ValueError("weights: expected None without shuffle")
        self.first_ns, self.period_ns = ranges[:, 0].copy(), int(period_ns)
        counts = np.maximum(0, (ranges[:, 1] - ranges[:, 0]) // self.period_ns + 1)
        self._ends = np.cumsum(counts)
        self.items = int(self._ends[-1]) if len(counts) else 0
        if not self.items:
            raise ValueError("ranges: expected an instant or more, found none")
        self.batch_size, self.seed = int(batch_size), int(seed)
        self.rank, self.world = int(rank), int(world)
        self.drop_last, self.shuffle = bool(drop_last), bool(shuffle)
        self._counts, self._chances = counts, None
        # The newest block of batches: what it is, its episodes and its instants.
        self._held = None
        self._batches = None
        if batches is not None:
            if not 1 <= batches <= len(self):
                raise ValueError(f"batches: expected 1 to {len(self)}, found {batches}")
            self._batches = int(batches)
        if weights is not None:
            weights = np.asarray(weights, np.float64)
            if (
                weights.shape != counts.shape
                or not np.isfinite(weights).all()
                or (weights < 0).any()
            ):
                raise ValueError(f"weights: expected {len(counts)} numbers that are not negative")
            weights = np.where(counts > 0, weights, 0)
            if not weights.sum() > 0:
                raise ValueError("weights: expected more than 0 for an episode with instants")
            self._chances = np.cumsum(weights) / weights.sum()
            # Rounding must not leave a chance behind the last episode that has one.
            self._chances[np.flatnonzero(weights)[-1] :] = 1.0

    @classmethod
    def of(cls, cache, *, period_ns, margin_ns=(0, 0), grid=True, **options):
        """A sampler over the instants of a cache, each episode's latest epoch of the clock. If the cache was loaded with
        `episodes=(rank, world)`, all its items are this rank's, in an order of its own; `rank` and `world` are not given.

        Args:
            cache: an EpisodeCache.
            period_ns: from one instant to the next [ns].
            margin_ns: how long after the first row an episode's instants begin, and how long before the last row they end
                [ns]: as long as histories and horizons are.
            grid: whether instants are at multiples of the period, as ticks are.
            options: those of the class.
        """
        if cache.share is not None:
            if "rank" in options or "world" in options:
                raise ValueError("rank: expected none for a cache that is a share already")
            rank, world = cache.share
            options["seed"] = options.get("seed", 0) * world + rank
        spans = np.array(
            [episode["spans"][-1][1:] for episode in cache.episodes], np.int64
        ).reshape(-1, 2)
        ranges = spans + np.array([margin_ns[0], -margin_ns[1]], np.int64)
        empty = (spans == 0).all(axis=1) | (ranges[:, 1] < ranges[:, 0])
        if grid:
            ranges[:, 0] = -(-ranges[:, 0] // period_ns) * period_ns
        ranges[empty | (ranges[:, 1] < ranges[:, 0])] = [period_ns, 0]
        return cls(ranges, period_ns=period_ns, **options)

    def described(self):
        """All that the order of batches follows from, but for the rank: two samplers with the same text have the same order."""
        numbers = [self.first_ns, self._counts, self._chances]
        texts = ["" if each is None else each.tobytes().hex() for each in numbers]
        return f"{self.period_ns} {self.batch_size} {self.seed} {self.world} {self.drop_last} {self.shuffle} {self._batches} {texts}"

    def __len__(self):
        """The batches of this rank in an epoch."""
        if self._batches is not None:
            return self._batches
        whole = self.items // (self.batch_size * self.world)
        if self.drop_last:
            return whole
        rest = self.items - whole * self.batch_size * self.world
        return whole + (rest > self.rank * self.batch_size)

    def batch(self, epoch, number):
        """The items of a batch of this rank: `(episodes, instants_ns)`, int64.

        Raises:
            IndexError: there is no batch of this number.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"batch: expected 0 to {len(self) - 1}, found {number}")
        per_block = max(1, _BLOCK // self.batch_size)
        block, within = divmod(number, per_block)
        held, asked = self._held, (epoch, block, self.seed, self.rank, self.world, self.batch_size)
        if held is None or held[0] != asked:
            held = asked, *self._block(epoch, block * per_block, per_block)
            self._held = held  # at once: another thread may read it
        begin, end = within * self.batch_size, (within + 1) * self.batch_size
        return held[1][begin:end].copy(), held[2][begin:end].copy()

    def _block(self, epoch, first, count):
        """The items of `count` batches of this rank from `first` on, of those that there are."""
        batches = np.arange(first, min(first + count, len(self)), dtype=np.uint64)
        begins = (batches * np.uint64(self.world) + np.uint64(self.rank)) * np.uint64(
            self.batch_size
        )
        positions = (begins[:, None] + np.arange(self.batch_size, dtype=np.uint64)).reshape(-1)
        # Only the last batch may have fewer.
        return self.at(epoch, positions[positions < self.items])

    def at(self, epoch, positions):
        """The items at positions of an epoch's order, whatever the rank: `(episodes, instants_ns)`."""
        positions = np.asarray(positions, np.uint64)
        keys = _keys(self.seed, epoch)
        if self._chances is not None:
            draw = _mix(positions ^ keys[0])
            # 53 bits are exact in a float.
            share = (draw >> np.uint64(11)).astype(np.float64) * 2.0**-53
            episodes = np.searchsorted(self._chances, share, side="right")
            within = _mix(draw ^ keys[1]) % self._counts[episodes].astype(np.uint64)
        else:
            items = _permuted(positions, self.items, keys) if self.shuffle else positions
            episodes = np.searchsorted(self._ends, items.astype(np.int64), side="right")
            within = items.astype(np.int64) - (self._ends - self._counts)[episodes]
        instants = self.first_ns[episodes] + within.astype(np.int64) * self.period_ns
        return episodes.astype(np.int64), instants


def _mix(x):
    """A hash of 64 bits (the finaliser of splitmix64, Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _keys(seed, epoch):
    """Keys of the rounds, of a seed and an epoch."""
    words = np.array([seed & int(_MASK), epoch & int(_MASK)], np.uint64)
    with np.errstate(over="ignore"):
        start = _mix(_mix(words[0] + np.uint64(0x9E3779B97F4A7C15)) ^ words[1])
        return _mix(
            start + np.arange(1, _ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        )


def _permuted(positions, count, keys):
    """Where a permutation of `0..count` takes positions: a Feistel network over the next power of four, walked along its
    cycle until it is back in the range."""
    half = np.uint64(max(1, ((count - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    out = np.array(positions, np.uint64, ndmin=1)
    beyond = np.ones(out.shape, bool)
    while beyond.any():
        left, right = out[beyond] >> half, out[beyond] & low
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & low)
        out[beyond] = (left << half) | right
        beyond = out >= np.uint64(count)
    return out
