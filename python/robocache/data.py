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

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .training.action_rows import with_statistics
from .training.batches import Batch, Batches
from .training.choices import latencies
from .training.mixture import MixtureDataset
from .training.selection import Columns
from .training.valid_shares import look_at
from .training.windows import PAD

if TYPE_CHECKING:
    from .contract import Contract
    from .training.cache import EpisodeCache
    from .training.sampler import Numbered, WindowSampler
    from .training.windows import Answered, WindowPlan, Windows

__all__ = ["MixtureDataset", "WindowDataset"]

#: Tensors of a batch that are of no stream.
_OWN = ("episode", "instant_ns", "task_index", "clock_epoch", "epoch", "number")


class WindowDataset(Batches):
    """Batches of windows, one epoch per iteration. A batch is a dict of tensors: by stream `[windows, steps, row...]`,
    `STREAM.valid` and its opposite `STREAM_is_pad` `[windows, steps]` bool, `episode`, `instant_ns`, `task_index` (that of
    `EpisodeCache.task_index`) and `clock_epoch` `[windows]` (the last if the sampler has epochs of the clock), `epoch` and
    `number` `[]`: which batch of the training it is.

    Worker w of n makes every n-th batch of its rank, so that a DataLoader gives the same batches in the same order for
    any number of workers. Give the DataLoader `batch_size=None`: what this gives are batches already. A DataLoader
    looks at each text of a batch again, unless its `collate_fn` is `dict`. Without workers, as on a GPU, iterate this itself.

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
        super().__init__(sampler, sampler.seed if seed is None else seed, transform)
        if device is not None and cache.device is None:
            cache = cache.to(device)
        # All batches, and all workers, have the numbers that a file of statistics has now.
        self.cache, self.config = cache, with_statistics(config)
        # Each share of the episodes is the work of a rank of its own.
        self._rank = sampler.rank if cache.share is None else cache.share[0]
        self._rows, self._latency_ns = rows, latency_ns
        self._drawn: dict[str, Any] = {"jitter_ns": jitter_ns, "latency_ns": latency_ns}
        # What does not fit is an error here, and not in a worker.
        self._own_plan: WindowPlan | None = None
        plan = self._plan
        self._columns = Columns(cache, columns or {})
        names = [stream.name for stream in plan.streams]
        of_streams = {f"{name}{end}" for name in names for end in ("", ".valid", PAD)}
        for what, own, others in (
            ("config: expected no stream", names, _OWN),
            ("columns: expected no column", self._columns, {*_OWN, *of_streams}),
        ):
            if clash := [name for name in own if name in others]:
                raise ValueError(f"{what} {clash[0]!r}, as another tensor of a batch has this name")
        if not isinstance(jitter_ns, (int, np.integer)) or jitter_ns < 0:
            raise ValueError(f"jitter_ns: expected 0 ns or more, found {jitter_ns!r}")
        if latency_ns:
            latencies(latency_ns, plan.streams, 1, np.random.default_rng(0))
        # Whether the shares of valid steps were looked at, in whatever process.
        self._looked_at = torch.zeros((), dtype=torch.bool).share_memory_()

    def _is_on_gpu(self) -> bool:
        return self.cache.device is not None

    def _prepare(self) -> None:
        if self._looked_at:
            # The workers of an earlier epoch have warned, if there was a reason.
            self._plan.looked_at = True

    def contract(self, *streams: str, actions: Answered = None) -> Contract:
        """What a policy relies on that is trained on these batches: a `robocache.Contract` of the streams that it sees; of
        all by default. A constant `latency_ns` is a lag, and is in it. A drawn one is not.

        Args:
            streams: their names.
            actions: the streams that the policy answers, as for `EpisodeCache.contract`. They are none of those that it sees.

        Raises ValueError if the store has no contract, as `EpisodeCache.contract`; or if actions have a drawn latency.
        """
        made = self.cache.contract(self.config, rows=self._rows, actions=actions)
        made = _later(made, self._latency_ns or {})
        return made.only(*streams) if streams else made

    @property
    def _plan(self) -> WindowPlan:
        """The prepared windows, which each process makes once."""
        if self._own_plan is None:
            self._own_plan = self.cache.plan(self.config, rows=self._rows)
        return self._own_plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own_plan": None}

    def _windows(self, number: int, threads: int | None) -> tuple[Windows, Numbered, list[int]]:
        """The windows of a batch of the epoch, its items, and its seed."""
        epoch, _, offset = self._place.tolist()
        items = self.sampler.numbered(epoch, number, offset)
        _, episodes, instants, epochs = items
        seed = [self._seed, epoch, number, self._rank]
        windows = self.cache.windows(
            episodes,
            instants,
            self._plan,
            epochs=epochs,
            seed=seed,
            threads=threads,
            **self._drawn,
        )
        if self.cache.device is not None:  # those of the host were looked at
            look_at(windows, episodes, self.cache)
        if windows.plan.looked_at and not self._looked_at:
            self._looked_at.fill_(True)
        return windows, items, seed

    def batch(self, number: int, threads: int | None = None) -> Batch:
        """A batch of the epoch."""
        windows, (_, episodes, _, epochs), seed = self._windows(number, threads)
        clock = {} if epochs is None else {"clock_epoch": torch.from_numpy(epochs)}
        batch = {
            **windows.torch(),
            **clock,
            "episode": torch.from_numpy(episodes),
            "instant_ns": torch.from_numpy(windows.instants_ns),
            "task_index": torch.from_numpy(self.cache.task_index(episodes, windows.instants_ns)),
            **place_of(seed),
        }
        for name, values in self._columns.of(episodes, seed).items():
            batch[name] = values if isinstance(values, list) else torch.from_numpy(values)
        return self._transformed(batch, seed)

    def __repr__(self) -> str:
        return f"WindowDataset({self.cache!r}, {self.sampler!r}, epoch {self.epoch})"


def place_of(seed: Sequence[int]) -> dict[str, torch.Tensor]:
    """Tensors that say which batch of the training it is, of its seed."""
    # It takes less time than `torch.tensor`.
    epoch, number = (torch.from_numpy(np.array(each)) for each in seed[1:3])
    return {"epoch": epoch, "number": number}


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
