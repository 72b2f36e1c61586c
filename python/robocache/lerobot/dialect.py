"""Windows of streams as batches of LeRobot's items. It needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ..training.action_rows import KEYS
from ..training.windows import Windows
from .sources import Source

__all__ = ["Dialect"]


class Dialect:
    """How windows become items.

    Attributes:
        config: the windows, as `EpisodeCache.windows` takes them.
        cameras: the keys of images.
    """

    def __init__(
        self,
        source: Source,
        steps: Mapping[str, Sequence[int]],
        rows: Mapping[str, Mapping[str, Any]],
        return_uint8: bool,
    ) -> None:
        self._source, self._steps, self._bytes = source, dict(steps), return_uint8
        self._features = source.meta.features
        spans = source.sampler.spans()
        ends = np.cumsum(spans.counts)
        self._begins, self._ends = ends - spans.counts, ends
        self._columns = source.columns
        self._tasks = dict(source.meta.tasks)
        self.cameras = [
            key for key in source.keys if self._features[key]["dtype"] in ("image", "video")
        ]
        self.config: dict[str, dict[str, Any]] = {}
        for key, streams in source.keys.items():
            for name in streams:
                self.config[name] = self._window(name, self._steps.get(key, (0,)))
        for key, own in rows.items():
            self.config[_stream(source, key)] |= _of_streams(source, key, own)
        # What the windows make of values changes the shape of a key, and its statistics.
        plan = source.cache.plan(self.config)
        for key in rows:
            outputs = plan.rows[_stream(source, key)].outputs
            self._features[key] |= {"shape": (len(outputs),), "names": outputs}
            source.meta.replace_stats(key, partial(self._statistics, key))

    def _statistics(self, key: str) -> dict[str, np.ndarray]:
        """Statistics of what comes out of a key. What is normalised by them is not among it."""
        name = _stream(self._source, key)
        config = {
            each: {k: v for k, v in own.items() if k != "normalize"}
            for each, own in self.config.items()
            if self._source.cache.streams[each]["vector"]
        }
        found = self._source.cache.window_statistics(config, self._source.sampler, streams=[name])
        return found[name]

    def _window(self, name: str, steps: Sequence[int]) -> dict[str, Any]:
        """The window of a stream. What a robot's policy sees is as late as the node has it; all else is of the frame."""
        means, period = self._source.cache.streams[name], self._source.sampler.period_ns
        offsets_ns = [step * period for step in steps]
        if name in self._source.labels:
            return {"offsets_ns": offsets_ns, "label": True}
        if means["plans"]:
            return {"offsets_ns": offsets_ns, "rows": "strict", "fill": "first"}
        lag_ns = -means["target_offsets_ns"][means["present"]]
        return {
            "offsets_ns": [offset - lag_ns for offset in offsets_ns],
            "label": False,
            "fill": "first",
        }

    def batch(self, windows: Windows, places: np.ndarray) -> dict[str, Any]:
        """A batch of items, as the default `collate_fn` of a DataLoader makes it of them, but for its images: see `shown`.

        Args:
            windows: of the items.
            places: the numbers of the items.
        """
        batch: dict[str, Any] = {}
        for key, streams in self._source.keys.items():
            batch[key] = self._values(key, [windows[name].torch() for name in streams])
            if key in self._steps:
                batch[f"{key}_is_pad"] = self._pads(key, streams, windows, places)
        for key, column in self._columns.items():
            where = places
            if key in self._steps:
                where, batch[f"{key}_is_pad"] = self._rows(self._steps[key], places)
            batch[key] = torch.from_numpy(column[where])
        numbers = self._columns["task_index"][places].tolist()
        batch["task"] = [self._tasks.get(number, "") for number in numbers]
        return batch

    def _pads(
        self, key: str, streams: Sequence[str], windows: Windows, places: np.ndarray
    ) -> torch.Tensor:
        """The steps of a key that are no measurement."""
        pads = torch.as_tensor(windows[streams[0]].is_pad)
        for name in streams[1:]:
            pads = pads | torch.as_tensor(windows[name].is_pad)
        if any(self.config[name].get("label") is False for name in streams):
            # The node has rows before the first frame and after the last, and holds the newest one.
            _, beyond = self._rows(self._steps[key], places)
            pads = pads | beyond.to(pads.device)
        return pads

    def _values(self, key: str, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """The values of a key, of those of its streams."""
        values = parts[0] if len(parts) == 1 else torch.cat([part.float() for part in parts], -1)
        if key in self.cameras:
            values = self._image(values, self._source.keys[key][0])
        else:
            shape = tuple(self._features[key]["shape"])
            values = values.float().reshape(*values.shape[:2], *(() if shape == (1,) else shape))
        # LeRobot leaves the axis of steps out if there is one step of a video.
        is_video = self._features[key]["dtype"] == "video"
        if key not in self._steps or (is_video and len(self._steps[key]) == 1):
            values = values.squeeze(1)
        return values

    def _image(self, values: torch.Tensor, name: str) -> torch.Tensor:
        """Images with their channels first, as the store has them."""
        means = self._source.cache.streams[name]
        if means["row_shape"][0] != len(means["channels"]):
            values = values.movedim(-1, -3)
        if values.shape[-3] == 1:
            values = values.expand(*values.shape[:-3], 3, *values.shape[-2:])
        return values

    def shown(self, images: torch.Tensor) -> torch.Tensor:
        """Images of a batch or of an item as policies see them: numbers in 0..1, or bytes if asked. Those that the store has
        normalised stay so."""
        if images.dtype != torch.uint8:
            return images.float()
        if self._bytes:
            return images
        if images.is_cuda:
            # A GPU multiplies by 1/255 if the divisor is a number, and those are other bits than the host's.
            return images.float().div_(torch.full((), 255.0, device=images.device))
        # One pass, in memory of large pages: torch converts first, and takes twice the time.
        numbers = np.empty(tuple(images.shape), np.float32)
        np.divide(images.numpy(), np.float32(255), out=numbers, dtype=np.float32)
        return torch.from_numpy(numbers)

    def _rows(self, steps: Sequence[int], places: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
        """The frames of the steps, those beyond the episode replaced by its first or last; and which are beyond."""
        ranges = np.searchsorted(self._ends, places, side="right")
        wanted = places[:, None] + np.asarray(steps, np.int64)
        begin, end = self._begins[ranges][:, None], self._ends[ranges][:, None]
        inside = np.clip(wanted, begin, end - 1)
        return inside, torch.from_numpy(inside != wanted)


def _stream(source: Source, key: str) -> str:
    """The stream of a key.

    Raises ValueError if there is no such key, or it has several streams.
    """
    streams = source.keys.get(key, ())
    if len(streams) != 1:
        known = ", ".join(k for k, names in source.keys.items() if len(names) == 1)
        raise ValueError(f"rows: expected keys of one stream, {known}, found {key!r}")
    return streams[0]


def _of_streams(source: Source, key: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Configuration of windows for the rows of a key: its reference is a stream, and that of `own` is a key."""
    if unknown := sorted(set(own) - set(KEYS)):
        raise ValueError(f"rows of {key!r}: expected {', '.join(KEYS)}, found {unknown[0]!r}")
    found = dict(own)
    if own.get("reference") is not None:
        found["reference"] = _stream(source, own["reference"])
    return found
