"""A torch dataset of windows: batches in an order that any number of ranks and workers shares. It needs PyTorch.

dataset = WindowDataset(cache, sampler, config)
loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=4)
for batch in loader:
    train(batch)
    state = dataset.state_after(batch)      # save it; load_state_dict(state) goes on behind this batch
"""

import zlib

import torch

__all__ = ["WindowDataset"]

_STATE = 2


class WindowDataset(torch.utils.data.IterableDataset):
    """Batches of windows, one epoch per iteration. A batch is a dict: by stream `[windows, steps, row...]`, `STREAM.valid`
    `[windows, steps]` bool, `episode` and `instant_ns` `[windows]`, `epoch` and `number`: which batch it is.

    Worker w of n makes every n-th batch of its rank, so that a DataLoader gives the same batches in the same order for
    any number of workers.

    Args:
        cache: an EpisodeCache. If workers are spawned, it must be loaded from a path, which each worker loads again; save it and
            load that, so that they share its memory.
        sampler: a WindowSampler.
        device: a GPU that makes the batches, in its memory (`EpisodeCache.to`; a cache that has a device needs none). `episode` and
            `instant_ns` stay on the host. A DataLoader must have no workers then.
        config, options: of `EpisodeCache.windows`. A `seed` there and the batch's number make the seed of a batch.
    """

    def __init__(self, cache, sampler, config=None, *, device=None, **options):
        super().__init__()
        if device is not None and cache.device is None:
            cache = cache.to(device)
        self.cache, self.sampler, self.config = cache, sampler, config
        self._seed = options.pop("seed", sampler.seed)
        self._options = options
        # The epoch, and its first batch that is made. Workers that stay alive see what is set here.
        self._place = torch.zeros(2, dtype=torch.int64).share_memory_()

    @property
    def epoch(self):
        """The epoch of the next iteration."""
        return int(self._place[0])

    @property
    def _start(self):
        return int(self._place[1])

    def set_epoch(self, epoch):
        """The epoch of the next iteration, from its first batch on. Call it before each one: otherwise the same batches come
        again."""
        self._place.copy_(torch.tensor([int(epoch), 0]))

    def __len__(self):
        return len(self.sampler) - self._start

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        if worker and self.cache.device is not None:
            raise RuntimeError("num_workers: expected 0 for a cache on a GPU, found workers")
        own, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(self._start + own, len(self.sampler), workers):
            yield self.batch(number, threads=1 if worker else None)

    def batch(self, number, threads=None):
        """A batch of the epoch."""
        episodes, instants = self.sampler.batch(self.epoch, number)
        seed = [self._seed, self.epoch, number, self.sampler.rank]
        windows = self.cache.windows(
            episodes, instants, self.config, seed=seed, threads=threads, **self._options
        )
        return {
            **windows.torch(),
            "episode": torch.from_numpy(episodes),
            "instant_ns": torch.from_numpy(windows.instants_ns),
            "epoch": self.epoch,
            "number": number,
        }

    def state_after(self, batch):
        """The state behind a batch, whatever workers have made ahead."""
        return {**self.state_dict(), "epoch": batch["epoch"], "number": batch["number"] + 1}

    def state_dict(self):
        """The state at the begin of the next iteration."""
        sampler = self.sampler
        same = {name: getattr(sampler, name) for name in ("seed", "items", "batch_size", "world")}
        order = zlib.crc32(f"{sampler.described()} {self._seed}".encode())
        return {
            "version": _STATE,
            **same,
            "order": order,
            "epoch": self.epoch,
            "number": self._start,
        }

    def load_state_dict(self, state):
        """Goes on from a state: the next iteration begins there. If the epoch was done, it begins the next one.

        Raises:
            ValueError: the state is of another version or order of batches.
        """
        own = self.state_dict()
        for name in ("version", "seed", "items", "batch_size", "world", "order"):
            if state.get(name) != own[name]:
                raise ValueError(f"state: expected {name} {own[name]}, found {state.get(name)}")
        self._place.copy_(torch.tensor([int(state["epoch"]), int(state["number"])]))
        if self._start >= len(self.sampler):
            self.set_epoch(self.epoch + 1)
