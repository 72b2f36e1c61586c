"""Statistics of a store of rows, as LeRobot's `meta/stats.json` has them of a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..training.cache import EpisodeCache
from ..training.sampler import WindowSampler
from ..training.statistics import host
from .stats import Pixels

#: Images that are looked at, of each stream.
_IMAGES = 1000
_BATCH = 32


def stats_of_cache(
    cache: EpisodeCache, keys: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """The statistics of streams, by key of an item. Images are in 0..1, and some of them are enough.

    Args:
        keys: by key the streams, whose numbers are one after the other.
    """
    streams = [name for names in keys.values() for name in names]
    vectors = [name for name in streams if cache.streams[name]["vector"]]
    of = cache.statistics(vectors) if vectors else {}
    found: dict[str, dict[str, Any]] = {}
    for key, names in keys.items():
        means = cache.streams[names[0]]
        if means["vector"]:
            parts = [of[name] for name in names]
            found[key] = {
                name: np.concatenate([part[name] for part in parts]) for name in of[names[0]]
            }
            found[key]["count"] = found[key]["count"].min(keepdims=True).astype(np.int64)
        elif means["dtype"] == "u8" and len(means["row_shape"]) == 3:
            found[key] = _pixels(cache, names[0])
    return found


def _pixels(cache: EpisodeCache, name: str) -> dict[str, Any]:
    """Those of a stream of images, whose frames are taken evenly from all episodes."""
    sampler = WindowSampler.of(cache, batch_size=1, shuffle=False, valid_only=[name])
    count = min(sampler.items, _IMAGES)
    places = np.round(np.linspace(0, sampler.items - 1, count)).astype(np.int64)
    # All of these count: they are a choice already.
    pixels = Pixels.of_all(count)
    means, done = cache.streams[name], 0
    is_first = means["row_shape"][0] == len(means["channels"])
    for begin in range(0, count, _BATCH):
        episodes, instants, epochs = sampler.at(0, places[begin : begin + _BATCH])
        windows = cache.windows(episodes, instants, {name: {"label": True}}, epochs=epochs)
        images, valid = host(windows[name].array), host(windows[name].valid)
        images = images[:, 0][valid[:, 0]]
        images = images.transpose(0, 2, 3, 1) if is_first else images
        pixels.add(done, np.broadcast_to(images, (*images.shape[:3], 3)))
        done += len(images)
    return pixels.result()
