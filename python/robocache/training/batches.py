"""Batches in an order that any number of ranks and workers shares, and their state. It needs PyTorch."""

from __future__ import annotations

import contextlib
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

__all__ = ["Batch", "Batches", "seeded"]

_STATE = 4
#: A batch of windows: tensors by their names.
Batch = dict[str, Any]


class Batches(torch.utils.data.IterableDataset):
    """Batches, one epoch per iteration. Worker w of n makes every n-th batch of its rank.

    Args:
        sampler: says which items a batch has: `count`, `described`, `expect_rank`, `seed`, `items`, `batch_size` and `world`
            are those of a WindowSampler.
        seed: of what is drawn.
        transform: a function of a batch that returns one.

    Raises ValueError, also in each call that begins an epoch, if several processes train, and the sampler was not told its
    rank.
    """

    def __init__(
        self, sampler: Any, seed: int, transform: Callable[[Batch], Batch] | None = None
    ) -> None:
        super().__init__()
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a function of a batch, found {transform!r}")
        sampler.expect_rank()
        self.sampler, self._seed, self._transform = sampler, seed, transform
        # The epoch, its first batch that is made, and the offset of the sampler's batches. Workers that stay alive see
        # what is set here.
        self._place = torch.zeros(3, dtype=torch.int64).share_memory_()
        # Whether a state was loaded and no epoch was set since.
        self._resumes = False

    def batch(self, number: int, threads: int | None = None) -> Batch:
        """A batch of the epoch."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Is called before the batches of an epoch are made, in each process that makes some."""

    def _is_on_gpu(self) -> bool:
        """True if a GPU makes the batches, which no worker can."""
        return False

    def _transformed(self, batch: Batch, seed: Sequence[int]) -> Batch:
        """What the function of the caller makes of a batch, with random numbers of a seed."""
        if self._transform is None:
            return batch
        with seeded(seed):
            changed = self._transform(batch)
        if changed is None:
            raise TypeError("transform: expected a function that returns a batch, found None")
        return changed

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration."""
        return int(self._place[0])

    @property
    def _start(self) -> int:
        return int(self._place[1])

    @property
    def _offset(self) -> int:
        return int(self._place[2])

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next iteration, from its first batch on. Call it before each one: otherwise the same batches come
        again. The first call after `resume` leaves the batch where it goes on, if the epoch is that of the state.

        Raises:
            ValueError: the state that was loaded is of a later epoch; or several processes train, and the sampler was not
                told its rank.
        """
        # The processes may have found each other since this was made.
        self.sampler.expect_rank()
        epoch = int(epoch)
        if self._resumes and epoch < self.epoch:
            raise ValueError(
                f"epoch: expected {self.epoch} or more, where the loaded state goes on, found {epoch}: "
                "begin the loop at dataset.epoch"
            )
        goes_on = self._resumes and epoch == self.epoch
        self._go_to(epoch, *((self._start, self._offset) if goes_on else (0, 0)))
        self._resumes = False

    def _go_to(self, epoch: int, number: int, offset: int) -> None:
        self._place.copy_(torch.tensor([epoch, number, offset]))

    def __len__(self) -> int:
        return max(0, self.sampler.count(self._offset) - self._start)

    def __iter__(self) -> Iterator[Batch]:
        # A DataLoader that makes batches of items asks for an iterator here. It would make a batch of batches.
        if sys._getframe(1).f_locals.get("auto_collation"):
            raise ValueError(
                "batch_size: expected None for the DataLoader of a dataset of windows, which gives batches, found another"
            )
        self.sampler.expect_rank()
        worker = torch.utils.data.get_worker_info()
        if worker and self._is_on_gpu():
            raise RuntimeError("num_workers: expected 0 for a cache on a GPU, found workers")
        own, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        self._prepare()
        numbers = range(self._start + own, self.sampler.count(self._offset), workers)
        return (self.batch(number, threads=1 if worker else None) for number in numbers)

    def state_after(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The state behind a batch, whatever workers have made ahead: words and numbers, for `resume`."""
        done = self._offset + (int(batch["number"]) + 1) * self.sampler.world
        return {**self.state(), "epoch": int(batch["epoch"]), "done": done}

    def state(self) -> dict[str, Any]:
        """The state at the begin of the next iteration: words and numbers, for `resume`."""
        sampler = self.sampler
        same = {name: getattr(sampler, name) for name in ("seed", "items", "batch_size")}
        order = zlib.crc32(f"{sampler.described()} {self._seed}".encode())
        return {
            "version": _STATE,
            **same,
            "order": order,
            "epoch": self.epoch,
            # Batches of all ranks.
            "done": self._offset + self._start * sampler.world,
        }

    def _place_of(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """The epoch of a state, and how many batches of all ranks it has done."""
        return int(state["epoch"]), int(state["done"])

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state: the next iteration begins there. If the epoch was done, it begins the next one. The number of
        ranks may be another than that of the state.

        Raises:
            ValueError: the state is of another version or order of batches; or as `set_epoch`.
        """
        self.sampler.expect_rank()
        own = self.state()
        for name in ("version", "seed", "items", "batch_size", "order"):
            if state.get(name) != own[name]:
                raise ValueError(f"state: expected {name} {own[name]}, found {state.get(name)}")
        epoch, done = self._place_of(state)
        number, offset = divmod(done, self.sampler.world)
        # All ranks decide alike: the first one has most.
        is_done = number >= self.sampler.count(offset, 0)
        self._go_to(*((epoch + 1, 0, 0) if is_done else (epoch, number, offset)))
        self._resumes = True

    def __getitem__(self, index: Any) -> Batch:
        raise TypeError(
            f"expected an iteration, or batch(number), because a dataset of windows has batches and no items, found the index {index!r}"
        )


@contextlib.contextmanager
def seeded(seed: Sequence[int]) -> Iterator[None]:
    """Makes random numbers of torch, NumPy and `random` those of a seed, and behind it those of before."""
    words = np.random.SeedSequence(seed).generate_state(2, np.uint32)
    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(words[0]) << 32 | int(words[1]))
        random.seed(int(words[0]))
        np.random.seed(words)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
