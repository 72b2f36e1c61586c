"""A torch dataset in LeRobot's dialect over an `EpisodeCache`. It needs PyTorch, and no LeRobot.

from robocache.lerobot import dataset
data = dataset("path/to/dataset", delta_timestamps={"action": [k / 30 for k in range(100)]})
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=2)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import WindowDataset, place_of
from ..training import ranks
from ..training.cache import EpisodeCache
from ..training.sampler import WindowSampler
from .dialect import Dialect
from .sources import Source, is_folder, of_folder, of_store

__all__ = ["Dataset", "dataset"]

#: LeRobot's: how far a step may be from a frame [s].
TOLERANCE_S = 1e-4


def dataset(
    source: EpisodeCache | str | os.PathLike[str],
    delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    *,
    episodes: Sequence[int] | None = None,
    image_transforms: Callable[[torch.Tensor], torch.Tensor] | None = None,
    return_uint8: bool = False,
    tolerance_s: float = TOLERANCE_S,
    out: str | os.PathLike[str] | None = None,
    keys: Mapping[str, str | Sequence[str]] | None = None,
    rows: Mapping[str, Mapping[str, Any]] | None = None,
    **load: Any,
) -> Dataset:
    """A dataset whose items are those of a LeRobotDataset: keys, types, shapes, `KEY_is_pad`, `task` and `meta`.

    Args:
        source: the folder of a LeRobot dataset; or a store of rows, a saved cache, or an EpisodeCache.
        delta_timestamps: by key of an item the instants of its steps, relative to the frame [s]: whole frames.
        episodes: numbers of episodes; all by default.
        image_transforms: a function of the images of an item, float32 in 0..1, or bytes with `return_uint8`.
        return_uint8: images are bytes, as LeRobot 0.6 trains on.
        tolerance_s: how far a step may be from a frame; and, in an import, a frame of a video from its timestamp.
        out: of a folder, where its rows are imported to, or are already; `SOURCE.rows` by default.
        keys: of a store, by key of an item the stream that has its values, or several whose numbers follow each other.
            Others have the keys that `robocache to-lerobot` gives them.
        rows: by key what is made of its values: `relative`, `reference` (a key), `poses`, `rotation_6d` and `normalize`, as of
            `EpisodeCache.windows`. `meta.stats` then has statistics of what comes out.
        load: of `EpisodeCache.load`, such as `compressed=False` if all rows fit into memory, and `share`; and of a folder
            those of `EpisodeCache.from_dataset`. With a `share` or a `split`, items are those of its episodes.

    Raises:
        ValueError: an argument does not fit the source; or frames of a folder are not evenly spaced.
    """
    numbers = None if episodes is None else [int(number) for number in episodes]
    if is_folder(source):
        if keys is not None:
            raise ValueError(
                "keys: expected None for a LeRobot dataset, which has its own, found some"
            )
        root = Path(os.fspath(source))  # type: ignore[arg-type]
        load = {"tolerance_s": tolerance_s, **load}
        found = of_folder(root, None if out is None else Path(out), numbers, load)
    else:
        if out is not None:
            raise ValueError("out: expected None for rows that are there already, found a folder")
        if isinstance(source, EpisodeCache):
            if load:
                raise TypeError(f"expected no {sorted(load)[0]} for an EpisodeCache, found one")
            cache = source
        else:
            cache = EpisodeCache.load(source, **load)
        found = of_store(cache, keys, numbers)
    return Dataset(found, delta_timestamps, rows or {}, image_transforms, return_uint8, tolerance_s)


class Dataset(torch.utils.data.Dataset):
    """Items of a LeRobotDataset, made of rows. `dataset` makes it.

    Attributes:
        meta: facts of the dataset: `features`, `stats`, `fps`, `tasks`, `episodes` and others, as in LeRobot.
        cache: the rows.
        episodes: the numbers of the chosen episodes; None for all.
        delta_timestamps, delta_indices: the steps by key, in seconds and in frames; None if there are none.
        image_transforms: the function of images, or None.
        root, repo_id: the folder, and the name of the dataset; None of a store.
    """

    def __init__(
        self,
        source: Source,
        delta_timestamps: Mapping[str, Sequence[float]] | None,
        rows: Mapping[str, Mapping[str, Any]],
        image_transforms: Callable[[torch.Tensor], torch.Tensor] | None,
        return_uint8: bool,
        tolerance_s: float,
    ) -> None:
        super().__init__()
        if image_transforms is not None and not callable(image_transforms):
            raise TypeError(
                f"image_transforms: expected a function of images, found {image_transforms!r}"
            )
        self.cache, self.meta, self.episodes = source.cache, source.meta, source.episodes
        self.root: Any = source.meta.root
        self.repo_id = None if self.root is None else Path(self.root).name
        self.delta_timestamps = delta_timestamps
        self.image_transforms = image_transforms
        self._source = source
        self.delta_indices = None
        if delta_timestamps is not None:
            self.delta_indices = _frames(delta_timestamps, source, tolerance_s)
        self._dialect = Dialect(source, self.delta_indices or {}, rows, return_uint8)

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.meta.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Features of `meta`, by key."""
        return self.meta.features

    @property
    def num_frames(self) -> int:
        """How many items there are."""
        return self._source.sampler.items

    @property
    def num_episodes(self) -> int:
        """How many episodes were chosen."""
        return self.meta.total_episodes if self.episodes is None else len(self.episodes)

    @property
    def absolute_to_relative_idx(self) -> dict[int, int] | None:
        """By `index` of a frame the number of its item; None if all episodes are chosen."""
        if self.episodes is None:
            return None
        return {int(index): at for at, index in enumerate(self._source.columns["index"])}

    def __len__(self) -> int:
        return self.num_frames

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The item of a frame. Raises IndexError if there is no such frame."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The items of several frames, which a DataLoader asks for: their windows are made at once."""
        batch = self._collated(indices)
        columns = {key: of.unbind() if torch.is_tensor(of) else of for key, of in batch.items()}
        if self.image_transforms is not None:
            for camera in self._dialect.cameras:
                columns[camera] = [self.image_transforms(image) for image in columns[camera]]
        return [
            dict(zip(columns, item, strict=True)) for item in zip(*columns.values(), strict=True)
        ]

    def _collated(self, indices: Sequence[int]) -> dict[str, Any]:
        places = np.asarray(indices, np.int64)
        places = np.where(places < 0, places + len(self), places)
        if ((places < 0) | (places >= len(self))).any():
            raise IndexError(f"index: expected 0 to {len(self) - 1}, found {list(indices)}")
        episodes, instants, epochs = self._source.sampler.located(places)
        windows = self.cache.windows(
            episodes,
            instants,
            self._dialect.plan,
            epochs=epochs,
            threads=1 if torch.utils.data.get_worker_info() else None,
        )
        return self._dialect.batch(windows, places)

    def batches(
        self,
        batch_size: int,
        *,
        seed: int = 0,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        **options: Any,
    ) -> WindowDataset:
        """The same items as batches: an iterable dataset for a DataLoader with `batch_size=None`. It is faster, and goes on
        from any batch: `set_epoch`, `state_after` and `resume` are those of `robocache.data.WindowDataset`.

        Args:
            batch_size: items of a batch.
            seed: of the order, and of `image_transforms` and `transform`.
            transform: a function of a batch, in the worker that makes it.
            options: of `WindowSampler`: `rank`, `world` (not of a cache that is a share), `weights` (one per episode),
                `drop_last`, `shuffle` and `batches`.
        """
        spans = self._source.sampler.spans()
        last = spans.first_ns + (spans.counts - 1) * self._source.sampler.period_ns
        sampler = WindowSampler(
            np.stack([spans.first_ns, last], axis=1),
            period_ns=self._source.sampler.period_ns,
            batch_size=batch_size,
            episodes=spans.episodes,
            epochs=spans.epochs,
            **ranks.of_share(self.cache.share, {"seed": seed, **options}),
        )
        changes = None
        if self.image_transforms is not None or transform is not None:
            changes = _Changes(self._dialect.cameras, self.image_transforms, transform)
        return _ItemBatches(self.cache, sampler, self._dialect, changes)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.num_frames} frames of {self.num_episodes} episodes at {self.fps:g} Hz: "
            f"{', '.join(self._source.keys)})"
        )


