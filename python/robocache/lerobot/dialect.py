"""Windows of streams as batches of LeRobot's items. It needs PyTorch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import torch

from ..training.action_rows import KEYS
from ..training.windows import View, WindowPlan, Windows
from .sources import Source

__all__ = ["Dialect"]


class _Views(NamedTuple):
    """Views of the values and masks of a batch, for one number of windows."""

    #: The keys whose values are views of the buffer; those of them whose values become float32, and the cameras whose
    #: images become contiguous.
    keys: list[str]
    floats: list[str]
    contiguous: list[str]
    #: Of the buffer: the values of `keys`, and then the flags of each stream of a key with a mask.
    parts: list[View]
    #: By key its masks among all flags, one after the other: one for each of its streams.
    masks: list[tuple[str, list[View]]]


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
        self._source, self._steps = source, dict(steps)
        self._features = source.meta.features
        spans = source.sampler.spans()
        ends = np.cumsum(spans.counts)
        self._begins, self._ends = ends - spans.counts, ends
        # A frame without a task has the number -1.
        self._texts = defaultdict(str, source.meta.tasks)
        self.cameras = [
            key for key in source.keys if self._features[key]["dtype"] in ("image", "video")
        ]
        self.config: dict[str, dict[str, Any]] = {}
        for key, streams in source.keys.items():
            for name in streams:
                self.config[name] = self._window(name, self._steps.get(key, (0,)))
                if key in self.cameras and not return_uint8:
                    # Those of a store may be numbers already.
                    self.config[name]["scale"] = source.cache.streams[name]["dtype"] == "u8"
        for key, own in rows.items():
            self.config[_stream(source, key)] |= _of_streams(source, key, own)
        # What the windows make of values changes the shape of a key, and its statistics.
        self._plan: WindowPlan | None = None
        plan = self.plan
        for key in rows:
            outputs = plan.rows[_stream(source, key)].outputs
            self._features[key] |= {"shape": (len(outputs),), "names": outputs}
            source.meta.replace_stats(key, partial(self._statistics, key))
        # A value of several streams, or one that the windows make, is no view of their buffer.
        self._made = [key for key, of in source.keys.items() if len(of) > 1 or of[0] in plan.rows]
        self._views: dict[int, _Views] = {}
        # The node has rows before the first frame and after the last, and holds the newest one.
        self._late = [
            key
            for key, streams in source.keys.items()
            if key in self._steps and any(self.config[of].get("label") is False for of in streams)
        ]
        self._stepped = [key for key in source.columns if key in self._steps]
        self._ahead, self._spans = _joined(
            {key: self._steps[key] for key in (*self._stepped, *self._late)}
        )

    @property
    def plan(self) -> WindowPlan:
        """The prepared windows, which each process makes once."""
        if self._plan is None:
            self._plan = self._source.cache.plan(self.config)
        return self._plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

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

    def batch(self, windows: Windows, items: np.ndarray) -> dict[str, Any]:
        """A batch of items, as the default `collate_fn` of a DataLoader makes it of them.

        Args:
            windows: of the items.
            items: their numbers.
        """
        count = windows.batch_size
        views = self._views.get(count)
        if views is None:
            if len(self._views) > 64:
                self._views.clear()
            views = self._views[count] = self._viewed(windows.plan, count)
        parts = windows.tensors(views.parts)
        values, flags = parts[: len(views.keys)], parts[len(views.keys) :]
        batch: dict[str, Any] = dict(zip(views.keys, values, strict=True))
        for key in views.floats:
            batch[key] = batch[key].float()
        for key in views.contiguous:
            batch[key] = batch[key].contiguous()
        for key in self._made:
            parts = [windows[name].torch().float() for name in self._source.keys[key]]
            whole = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
            batch[key] = self._shaped(key, whole)
        batch |= self._source.columns.taken(items)
        batch["task"] = list(map(self._texts.__getitem__, batch["task_index"].numpy().tolist()))
        if flags:
            _add_masks(batch, flags, views.masks)
        if self._spans:
            self._add_frames(batch, items)
        return batch

    def _viewed(self, plan: WindowPlan, count: int) -> _Views:
        """Views of the buffer of this many windows."""
        values, valid, flags = {}, [], 0
        masks: list[tuple[str, list[View]]] = []
        for key, streams in self._source.keys.items():
            if key not in self._made:
                values[key] = plan.view(streams[0], count, partial(self._shaped, key))
            if key not in self._steps:
                continue
            masks.append((key, []))
            for name in streams:
                valid.append(plan.view(name, count, kind="valid"))
                masks[-1][1].append(valid[-1]._replace(offset=flags))
                flags += math.prod(valid[-1].shape)
        images = {key: of for key, of in values.items() if key in self.cameras}
        of_bytes = {key for key, of in images.items() if of.dtype == "u8"}
        floats = [key for key, of in values.items() if of.dtype != "f32" and key not in of_bytes]
        # The channels of a gray image are one, but a policy may change them in place. Bytes may have their channels last.
        contiguous = [
            key for key, of in images.items() if key not in of_bytes or of.strides[-3] == 0
        ]
        return _Views(list(values), floats, contiguous, [*values.values(), *valid], masks)

    def _add_frames(self, batch: dict[str, Any], items: np.ndarray) -> None:
        """Adds the steps of columns, and marks those of streams that are beyond the episode. A step of a column beyond it is
        the first or the last frame."""
        ranges = np.searchsorted(self._ends, items, side="right")
        wanted = items[:, None] + self._ahead
        begin, end = self._begins[ranges][:, None], self._ends[ranges][:, None]
        inside = np.clip(wanted, begin, end - 1)
        beyond = torch.from_numpy(inside != wanted)
        for key in self._stepped:
            own = self._spans[key]
            batch[key] = torch.from_numpy(self._source.columns[key][inside[:, own]])
            batch[f"{key}_is_pad"] = beyond[:, own].contiguous()
        for key in self._late:
            mask = batch[f"{key}_is_pad"]
            mask |= beyond[:, self._spans[key]].to(mask.device)

    def _shaped(self, key: str, values: torch.Tensor) -> torch.Tensor:
        """Values of a key in the shape that its items have: a view."""
        if key in self.cameras:
            values = self._image(values, self._source.keys[key][0])
        else:
            shape = tuple(self._features[key]["shape"])
            values = values.reshape(*values.shape[:2], *(() if shape == (1,) else shape))
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


def _add_masks(
    batch: dict[str, Any], flags: Sequence[torch.Tensor], masks: Sequence[tuple[str, list[View]]]
) -> None:
    """Adds which steps of streams are no measurement. One operation negates the flags of all valid steps."""
    if len(flags) == 1:
        batch[f"{masks[0][0]}_is_pad"] = ~flags[0]
        return
    negated = torch.cat([of.flatten() for of in flags]).logical_not_()
    for key, of_key in masks:
        of_streams = [negated.as_strided(*mask[1:]) for mask in of_key]
        # A step without one of its streams is no measurement.
        batch[f"{key}_is_pad"] = reduce(torch.bitwise_or, of_streams)


def _joined(steps: Mapping[str, Sequence[int]]) -> tuple[np.ndarray, dict[str, slice]]:
    """The steps of several keys, one after the other; and by key where they are among them."""
    spans: dict[str, slice] = {}
    ahead: list[int] = []
    for key, of_key in steps.items():
        spans[key] = slice(len(ahead), len(ahead) + len(of_key))
        ahead += of_key
    return np.array(ahead, np.int64), spans


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
