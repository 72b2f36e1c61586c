"""A torch dataset of windows: batches in an order that any number of ranks and workers shares. It needs PyTorch.

dataset = WindowDataset(cache, sampler, config)
loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=4)
for epoch in range(dataset.epoch, 10):
    dataset.set_epoch(epoch)
    for batch in loader:
        train(batch)
        state = dataset.state_after(batch)  # save it; after resume(state) this loop goes on behind this batch
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .training.choices import latencies
from .training.selection import Columns
from .training.valid_shares import look_at

if TYPE_CHECKING:
    from .contract import Contract
    from .training.cache import EpisodeCache
    from .training.sampler import WindowSampler
    from .training.windows import Answered, WindowPlan

__all__ = ["WindowDataset"]

_STATE = 4
#: Tensors of a batch that are of no stream.
_OWN = ("episode", "instant_ns", "task_index", "clock_epoch", "epoch", "number")
#: A batch of windows: tensors by their names.
Batch = dict[str, Any]


class WindowDataset(torch.utils.data.IterableDataset):
    """Batches of windows, one epoch per iteration. A batch is a dict of tensors: by stream `[windows, steps, row...]`,
    `STREAM.valid` and its opposite `STREAM_is_pad` `[windows, steps]` bool, `episode`, `instant_ns`, `task_index` (that of
    `EpisodeCache.task_index`) and `clock_epoch` `[windows]` (the last if the sampler has epochs of the clock), `epoch` and
    `number` `[]`: which batch of the training it is.

    Worker w of n makes every n-th batch of its rank, so that a DataLoader gives the same batches in the same order for
    any number of workers. Give the DataLoader `batch_size=None`: what this gives are batches already.

    It has no `state_dict`: a StatefulDataLoader of torchdata would take a copy in a worker for the state of all. It
    counts batches instead, and makes the first ones again. `state_after` and `resume` go to a batch at once.

    Args:
        cache: an EpisodeCache. If workers are spawned, it must be loaded from a path, which each worker loads again; save it and
            load that, so that they share its memory.
        sampler: a WindowSampler.
        device: a GPU that makes the batches, in its memory (`EpisodeCache.to`; a cache that has a device needs none). `episode`,
            `instant_ns` and `clock_epoch` stay on the host. A DataLoader must have no workers then.
        config, rows, jitter_ns, latency_ns: of `EpisodeCache.windows`.
        seed: of what is drawn, by default that of the sampler. It, the rank or the share, and the batch's number make the
            seed of a batch.
        columns: texts and tokens of the episodes, by name an entry for each episode of the cache: an array `[episodes, ...]`, or
            a list of texts. An entry may be a list, of which each window draws one. A batch has texts as a list.
        transform: a function of a batch that returns one, such as an augmentation of images. It runs where the batch is
            made: in a worker, if there are workers, which must be able to send it, if they are spawned. Random numbers of
            torch, NumPy and `random` are those of the seed of the batch there, and go on as before behind it.

    Raises:
        ValueError, TypeError: the cache has no such windows.
    """

    def __init__(
        self,
        cache: EpisodeCache,
        sampler: WindowSampler,
        config: WindowPlan | Mapping[str, Any] | None = None,
        *,
        device: Any = None,
        rows: str | None = None,
        jitter_ns: int = 0,
        latency_ns: Mapping[str, Any] | None = None,
        seed: int | None = None,
        columns: Mapping[str, Any] | None = None,
        transform: Callable[[Batch], Batch] | None = None,
    ) -> None:
        super().__init__()
        if device is not None and cache.device is None:
            cache = cache.to(device)
        self.cache, self.sampler, self.config = cache, sampler, config
        self._seed = sampler.seed if seed is None else seed
        # Each share of the episodes is the work of a rank of its own.
        self._rank = sampler.rank if cache.share is None else cache.share[0]
        self._options: dict[str, Any] = {
            "rows": rows,
            "jitter_ns": jitter_ns,
            "latency_ns": latency_ns,
        }
        if transform is not None and not callable(transform):
            raise TypeError(f"transform: expected a function of a batch, found {transform!r}")
        self._transform = transform
        # What does not fit is an error here, and not in a worker.
        plan = cache.plan(config, rows=rows)
        self._columns = Columns(cache, columns or {})
        own = {*_OWN, *self._columns}
        if clash := [stream.name for stream in plan.streams if stream.name in own]:
            raise ValueError(
                f"config: expected no stream {clash[0]!r}, as another tensor of a batch has this name"
            )
        if not isinstance(jitter_ns, (int, np.integer)) or jitter_ns < 0:
            raise ValueError(f"jitter_ns: expected 0 ns or more, found {jitter_ns!r}")
        if latency_ns:
            latencies(latency_ns, plan.streams, 1, np.random.default_rng(0))
        # The epoch, its first batch that is made, and the offset of the sampler's batches. Workers that stay alive see
        # what is set here.
        self._place = torch.zeros(3, dtype=torch.int64).share_memory_()
        # Whether the shares of valid steps were looked at, in whatever process.
        self._looked_at = torch.zeros((), dtype=torch.bool).share_memory_()
        # Whether a state was loaded and no epoch was set since.
        self._resumes = False

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
            ValueError: the state that was loaded is of a later epoch.
        """
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
                "batch_size: expected None for the DataLoader of a WindowDataset, which gives batches, found another"
            )
        worker = torch.utils.data.get_worker_info()
        if worker and self.cache.device is not None:
            raise RuntimeError("num_workers: expected 0 for a cache on a GPU, found workers")
        own, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        if self._looked_at:
            # The workers of an earlier epoch have warned, if there was a reason.
            self.cache.plan(self.config, rows=self._options["rows"]).looked_at = True
        numbers = range(self._start + own, self.sampler.count(self._offset), workers)
        return (self.batch(number, threads=1 if worker else None) for number in numbers)

    def contract(self, *streams: str, actions: Answered = None) -> Contract:
        """What a policy relies on that is trained on these batches: a `robocache.Contract` of the streams that it sees; of
        all by default. A constant `latency_ns` is a lag, and is in it. A drawn one is not.

        Args:
            streams: their names.
            actions: the streams that the policy answers, as for `EpisodeCache.contract`. They are none of those that it sees.

        Raises ValueError if the store has no contract, as `EpisodeCache.contract`; or if actions have a drawn latency.
        """
        made = self.cache.contract(self.config, rows=self._options["rows"], actions=actions)
        made = _later(made, self._options["latency_ns"] or {})
        return made.only(*streams) if streams else made

    def batch(self, number: int, threads: int | None = None) -> Batch:
        """A batch of the epoch."""
        episodes, instants, epochs = self.sampler.batch(self.epoch, number, self._offset)
        seed = [self._seed, self.epoch, number, self._rank]
        windows = self.cache.windows(
            episodes,
            instants,
            self.config,
            epochs=epochs,
            seed=seed,
            threads=threads,
            **self._options,
        )
        if self.cache.device is not None:  # those of the host were looked at
            look_at(windows, episodes, self.cache)
        if windows.plan.looked_at:
            self._looked_at.fill_(True)
        clock = {} if epochs is None else {"clock_epoch": torch.from_numpy(epochs)}
        batch = {
            **windows.torch(),
            **clock,
            "episode": torch.from_numpy(episodes),
            "instant_ns": torch.from_numpy(windows.instants_ns),
            "task_index": torch.from_numpy(self.cache.task_index(episodes, windows.instants_ns)),
            "epoch": torch.tensor(self.epoch),
            "number": torch.tensor(number),
        }
        for name, values in self._columns.of(episodes, seed).items():
            batch[name] = values if isinstance(values, list) else torch.from_numpy(values)
        if self._transform is None:
            return batch
        with seeded(seed):
            changed = self._transform(batch)
        if changed is None:
            raise TypeError("transform: expected a function that returns a batch, found None")
        return changed

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

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state: the next iteration begins there. If the epoch was done, it begins the next one. The number of
        ranks may be another than that of the state.

        Raises:
            ValueError: the state is of another version or order of batches.
        """
        own = self.state()
        for name in ("version", "seed", "items", "batch_size", "order"):
            if state.get(name) != own[name]:
                raise ValueError(f"state: expected {name} {own[name]}, found {state.get(name)}")
        epoch = int(state["epoch"])
        number, offset = divmod(int(state["done"]), self.sampler.world)
        # All ranks decide alike: the first one has most.
        is_done = number >= self.sampler.count(offset, 0)
        self._go_to(*((epoch + 1, 0, 0) if is_done else (epoch, number, offset)))
        self._resumes = True

    def __getitem__(self, index: Any) -> Batch:
        raise TypeError(
            f"expected an iteration, or batch(number), because a WindowDataset has batches and no items, found the index {index!r}"
        )

    def __repr__(self) -> str:
        return f"WindowDataset({self.cache!r}, {self.sampler!r}, epoch {self.epoch})"


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


def _later(contract: Contract, latency_ns: Mapping[str, Any]) -> Contract:
    """The contract of windows that are taken by this much earlier. Latencies that are drawn do not count."""
    value = contract.value
    for name, latency in latency_ns.items():
        least, most = np.broadcast_to(latency, (2,))
        if name in value.get("actions", {}):
            if least != most:
                raise ValueError(
                    f"latency_ns of '{name}': expected one number for actions, as each of their rows is for one instant,"
                    f" found {least} to {most}"
                )
            rows = value["actions"][name]
            rows["offsets_ns"] = [offset - int(least) for offset in rows["offsets_ns"]]
        if name in value["streams"] and least == most:
            stream = value["streams"][name]
            stream["targets_ns"] = [target - int(least) for target in stream["targets_ns"]]
            if least and "unknown" in stream:  # it is known now
                stream["unknown"] = [key for key in stream["unknown"] if key != "lag_ns"]
    return type(contract)(json.dumps(value))
