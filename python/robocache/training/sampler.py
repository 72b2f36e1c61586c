"""Which windows a batch has: an order that is a pure function of (seed, epoch), in any process.

    sampler = WindowSampler.of(cache, batch_size=64, seed=1)
    episodes, instants_ns, epochs = sampler.batch(epoch=0, number=17)     # no batch before it is needed
    windows = cache.windows(episodes, instants_ns, epochs=epochs)

The order is a keyed permutation of all items, so that the state of a run is an epoch and a number.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..datasets.asked_episodes import integers, numbers_of
from . import ranks
from .selection import kept

if TYPE_CHECKING:
    from .cache import EpisodeCache
    from .device_sampler import DeviceSampler

__all__ = ["WindowSampler"]

#: Episodes, instants [ns], and epochs of the clock or None.
Items = tuple[np.ndarray, np.ndarray, np.ndarray | None]
#: The numbers of items, and then what they are.
Numbered = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]

_ROUNDS = 6
#: Items whose order is computed at once: alone, a batch of 64 takes as long as 1,000 items.
_BLOCK = 4096
_MASK = np.uint64(0xFFFFFFFFFFFFFFFF)
_BELOW_ONE = float(np.nextafter(1.0, 0.0))


class Spans(NamedTuple):
    """The ranges of a sampler: for each the number of its episode, its first instant [ns], how many instants it has, and the
    epoch of the clock, or None."""

    episodes: np.ndarray
    first_ns: np.ndarray
    counts: np.ndarray
    epochs: np.ndarray | None


class WindowSampler:
    """Batches of (episode, instant, clock's epoch). An item is an instant of a range: its first, and every `period_ns` up to
    its last. A range is an episode, or an epoch of the clock in it: a simulator that began again has several.

    Without weights, each item comes once in an epoch of the training. With weights, such an epoch has as many items as the
    episodes whose weight is above 0. Each of these has its share of them by its weight, spread evenly over its own
    items: each item comes floor or ceil of its share per epoch. An episode of weight 0 never comes.

    Rank r of `world` has every `world`-th batch, from batch r on. Without weights, no two ranks have the same item, and
    together they have all that `drop_last` does not leave out.

    Args:
        ranges: `[ranges, 2]`: the first and the last instant of each [ns]. A range whose last is before its first has no
            item.
        period_ns: from one instant to the next [ns].
        batch_size: items of a batch.
        episodes: per range the number of its episode, which does not decrease; by default range n is episode n.
        epochs: per range the number of the clock's epoch; None if batches need not tell it.
        seed: of the order.
        weights: per episode, not negative; None for each item once. To leave episodes out, `of` has `episodes`.
        rank, world: this process among all; by default the only one. If several processes train and neither is given, the
            first batch is an error.
        drop_last: whether the items that make no whole round of batches of all ranks are left out. Then all ranks have
            equally many batches, which DDP needs.
        batches: how many batches an epoch of this rank has, at most as many as there are; None for all. If ranks hold
            different episodes, all give the least of their lengths here, because DDP needs equally many.
        shuffle: if False, items are in their order. Not with weights.

    Raises:
        ValueError: this rank would have no batch; or an argument is not what it must be.
    """

    def __init__(
        self,
        ranges: Any,
        *,
        period_ns: int,
        batch_size: int,
        episodes: Any = None,
        epochs: Any = None,
        seed: int = 0,
        weights: Any = None,
        rank: int | None = None,
        world: int | None = None,
        drop_last: bool = True,
        shuffle: bool = True,
        batches: int | None = None,
    ) -> None:
        ranges = integers(ranges, "ranges").reshape(-1, 2)
        for name, value in (("period_ns", period_ns), ("batch_size", batch_size)):
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}: expected a whole number of at least 1, found {value!r}")
        self._is_ranked = rank is not None
        self.rank, self.world = ranks.checked(rank, world)
        if weights is not None and not shuffle:
            raise ValueError("weights: expected None without shuffle")
        self.first_ns, self.period_ns = ranges[:, 0].copy(), int(period_ns)
        self._counts = np.maximum(0, (ranges[:, 1] - ranges[:, 0]) // self.period_ns + 1)
        self._ends = np.cumsum(self._counts)
        self._episodes = np.arange(len(ranges))
        if episodes is not None:
            self._episodes = self._of_ranges(episodes, "episodes")
        if (self._episodes < 0).any() or (np.diff(self._episodes) < 0).any():
            raise ValueError("episodes: expected numbers that do not decrease, found others")
        self._epochs = None if epochs is None else self._of_ranges(epochs, "epochs")
        self._chances = None if weights is None else self._chances_of(weights)
        self.items = int(self._counts.sum())
        if self._chances is not None:
            drawn = np.diff(self._chances, prepend=0.0) > 0
            self.items = int(self._counts[drawn[self._episodes]].sum())
        if not self.items:
            raise ValueError("ranges: expected an instant or more, found none")
        self.batch_size, self.seed = int(batch_size), int(seed)
        for name, flag in (("drop_last", drop_last), ("shuffle", shuffle)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name}: expected True or False, found {flag!r}")
        self.drop_last, self.shuffle = drop_last, shuffle
        # The newest block of batches: what it is, and its items.
        self._held: tuple[Any, Numbered] | None = None
        self._batches = None
        if not len(self):
            raise ValueError(self._why_empty())
        if batches is not None:
            if not isinstance(batches, Integral) or not 1 <= batches <= len(self):
                raise ValueError(f"batches: expected 1 to {len(self)}, found {batches}")
            self._batches = int(batches)
        # The arrays do not change, and are long.
        arrays = [self.first_ns, self._counts, self._episodes, self._epochs, self._chances]
        self._digest = zlib.crc32(b"".join(b"-" if a is None else a.tobytes() for a in arrays))

    def _of_ranges(self, values: Any, name: str) -> np.ndarray:
        """A number for each range."""
        values = integers(values, name).reshape(-1)
        if len(values) != len(self._counts):
            raise ValueError(f"{name}: expected {len(self._counts)} numbers, found {len(values)}")
        return values.copy()

    def _why_empty(self) -> str:
        """What an error says of a rank without a batch."""
        if self.drop_last:
            expected = f"{self.batch_size * self.world} items or more for a batch of each rank"
            return f"batch_size: expected {expected}, found {self.items}: give a smaller one, or drop_last=False"
        expected = f"more than {self.batch_size * self.rank} items for a batch of rank {self.rank}"
        return f"batch_size: expected {expected}, found {self.items}: give a smaller one, or fewer ranks"

    def _chances_of(self, weights: Any) -> np.ndarray:
        """The chance of each episode, and of all before it."""
        of_ranges, count = self._episodes, int(self._episodes.max(initial=-1)) + 1
        try:
            weights = np.asarray(weights, np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"weights: expected {count} numbers, found {weights!r}") from None
        if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(f"weights: expected {count} numbers that are not negative")
        weights = np.where(np.bincount(of_ranges, self._counts, count) > 0, weights, 0)
        if not weights.sum() > 0:
            raise ValueError("weights: expected more than 0 for an episode with instants")
        chances = np.cumsum(weights) / weights.sum()
        # Rounding must not leave a chance behind the last episode that has one.
        chances[np.flatnonzero(weights)[-1] :] = 1.0
        return chances

    @classmethod
    def of(
        cls,
        cache: EpisodeCache,
        *,
        period_ns: int | None = None,
        margin_ns: int | tuple[int, int] = 0,
        grid: bool = True,
        episodes: Any = None,
        valid_only: Sequence[str] = (),
        keep: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> WindowSampler:
        """A sampler over the instants of a cache, of all epochs of the clock in each episode. If the cache was loaded with
        a `share`, all its items are this rank's, in an order of its own; `rank` and `world` are not given.

        Args:
            cache: an EpisodeCache.
            period_ns: from one instant to the next [ns]; by default the `period_ns` of the cache: each tick or each frame.
            margin_ns: how long after the first row an epoch's instants begin, and how long before the last row they end
                [ns]: a number, or a pair. Without it, the first histories and the last horizons go beyond the episode.
            grid: whether instants are at multiples of the period, as ticks are.
            episodes: only these, by numbers, names or a slice, as of `EpisodeCache.load`; all by default.
            valid_only: streams that must have come: instants begin at the first row of each, and end at its last.
            keep: by the name of an episode ranges `[first, end)` of its frames, counted from its first row: only instants of
                these. An episode that is not named has none.
            options: those of the class, but for `epochs`.
        """
        options = ranks.of_share(cache.share, options)
        period_ns = cache.period_ns if period_ns is None else period_ns
        if period_ns is None:
            raise ValueError(
                "period_ns: expected the time from one instant to the next, because this cache has no rate, found None"
            )
        if not isinstance(period_ns, Integral) or period_ns < 1:
            raise ValueError(
                f"period_ns: expected a whole number of at least 1, found {period_ns!r}"
            )
        before, after = _margins(margin_ns)
        numbers, of_ranges, epochs, begins, ends = _spans(cache, episodes, valid_only)
        if keep is not None:
            # Episodes that are left out stay so, also if a margin is negative.
            is_out = ends < begins
            begins = np.where(is_out, period_ns, begins + before)
            ends = np.where(is_out, 0, ends - after)
            spans = of_ranges, epochs, begins, ends
            of_ranges, epochs, begins, ends = kept(spans, cache.episodes, int(period_ns), keep)
            before = after = 0
        ranges = np.stack([begins + before, ends - after], axis=1)
        # An epoch without rows ends before it begins, also if a margin is negative.
        empty = ends < begins
        if grid:
            ranges[:, 0] = -(-ranges[:, 0] // period_ns) * period_ns
        empty |= ranges[:, 1] < ranges[:, 0]
        if valid_only and keep is None:
            _look_at_episodes(cache, valid_only, numbers, of_ranges[~empty])
        if empty.all():
            longest = (ends - begins).max(initial=0)
            raise ValueError(
                f"margin_ns: expected an epoch of {before + after} ns or more, found {longest} ns at most "
                f"in {len(numbers)} episodes"
            )
        ranges[empty] = [period_ns, 0]
        return cls(ranges, period_ns=period_ns, episodes=of_ranges, epochs=epochs, **options)

    def to(self, device: Any) -> DeviceSampler:
        """The same batches in the same order as tensors on a GPU, for example in a CUDA graph: a
        `robocache.training.device_sampler.DeviceSampler`. It needs PyTorch. A later change of this sampler does not change it."""
        from .device_sampler import DeviceSampler

        return DeviceSampler(self, device)

    def expect_rank(self) -> None:
        """Raises ValueError if several processes train, and this one did not say which it is."""
        if not self._is_ranked:
            ranks.expect_given()

    def spans(self) -> Spans:
        """Its ranges, in the order of its items."""
        return Spans(self._episodes, self.first_ns, self._counts, self._epochs)

    def described(self) -> str:
        """All that the order of the batches of all ranks follows from: two samplers with the same text have the same order,
        also if they are of other numbers of ranks. With `batches`, the number of ranks counts."""
        # The number of batches of all ranks in an epoch.
        of_all = None if self._batches is None else self._batches * self.world
        of_batches = f"{self.batch_size} {self.drop_last} {of_all}"
        return f"{self.period_ns} {self.seed} {self.shuffle} {of_batches} {self._digest:08x}"

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world}" if self.world > 1 else ""
        return (
            f"WindowSampler({self.items} items each {self.period_ns} ns, {len(self)} batches of "
            f"{self.batch_size}{rank})"
        )

    def __len__(self) -> int:
        """The batches of this rank in an epoch."""
        return self.count(0)

    def count(self, offset: int, rank: int | None = None) -> int:
        """The batches of this rank, or of another, in an epoch whose first `offset` batches are left out: see `batch`."""
        if self.drop_last:
            found = (self.items // self.batch_size - offset) // self.world
        else:
            rank = self.rank if rank is None else rank
            rest = -(-self.items // self.batch_size) - offset - rank
            found = -(-rest // self.world)
        found = max(0, found)
        return found if self._batches is None else min(found, self._batches)

    def batch(self, epoch: int, number: int, offset: int = 0) -> Items:
        """The items of a batch of this rank: `(episodes, instants_ns, epochs)`, int64: what `EpisodeCache.windows` takes.

        Args:
            epoch: that of the training, from 0 on. `epochs` of the result are those of the clock; None if the sampler has
                none.
            number: of the batch, from 0 on.
            offset: the batch of all ranks that is the first of rank 0. A run that goes on with another number of ranks begins
                between two rounds of these.

        Raises:
            IndexError: there is no such epoch, or no batch of this number.
            ValueError: several processes train, and this one did not say which it is.
        """
        _, episodes, instants, epochs = self.numbered(epoch, number, offset)
        return episodes, instants, epochs

    def numbered(self, epoch: int, number: int, offset: int = 0) -> Numbered:
        """The items of a batch, as `batch` gives them, and before these their numbers: item n is the n-th instant of all
        ranges, one after the other."""
        self.expect_rank()
        if epoch < 0:
            raise IndexError(f"epoch: expected 0 or more, found {epoch}")
        count = self.count(offset)
        if not 0 <= number < count:
            raise IndexError(f"batch: expected 0 to {count - 1}, found {number}")
        per_block = max(1, _BLOCK // self.batch_size)
        block, within = divmod(number, per_block)
        held, asked = self._held, (epoch, block, offset, self.seed, self.rank, self.world)
        if held is None or held[0] != asked:
            own_numbers = range(block * per_block, min((block + 1) * per_block, count))
            held = asked, self._block(epoch, own_numbers, offset)
            self._held = held  # at once: another thread may read it
        own = slice(within * self.batch_size, (within + 1) * self.batch_size)
        items, episodes, instants, epochs = held[1]
        return (
            items[own].copy(),
            episodes[own].copy(),
            instants[own].copy(),
            None if epochs is None else epochs[own].copy(),
        )

    def _block(self, epoch: int, numbers: range, offset: int) -> Numbered:
        """The items of batches of this rank."""
        batches = np.arange(numbers.start, numbers.stop, dtype=np.uint64)
        of_all = batches * np.uint64(self.world) + np.uint64(self.rank + offset)
        begins = of_all * np.uint64(self.batch_size)
        positions = (begins[:, None] + np.arange(self.batch_size, dtype=np.uint64)).reshape(-1)
        # Only the last batch may have fewer.
        items = self._drawn(epoch, positions[positions < self.items])
        return items, *self.located(items)

    def at(self, epoch: int, positions: Any) -> Items:
        """The items at positions of an epoch's order, whatever the rank: `(episodes, instants_ns, epochs)`."""
        return self.located(self._drawn(epoch, np.asarray(positions, np.uint64)))

    def _drawn(self, epoch: int, positions: np.ndarray) -> np.ndarray:
        """The numbers of the items at positions of an epoch's order."""
        if self._chances is None and not self.shuffle:
            return positions.astype(np.int64)
        keys = _keys(self.seed, epoch)
        drawn = _permuted(positions, self.items, keys)
        return drawn.astype(np.int64) if self._chances is None else self._weighted(drawn, keys)

    def located(self, items: np.ndarray) -> Items:
        """The items of these numbers: `(episodes, instants_ns, epochs)`."""
        ranges = np.searchsorted(self._ends, items, side="right")
        within = items - (self._ends - self._counts)[ranges]
        instants = self.first_ns[ranges] + within * self.period_ns
        return (
            self._episodes[ranges],
            instants,
            None if self._epochs is None else self._epochs[ranges],
        )

    def _weighted(self, slots: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The items of slots of an epoch. An episode has the slots between its chances; an offset of the epoch decides who
        has a slot that two share. Its items are spread evenly over its slots, from an offset on."""
        chances: Any = self._chances
        # 53 bits are exact in a float.
        offset = float(keys[0] >> np.uint64(11)) * 2.0**-53
        episodes = np.searchsorted(chances, _shares(slots, offset, self.items), side="right")
        first = _first_slots(np.concatenate([[0.0], chances]), offset, self.items)
        within = slots.astype(np.int64) - first[episodes]
        own = first[episodes + 1] - first[episodes]
        begins, ends = (
            np.concatenate([[0], self._ends])[np.searchsorted(self._episodes, episodes, side)]
            for side in ("left", "right")
        )
        counts = (ends - begins).astype(np.uint64)
        turn = _mix(episodes.astype(np.uint64) ^ keys[1]) % counts
        with np.errstate(over="ignore"):
            spread = (within.astype(np.uint64) * counts + turn) // own.astype(np.uint64)
        return begins + spread.astype(np.int64)


def _first_slots(chances: np.ndarray, offset: float, items: int) -> np.ndarray:
    """By chance the first of `items` slots whose share is not below it."""
    first = np.clip(np.floor(chances * items - offset), 0, items)
    # The estimate is off by rounding: by one slot, or by two.
    for _ in range(3):
        first += (first < items) & (_shares(first, offset, items) < chances)
    for _ in range(3):
        first -= (first > 0) & (_shares(first - 1, offset, items) >= chances)
    return first.astype(np.int64)


def _shares(slots: np.ndarray, offset: float, items: int) -> np.ndarray:
    """Where slots are between 0 and 1, which is beyond the last."""
    return np.minimum((slots.astype(np.float64) + offset) / items, _BELOW_ONE)


def _margins(margin_ns: Any) -> tuple[int, int]:
    """A margin as a pair."""
    pair = (margin_ns, margin_ns) if isinstance(margin_ns, Integral) else margin_ns
    try:
        before, after = (int(each) for each in pair)
    except (TypeError, ValueError):
        raise TypeError(
            f"margin_ns: expected nanoseconds, or a pair of them, found {margin_ns!r}"
        ) from None
    return before, after


def _spans(cache: EpisodeCache, episodes: Any, valid_only: Sequence[str]) -> tuple[Any, ...]:
    """The numbers of the episodes that are asked for; and by epoch of the clock its episode, number, first and last instant."""
    names = [episode["name"] for episode in cache.episodes]
    numbers, _ = numbers_of(lambda: names, episodes=episodes)
    chosen = set(range(len(names)) if numbers is None else numbers)
    if wrong := [number for number in chosen if number >= len(names)]:
        raise ValueError(f"episodes: expected numbers from 0 to {len(names) - 1}, found {wrong[0]}")
    if isinstance(valid_only, str):
        raise TypeError(f"valid_only: expected a list of streams, found the text {valid_only!r}")
    bounds = [cache.reach(name) for name in valid_only]
    spans = []
    for number, episode in enumerate(cache.episodes):
        for at, (epoch, begin, end) in enumerate(episode["spans"]):
            own = [of_stream[number][at] for of_stream in bounds]
            begin = max([begin, *(first for first, _ in own)])
            end = min([end, *(last for _, last in own)])
            # An episode that is left out keeps its number, for weights.
            spans.append(
                (number, epoch, begin, end) if number in chosen else (number, epoch, 0, -1)
            )
    return np.array(sorted(chosen)), *np.array(spans, np.int64).reshape(-1, 4).T


def _look_at_episodes(
    cache: EpisodeCache, valid_only: Sequence[str], asked: np.ndarray, found: np.ndarray
) -> None:
    """Warns of episodes that are not found to have an instant; raises ValueError if none has one."""
    lacking = np.setdiff1d(asked, found)
    if not len(lacking):
        return
    name = cache.episodes[int(lacking[0])]["name"]
    told = (
        f"valid_only: {len(lacking)} of {len(asked)} episodes have no instant between the first and the last row of "
        f"{', '.join(valid_only)} that period_ns and margin_ns allow. The first is {name!r}"
    )
    if len(lacking) == len(asked):
        raise ValueError(told)
    warnings.warn(told, RuntimeWarning, stacklevel=3)


def _mix(x: Any) -> Any:
    """A hash of 64 bits (the finaliser of splitmix64, Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _keys(seed: int, epoch: int) -> np.ndarray:
    """Keys of the rounds, of a seed and an epoch."""
    words = np.array([seed & int(_MASK), epoch & int(_MASK)], np.uint64)
    with np.errstate(over="ignore"):
        start = _mix(_mix(words[0] + np.uint64(0x9E3779B97F4A7C15)) ^ words[1])
        return _mix(
            start + np.arange(1, _ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        )


def permuted(positions: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Where the permutation of `0..count` of a seed takes positions."""
    return _permuted(positions, count, _keys(seed, 0)).astype(np.int64)


def _permuted(positions: np.ndarray, count: int, keys: np.ndarray) -> np.ndarray:
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