class _ItemBatches(WindowDataset):
    """Batches of windows in LeRobot's dialect."""

    def __init__(
        self,
        cache: EpisodeCache,
        sampler: WindowSampler,
        dialect: Dialect,
        changes: _Changes | None,
    ) -> None:
        super().__init__(cache, sampler, dialect.config, transform=changes)
        self._dialect = dialect

    def batch(self, number: int, threads: int | None = None) -> dict[str, Any]:
        # The ranges of the sampler are those of the source, so its items are the source's.
        windows, items, seed = self._windows(number, threads)
        made = self._dialect.batch(windows, items[0])
        return self._transformed(made | place_of(seed), seed)


class _Changes:
    """Changes of a batch by functions of the caller: one of each image, then one of the batch."""

    def __init__(
        self,
        cameras: Sequence[str],
        image_transforms: Callable[[torch.Tensor], torch.Tensor] | None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None,
    ) -> None:
        self._cameras, self._images, self._transform = cameras, image_transforms, transform

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self._images is not None:
            for camera in self._cameras:
                batch[camera] = torch.stack([self._images(image) for image in batch[camera]])
        return batch if self._transform is None else self._transform(batch)


def _frames(
    delta_timestamps: Mapping[str, Sequence[float]], source: Source, tolerance_s: float
) -> dict[str, list[int]]:
    """The steps by key, in frames.

    Raises ValueError if a step is between frames, or there is no such key.
    """
    known = [*source.keys, *source.columns]
    found = {}
    for key, seconds in delta_timestamps.items():
        if key not in known:
            raise ValueError(
                f"delta_timestamps: expected keys of {', '.join(known)}, found {key!r}"
            )
        frames = [float(each) * source.meta.fps for each in seconds]
        off = [at for at in frames if abs(at - round(at)) / source.meta.fps > tolerance_s]
        if off:
            raise ValueError(
                f"delta_timestamps of {key!r}: expected multiples of 1/{source.meta.fps:g} s, found {off[0] / source.meta.fps:g} "
                "s: for another rate, take windows (docs/training.md)"
            )
        if not frames:
            raise ValueError(f"delta_timestamps of {key!r}: expected a step or more, found none")
        found[key] = [round(at) for at in frames]
    return found
