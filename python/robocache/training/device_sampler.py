"""The order of a `WindowSampler` on a GPU, so that a CUDA graph takes one batch after the other. It needs PyTorch.

sampler = WindowSampler.of(cache, period_ns=10_000_000, batch_size=64, seed=1)
order = sampler.to("cuda")
with torch.cuda.graph(graph):                       # or without a graph
    episodes, instants_ns, epochs = order.next()
    windows = cache.windows(episodes, instants_ns, epochs=epochs)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import _native
from .gpu import number_of

__all__ = ["DeviceSampler"]

#: Samplers that a CUDA graph has: it may be replayed at any time, so their tables are never freed.
_IN_GRAPHS: set[DeviceSampler] = set()


class DeviceSampler:
    """Gives the batches of a `WindowSampler` in their order, as int64 tensors on a GPU. `WindowSampler.to` makes it.

    A counter on the GPU says which batch is next. Each `next` moves it on, and so does each replay of a CUDA graph that
    has recorded a `next`. After the last batch of an epoch of the training comes the first of the next epoch.

    Use it on one stream of torch at a time.
    """

    def __init__(self, sampler: Any, device: Any) -> None:
        if not hasattr(_native, "DeviceOrder"):
            raise RuntimeError("device: expected a build with CUDA, found one without")
        sampler.expect_rank()
        self.device = torch.device("cuda", number_of(device))
        self.batches, self.batch_size = len(sampler), sampler.batch_size
        self._has_epochs = sampler._epochs is not None
        table, episodes = table_of(sampler)
        self._table = torch.from_numpy(table).to(self.device)
        self._taken = torch.zeros(1, dtype=torch.int64, device=self.device)
        # From here on the table may be read on any stream.
        torch.cuda.current_stream(self.device).synchronize()
        self._native = _native.DeviceOrder(
            self.device.index,
            self._table.data_ptr(),
            (len(sampler._ends), episodes),
            (sampler.seed & 0xFFFFFFFFFFFFFFFF, sampler.period_ns, sampler.items),
            (self.batches, self.batch_size),
            (sampler.rank, sampler.world),
            weighted=sampler._chances is not None,
            shuffle=sampler.shuffle,
        )

    def __len__(self) -> int:
        """The batches of this rank in an epoch of the training."""
        return self.batches

    def next(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """The items of the next batch: `(episodes, instants_ns, epochs)`, each `[batch_size]`, as `EpisodeCache.windows` takes
        them. `epochs` are those of the clock; None if the sampler has none. The current stream writes them; nothing waits.

        If the last batch has fewer items (`drop_last=False`), it is filled up with the episode -1: all steps of these
        windows are invalid.
        """
        items = torch.empty((3, self.batch_size), dtype=torch.int64, device=self.device)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream().cuda_stream
            if torch.cuda.is_current_stream_capturing():
                _IN_GRAPHS.add(self)
        place = (self.device.index, stream)
        self._native.launch(place, self._taken.data_ptr(), items.data_ptr())
        episodes, instants, epochs = items.unbind()
        return episodes, instants, epochs if self._has_epochs else None

    def seek(self, epoch: int, number: int) -> None:
        """Makes batch `number` of an epoch of the training the next one.

        Raises:
            IndexError: there is no such batch.
        """
        if not 0 <= number < self.batches or epoch < 0:
            raise IndexError(
                f"batch: expected 0 to {self.batches - 1} of an epoch of 0 or more, found {number} of {epoch}"
            )
        self._taken.fill_(int(epoch) * self.batches + int(number))

    def position(self) -> tuple[int, int]:
        """The epoch of the training and the number of the next batch: what `seek` takes. Waits for the GPU."""
        return divmod(int(self._taken), self.batches)


def table_of(sampler: Any) -> tuple[np.ndarray, int]:
    """The numbers of a sampler as the kernel reads them, and how many episodes they are of."""
    ranges = len(sampler._ends)
    epochs = np.zeros(ranges, np.int64) if sampler._epochs is None else sampler._epochs
    columns = [sampler._ends, sampler.first_ns, sampler._episodes, epochs]
    chances = sampler._chances
    episodes = 0 if chances is None else len(chances)
    if chances is not None and episodes:
        after = np.searchsorted(sampler._episodes, np.arange(episodes), side="right")
        columns += [np.concatenate([[0], sampler._ends])[after], chances.view(np.int64)]
    return np.concatenate(columns, dtype=np.int64), episodes
