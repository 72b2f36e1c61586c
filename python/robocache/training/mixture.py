"""Several stores in one order: each batch has items of all, by their weights. It needs PyTorch."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from . import ranks
from .action_rows import with_statistics
from .batches import Batch, Batches
from .cache import EpisodeCache
from .sampler import WindowSampler, permuted

__all__ = ["MixtureDataset", "MixtureSampler", "Part"]

#: Batches after which the shares of the parts begin again.
_CYCLE = 1024
#: Tensors of a batch that are of no stream.
_OWN = ("dataset", "episode", "instant_ns", "task_index", "epoch", "number")


class Part(NamedTuple):
    """A store of a mixture.

    Attributes:
        cache: an EpisodeCache.
        sampler: a WindowSampler of all its items, of one rank.
        config: of `EpisodeCache.windows`, by the store's own names.
        streams: by the name of a tensor in the batch the stream that has its values; None: by their own names.
        weight: its share of the items among the weights of all parts.
    """

    cache: EpisodeCache
    sampler: WindowSampler
    config: Mapping[str, Any]
    streams: Mapping[str, str] | None = None
    weight: float = 1.0


class MixtureSampler:
    """Says which items of which part a batch has. Batch n follows from `(seed, n)` alone.

    Of each part, each item comes once before any comes again; then in another order. The shares of the parts in a batch are
    off by less than an item, and exact over 1,024 batches but for one.

    Args:
        samplers: of the parts, each of one rank.
        weights: of the parts.
        batch_size: items of a batch.
        batches: batches of this rank in an epoch; by default as many as give as many items as all parts have.
        seed: of the shares; the order in a part is that of its sampler.
        rank, world: as of a WindowSampler.
    """

    def __init__(
        self,
        samplers: Sequence[WindowSampler],
        weights: Sequence[float],
        *,
        batch_size: int,
        batches: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        self._is_ranked = rank is not None
        self.rank, self.world = rank, world = ranks.checked(rank, world)
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(
                f"batch_size: expected a whole number of at least 1, found {batch_size!r}"
            )
        if any(sampler.world != 1 for sampler in samplers):
            raise ValueError(
                "parts: expected samplers of one rank, because the mixture has the ranks"
            )
        shares = np.asarray(weights, np.float64)
        if not np.isfinite(shares).all() or (shares < 0).any() or not shares.sum() > 0:
            raise ValueError(
                f"weight: expected numbers that are not negative, found {list(weights)}"
            )
        self._samplers, self.items = list(samplers), sum(sampler.items for sampler in samplers)
        self.batch_size, self.seed = batch_size, int(seed)
        self._batches = max(1, self.items // (batch_size * world)) if batches is None else batches
        if not isinstance(self._batches, int) or self._batches < 1:
            raise ValueError(f"batches: expected a whole number of at least 1, found {batches!r}")
        # Where the parts of a batch end, shifted by another part of an item in each batch of the cycle.
        places = permuted(np.arange(_CYCLE), _CYCLE, self.seed)
        ends = np.cumsum(shares) / shares.sum() * batch_size
        ends = np.floor(ends + (places[:, None] + 0.5) / _CYCLE).astype(np.int64)
        # Rounding must not leave an item behind the last part that has a share.
        ends[:, np.flatnonzero(shares)[-1] :] = batch_size
        self._counts = np.diff(ends, axis=1, prepend=0)
        self._before = np.cumsum(self._counts, axis=0) - self._counts
        self._of_cycle = self._counts.sum(axis=0)
        self._shares = shares

    def expect_rank(self) -> None:
        """As of a WindowSampler."""
        if not self._is_ranked:
            ranks.expect_given()

    def __len__(self) -> int:
        """The batches of this rank in an epoch."""
        return self.count(0)

    def count(self, offset: int, rank: int | None = None) -> int:
        """The batches of this rank in an epoch whose first `offset` batches are left out; equally many for all ranks."""
        return max(0, (self.of_all - offset) // self.world)

    def batch(self, epoch: int, number: int, offset: int = 0) -> list[tuple[int, Any]]:
        """The items of a batch of this rank: by part that has some its number, and what `WindowSampler.batch` gives.

        Raises IndexError if there is no such batch, ValueError if several processes train, and this one did not say which
        it is.
        """
        self.expect_rank()
        count = self.count(offset)
        if epoch < 0 or not 0 <= number < count:
            raise IndexError(
                f"batch: expected 0 to {count - 1} of an epoch of 0 or more, found {number} of {epoch}"
            )
        of_all = (epoch * self._batches + number) * self.world + self.rank + offset
        cycle, place = divmod(of_all, _CYCLE)
        found = []
        for part, sampler in enumerate(self._samplers):
            own = int(self._counts[place, part])
            begin = cycle * int(self._of_cycle[part]) + int(self._before[place, part])
            if own:
                found.append((part, _items(sampler, begin, own)))
        return found

    @property
    def of_all(self) -> int:
        """The batches of all ranks in an epoch."""
        return self._batches * self.world

    def described(self) -> str:
        """All that the order of the batches of all ranks follows from. It goes on from epoch to epoch, so their length is not
        among it."""
        of_parts = " ".join(sampler.described() for sampler in self._samplers)
        shares = zlib.crc32(self._shares.tobytes())
        return f"{of_parts} {shares:08x} {self.seed} {self.batch_size}"


def _items(sampler: WindowSampler, begin: int, count: int) -> Any:
    """`count` items of the orders of all epochs, one after the other, from `begin` on."""
    parts = []
    while count:
        epoch, at = divmod(begin, sampler.items)
        own = min(count, sampler.items - at)
        parts.append(sampler.at(epoch, np.arange(at, at + own)))
        begin, count = begin + own, count - own
    return tuple(
        None if columns[0] is None else np.concatenate(columns)
        for columns in zip(*parts, strict=True)
    )


class MixtureDataset(Batches):
    """Batches of several stores. A batch is a dict of tensors: by name `[windows, steps, ...]`, `NAME.valid` and its opposite
    `NAME_is_pad` `[windows, steps]`; of vectors `NAME.channels` `[windows, channels]` bool, which is false where a part has fewer
    channels and the values are zeros. `dataset` `[windows]` is the number of the part, `task_index` a number in `tasks`;
    `episode`, `instant_ns`, `epoch` and `number` are as of a WindowDataset, and so are `set_epoch`, `state_after` and `resume`.
    If a run goes on with other `batches` or another number of ranks, the next batch is the same, but its epoch may have another
    number.

    Give the DataLoader `batch_size=None`. Each part is normalised by its own statistics if its `config` says `normalize`.

    Args:
        parts: by name a `Part`, or a dict of its attributes.
        transform: a function of a batch that returns one, with random numbers of the seed of the batch.
        options: of `MixtureSampler`: `batch_size`, `batches`, `seed`, `rank` and `world`. If all caches are one share, all
            items are this rank's, in an order of its own; `rank` and `world` are not given.

    Attributes:
        names: of the parts.
        tasks: the texts of the tasks of all parts, each once.

    Raises:
        ValueError: parts do not fit together.
    """

    def __init__(
        self,
        parts: Mapping[str, Part | Mapping[str, Any]],
        *,
        transform: Callable[[Batch], Batch] | None = None,
        **options: Any,
    ) -> None:
        if not parts:
            raise ValueError("parts: expected a part or more, found none")
        self.names = list(parts)
        given = [of if isinstance(of, Part) else Part(**of) for of in parts.values()]
        # All batches, and all workers, have the numbers that a file of statistics has now.
        self._parts = [of._replace(config=with_statistics(of.config)) for of in given]
        shares = {of.cache.share for of in self._parts}
        if len(shares) > 1:
            raise ValueError(
                f"parts: expected caches of the same share, or none of a share, found {sorted(map(str, shares))}"
            )
        options = ranks.of_share(shares.pop(), options)
        weights = [of.weight for of in self._parts]
        sampler = MixtureSampler([of.sampler for of in self._parts], weights, **options)
        super().__init__(sampler, sampler.seed, transform)
        devices = {of.cache.device for of in self._parts}
        if len(devices) > 1:
            raise ValueError(
                f"parts: expected caches of one device, found {sorted(map(str, devices))}"
            )
        self.tasks = list(dict.fromkeys(task for of in self._parts for task in of.cache.tasks))
        self._task_of = [
            np.array([*(self.tasks.index(task) for task in of.cache.tasks), -1])
            for of in self._parts
        ]
        self._streams = [_named(name, of) for name, of in zip(self.names, self._parts, strict=True)]
        self._shapes = self._fitting()

    def _fitting(self) -> dict[str, tuple[tuple[int, ...], torch.dtype, bool]]:
        """By name the shape of a window, its type, and whether it is a vector: of vectors the most channels of all parts."""
        found: dict[str, tuple[tuple[int, ...], torch.dtype, bool]] = {}
        for name, of, streams in zip(self.names, self._parts, self._streams, strict=True):
            # A window that no episode has: it has the shapes of all.
            empty = np.zeros(0, np.int64)
            windows = of.cache.windows(empty, empty, of.config).torch()
            for key, stream in streams.items():
                shape, dtype = tuple(windows[stream].shape[1:]), windows[stream].dtype
                is_vector = bool(of.cache.streams[stream]["vector"])
                known = found.get(key, (shape, dtype, is_vector))
                same = known[0][:-1] == shape[:-1] if is_vector else known[0] == shape
                if not same or known[1:] != (dtype, is_vector):
                    raise ValueError(
                        f"{name}: expected {key!r} of {list(known[0])} {known[1]} as in the parts before, found "
                        f"{list(shape)} {dtype}"
                    )
                width = max(known[0][-1], shape[-1])
                found[key] = ((*shape[:-1], width), dtype, is_vector)
        if clash := [key for key in found if key in _OWN]:
            raise ValueError(
                f"streams: expected no {clash[0]!r}, as another tensor of a batch has this name"
            )
        return found

    def state(self) -> dict[str, Any]:
        return {**super().state(), "of_all": self.sampler.of_all}

    def _place_of(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """The place of as many batches as the state has done since the first epoch, however long its epochs were."""
        epoch, done = super()._place_of(state)
        self._is_renumbered = int(state["of_all"]) != self.sampler.of_all
        return divmod(epoch * int(state["of_all"]) + done, self.sampler.of_all)

    def set_epoch(self, epoch: int) -> None:
        # A number of the epochs before would leave out batches.
        if self._resumes and self._is_renumbered and int(epoch) != self.epoch:
            raise ValueError(
                f"epoch: expected {self.epoch}, where the loaded state goes on with epochs of another length, found "
                f"{int(epoch)}: begin the loop at dataset.epoch"
            )
        super().set_epoch(epoch)

    def _is_on_gpu(self) -> bool:
        return self._parts[0].cache.device is not None

    def batch(self, number: int, threads: int | None = None) -> Batch:
        """A batch of the epoch."""
        items = self.sampler.batch(self.epoch, number, self._offset)
        device = "cpu" if not self._is_on_gpu() else f"cuda:{self._parts[0].cache.device}"
        batch, size = {}, self.sampler.batch_size
        for key, (shape, dtype, is_vector) in self._shapes.items():
            batch[key] = torch.zeros((size, *shape), dtype=dtype, device=device)
            batch[f"{key}.valid"] = torch.zeros((size, shape[0]), dtype=torch.bool, device=device)
            if is_vector:
                batch[f"{key}.channels"] = torch.zeros(
                    (size, shape[-1]), dtype=torch.bool, device=device
                )
        for key in _OWN[:4]:
            batch[key] = torch.zeros(size, dtype=torch.int64)
        begin = 0
        for part, (episodes, instants, epochs) in items:
            own = slice(begin, begin := begin + len(episodes))
            self._fill(batch, own, part, (episodes, instants, epochs), threads)
        for key in self._shapes:
            batch[f"{key}_is_pad"] = ~batch[f"{key}.valid"]
        batch |= {"epoch": torch.tensor(self.epoch), "number": torch.tensor(number)}
        return self._transformed(batch, [self._seed, self.epoch, number, self.sampler.rank])

    def _fill(self, batch: Batch, own: slice, part: int, items: Any, threads: int | None) -> None:
        """Puts windows of a part into their place in a batch."""
        of, (episodes, instants, epochs) = self._parts[part], items
        windows = of.cache.windows(episodes, instants, of.config, epochs=epochs, threads=threads)
        tensors = windows.torch()
        for key, stream in self._streams[part].items():
            values = tensors[stream]
            width = values.shape[-1]
            batch[key][own][..., :width] = values
            batch[f"{key}.valid"][own] = tensors[f"{stream}.valid"]
            if self._shapes[key][2]:
                batch[f"{key}.channels"][own, :width] = True
        batch["dataset"][own] = part
        batch["episode"][own] = torch.from_numpy(episodes)
        batch["instant_ns"][own] = torch.from_numpy(instants)
        tasks = self._task_of[part][of.cache.task_index(episodes, instants)]
        batch["task_index"][own] = torch.from_numpy(tasks)

    def __repr__(self) -> str:
        shares = self.sampler._shares / self.sampler._shares.sum()
        told = ", ".join(
            f"{name} {100 * share:.1f} %" for name, share in zip(self.names, shares, strict=True)
        )
        return f"MixtureDataset({told}, {len(self)} batches of {self.sampler.batch_size}, epoch {self.epoch})"


def _named(name: str, part: Part) -> dict[str, str]:
    """By name of a tensor the stream of a part."""
    streams = {each: each for each in part.config} if part.streams is None else dict(part.streams)
    if unknown := [stream for stream in streams.values() if stream not in part.config]:
        known = ", ".join(part.config)
        raise ValueError(f"{name}: expected streams of its windows, {known}, found {unknown[0]!r}")
    return streams
