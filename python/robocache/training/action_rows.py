"""What the windows of a training make of actions: differences to the present state, rotations, normalised numbers.

A policy answers such rows; `taken_back` makes actions of them. `EpisodeCache.windows` takes the same keys as a contract has
under `actions`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.interop import is_torch
from . import rotations

__all__ = ["KEYS", "ActionRows", "with_statistics"]

#: What a stream of a configuration of windows may have, beside what `choices` has.
KEYS = ("relative", "reference", "poses", "rotation_6d", "normalize")
#: By mode the numbers that it takes.
_MODES = {"mean_std": ("mean", "std"), "min_max": ("min", "max"), "quantile": ("q01", "q99")}


class ActionRows:
    """Makes rows of a stream's values, and takes them back. Arrays are of NumPy or torch, float32.

    Attributes:
        stream, reference: names; the second is None without relative channels.
        channels: the names of the stream's channels.
        outputs: the names of the numbers of a row.

    Args:
        name: of the stream.
        config: of the stream, with some of `KEYS`.
        streams: what the streams of the cache mean, by name.

    Raises ValueError if something does not fit.
    """

    def __init__(
        self, name: str, config: Mapping[str, Any], streams: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.stream, self.reference = name, config.get("reference")
        self.channels = _channels(name, streams)
        if any(of["operators"] for of in streams[name]["vector"].get("outputs", ())):
            raise ValueError(
                f"'{name}': expected actions without operators in the configuration, found some: use normalize of the windows"
            )
        self._poses = [
            _Pose(name, pose, self.channels, config.get("rotation_6d"))
            for pose in config.get("poses", ())
        ]
        if config.get("rotation_6d") is not None and not self._poses:
            raise ValueError(f"rotation_6d of '{name}': expected poses beside it, found none")
        self.rotation_6d = config.get("rotation_6d")
        taken = [at for pose in self._poses for at in pose.places]
        if len(set(taken)) != len(taken):
            raise ValueError(f"poses of '{name}': expected each channel once, found one twice")
        self.relative = self._chosen(config.get("relative", False))
        self._places = self._in_reference(streams)
        self._operators = self._of_reference(streams)
        for pose in self._poses:
            pose.is_relative = bool(self.relative[list(pose.places)].any())
            if pose.is_relative and not self.relative[list(pose.places)].all():
                raise ValueError(
                    f"relative of '{name}': expected all channels of a pose or none, found some of "
                    f"{', '.join(pose.channels)}"
                )
        self._plan = self._order()
        self.outputs = [label for label, *_ in self._plan]
        self._affine = self._normalised(config.get("normalize"))

    def _chosen(self, wanted: Any) -> np.ndarray:
        """By channel: true if its rows are relative."""
        if isinstance(wanted, bool):
            chosen: np.ndarray = np.full(len(self.channels), wanted)
        else:
            places = [_place(self.stream, "relative", each, self.channels) for each in wanted]
            chosen = np.isin(np.arange(len(self.channels)), places)
        if chosen.any() != (self.reference is not None):
            raise ValueError(
                f"'{self.stream}': expected relative, the channels, and reference, the stream that has their values, found "
                "one without the other"
            )
        return chosen

    def _in_reference(self, streams: Mapping[str, Mapping[str, Any]]) -> np.ndarray:
        """By channel its place in the reference; 0 if it is not relative."""
        found = np.zeros(len(self.channels), np.int64)
        if self.reference is None:
            return found
        if self.reference not in streams:
            known = ", ".join(streams)
            raise ValueError(
                f"reference of '{self.stream}': expected one of {known}, found {self.reference!r}"
            )
        others = _channels(self.reference, streams)
        for at in np.flatnonzero(self.relative):
            found[at] = _place(self.stream, "reference", self.channels[at], others)
        return found

    def _of_reference(
        self, streams: Mapping[str, Mapping[str, Any]]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Scale and offset that the operators of the configuration gave the channels of the reference; None without any."""
        outputs = [] if self.reference is None else streams[self.reference]["vector"].get("outputs")
        if not outputs:
            return None
        scale, offset = np.ones(len(outputs)), np.zeros(len(outputs))
        for at in set(self._places[self.relative].tolist()):
            for operator in outputs[at]["operators"]:
                affine = operator.get("affine") if isinstance(operator, dict) else None
                if affine is None or "channel" not in outputs[at]["source"]:
                    raise ValueError(
                        f"reference of '{self.stream}': expected operators that can be taken back, such as scale, offset and "
                        f"normalize, found others of {outputs[at]['name']} in {self.reference!r}"
                    )
                offset[at] = (offset[at] - affine["shift"]) * affine["scale"] + affine["offset"]
                scale[at] *= affine["scale"]
        return scale, offset

    def _plain(self, xp: Any, reference: Any) -> Any:
        """The newest step of the reference `[windows, 1, channels]`, before the operators."""
        if reference is None:
            return None
        if self._operators is not None:
            scale, offset = (_like(xp, each, reference) for each in self._operators)
            reference = _as_float32(xp, (_as_float64(xp, reference) - offset) / scale)
        return reference[:, None, :]

    def _order(self) -> list[tuple[str, Any, int]]:
        """For each number of a row its name, the pose that it is of or None, and its place there or among the channels."""
        of_place = {pose.places[0]: pose for pose in self._poses}
        in_poses = {at for pose in self._poses for at in pose.places}
        order: list[tuple[str, Any, int]] = []
        for at, channel in enumerate(self.channels):
            if at in of_place:
                pose = of_place[at]
                order += [(label, pose, n) for n, label in enumerate(pose.outputs)]
            elif at not in in_poses:
                order.append((channel, None, at))
        return order

    def _normalised(self, given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Shift, scale and offset, `[numbers]` or `[steps, numbers]`; None if rows are not normalised."""
        if given is None:
            return None
        what = f"normalize of '{self.stream}'"
        known = {"mode", "stats", "key", "eps"}
        if not isinstance(given, Mapping) or set(given) - known or given.get("mode") not in _MODES:
            raise ValueError(
                f"{what}: expected mode ({', '.join(_MODES)}), stats, and if needed key and eps, found {given!r}"
            )
        stats = _statistics(what, given.get("stats"), given.get("key"))
        names, numbers = _MODES[given["mode"]], []
        for name in names:
            if name not in stats:
                raise ValueError(f"{what}: expected {name} in stats, found {', '.join(stats)}")
            array = np.asarray(stats[name], np.float64)
            if array.ndim not in (1, 2) or array.shape[-1] != len(self.outputs):
                raise ValueError(
                    f"{what}: expected {len(self.outputs)} numbers in {name}, one of each of {', '.join(self.outputs)}, found "
                    f"the shape {list(array.shape)}"
                )
            numbers.append(array)
        low, high = numbers
        is_mean = given["mode"] == "mean_std"
        divisor = (high if is_mean else high - low) + float(given.get("eps", 0))
        if not np.isfinite([low, divisor]).all() or (divisor == 0).any():
            at = np.argmax(
                ((divisor == 0) | ~np.isfinite(divisor)).reshape(-1, divisor.shape[-1]).any(0)
            )
            raise ValueError(
                f"{what}: expected finite numbers that differ, or eps, found none of {self.outputs[int(at)]}"
            )
        scale = (1.0 if is_mean else 2.0) / divisor
        return low, scale, np.full_like(low, 0.0 if is_mean else -1.0)

    def made(self, values: Any, reference: Any) -> Any:
        """Rows of values `[windows, steps, channels]`. `reference`: `[windows, channels of it]`, its newest step; or None."""
        xp = _library(values)
        base = self._plain(xp, reference)
        parts = {id(pose): pose.made(xp, values, base, self._places) for pose in self._poses}
        numbers = []
        for _, pose, at in self._plan:
            if pose is not None:
                numbers.append(parts[id(pose)][..., at])
            elif self.relative[at]:
                numbers.append(values[..., at] - base[..., int(self._places[at])])
            else:
                numbers.append(values[..., at])
        return self._scaled(xp, xp.stack(numbers, -1))

    def taken_back(self, rows: Any, reference: Any = None) -> Any:
        """The actions of rows that a policy answers: the opposite of what the windows of its training made.

        Args:
            rows: `[steps, numbers]`, or `[windows, steps, numbers]`.
            reference: of relative channels the newest step of the stream `reference` in the tensor that is answered:
                `[channels]`, or `[windows, channels]`.
        """
        if self.reference is not None and reference is None:
            raise ValueError(
                f"reference: expected the newest step of {self.reference!r}, found None"
            )
        if rows.ndim == 2:
            one = None if reference is None else reference[None]
            return self.taken_back(rows[None], one)[0]
        xp = _library(rows)
        rows = self._unscaled(xp, rows)
        base = self._plain(xp, reference)
        values: list[Any] = [None] * len(self.channels)
        for pose in self._poses:
            own = [n for n, (_, of, _) in enumerate(self._plan) if of is pose]
            back = pose.taken_back(xp, rows[..., own[0] : own[-1] + 1], base, self._places)
            for n, at in enumerate(pose.places):
                values[at] = back[..., n]
        for n, (_, of, at) in enumerate(self._plan):
            if of is None:
                own_base = base[..., int(self._places[at])] if self.relative[at] else 0
                values[at] = rows[..., n] + own_base
        return xp.stack(values, -1)

    def _scaled(self, xp: Any, rows: Any) -> Any:
        if self._affine is None:
            return rows
        shift, scale, offset = (_like(xp, each, rows) for each in self._affine)
        return _as_float32(xp, (_as_float64(xp, rows) - shift) * scale + offset)

    def _unscaled(self, xp: Any, rows: Any) -> Any:
        if self._affine is None:
            return rows
        shift, scale, offset = (_like(xp, each, rows) for each in self._affine)
        return _as_float32(xp, (_as_float64(xp, rows) - offset) / scale + shift)

    def in_contract(self) -> dict[str, Any]:
        """What a contract has of it, for `choices.answered`.

        Raises ValueError if its rows are normalised by step, which no contract has.
        """
        found: dict[str, Any] = {
            "relative": [c for c, is_it in zip(self.channels, self.relative, strict=True) if is_it],
            "reference": self.reference,
        }
        if self._affine is not None:
            if self._affine[0].ndim > 1:
                raise ValueError(
                    f"normalize of '{self.stream}': expected one number per channel for a contract, found some for each step"
                )
            names = ("shift", "scale", "offset")
            numbers = zip(*(each.tolist() for each in self._affine), strict=True)
            found["operators"] = [[{"affine": dict(zip(names, of, strict=True))}] for of in numbers]
        if self._poses:
            poses = [list(pose.channels) for pose in self._poses]
            found["poses"] = {"poses": poses, "outputs": self.outputs}
            if self.rotation_6d is not None:
                found["poses"]["rotation_6d"] = self.rotation_6d
        return found


class _Pose:
    """Three channels of a position and those of a rotation: a quaternion (x, y, z, w), or roll, pitch and yaw."""

    def __init__(
        self, stream: str, names: Sequence[str], channels: Sequence[str], order: str | None
    ) -> None:
        if len(names) not in (6, 7):
            raise ValueError(
                f"poses of '{stream}': expected x, y, z and qx, qy, qz, qw, or roll, pitch, yaw, found {list(names)}"
            )
        if order is not None and order not in rotations.SIX:
            raise ValueError(
                f"rotation_6d of '{stream}': expected one of {', '.join(rotations.SIX)}, found {order!r}"
            )
        self.places = [_place(stream, "poses", name, channels) for name in names]
        self.channels = [channels[at] for at in self.places]
        self.is_relative, self._order, self._is_rpy = False, order, len(names) == 6
        self.outputs = list(self.channels)
        if order is not None:
            first = self.channels[0].removesuffix(".position")
            entries = [f"{first}.r{row}{column}" for row, column in rotations.SIX[order]]
            self.outputs = [*self.channels[:3], *entries]

    def _read(self, xp: Any, values: Any, places: Sequence[int]) -> tuple[Any, Any]:
        """Position and quaternion."""
        position = xp.stack([values[..., at] for at in places[:3]], -1)
        rotation = xp.stack([values[..., at] for at in places[3:]], -1)
        if self._is_rpy:
            return position, rotations.of_rpy(xp, rotation)
        return position, rotations.unit(xp, rotation)

    def _written(self, xp: Any, position: Any, rotation: Any, order: str | None) -> Any:
        if order is not None:
            turned = rotations.to_six(xp, rotation, order)
        elif self._is_rpy:
            turned = rotations.to_rpy(xp, rotation)
        else:
            turned = xp.where(rotation[..., 3:] < 0, -rotation, rotation)
        return xp.concatenate([position, turned], -1)

    def made(self, xp: Any, values: Any, base: Any, places: np.ndarray) -> Any:
        position, rotation = self._read(xp, values, self.places)
        if self.is_relative:
            origin, axes = self._read(xp, base, [int(places[at]) for at in self.places])
            back = rotations.conjugate(xp, axes)
            position = rotations.turned(xp, back, position - origin)
            rotation = rotations.product(xp, back, rotation)
        return self._written(xp, position, rotation, self._order)

    def taken_back(self, xp: Any, rows: Any, base: Any, places: np.ndarray) -> Any:
        position, rest = rows[..., :3], rows[..., 3:]
        if self._order is not None:
            rotation = rotations.of_six(xp, rest, self._order)
        else:
            rotation = rotations.of_rpy(xp, rest) if self._is_rpy else rotations.unit(xp, rest)
        if self.is_relative:
            origin, axes = self._read(xp, base, [int(places[at]) for at in self.places])
            position = origin + rotations.turned(xp, axes, position)
            rotation = rotations.product(xp, axes, rotation)
        return self._written(xp, position, rotation, None)


def _channels(name: str, streams: Mapping[str, Mapping[str, Any]]) -> list[str]:
    means = streams[name]
    if not means["vector"]:
        raise ValueError(
            f"'{name}': expected a stream of vectors for relative rows, poses and normalize, found another"
        )
    if len(means["row_shape"]) != 1 or len(means["channels"]) != means["row_shape"][0]:
        raise ValueError(
            f"'{name}': expected a name for each number of a row, found {means['channels']}"
        )
    return list(means["channels"])


def _place(stream: str, key: str, wanted: str, channels: Sequence[str]) -> int:
    """The place of a channel, or of the only channel of a joint."""
    bare = [channel.rpartition(":")[2] for channel in channels]
    for names in (channels, bare, [name.removesuffix(".position") for name in bare]):
        if list(names).count(wanted) == 1:
            return list(names).index(wanted)
    raise ValueError(
        f"{key} of '{stream}': expected channels of {', '.join(channels)}, found {wanted!r}"
    )


def _statistics(what: str, given: Any, key: Any) -> Mapping[str, Any]:
    """Statistics by name: those that are given, or of a key in a file of LeRobot or openpi."""
    if isinstance(given, str | os.PathLike):
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{what}: expected a JSON file of statistics, found {error}") from None
        given = given.get("norm_stats", given)
        if key is None:
            raise ValueError(f"{what}: expected key, one of {', '.join(given)}, found none")
    if key is not None and isinstance(given, Mapping):
        if key not in given:
            raise ValueError(f"{what}: expected a key of {', '.join(given)}, found {key!r}")
        given = given[key]
    if not isinstance(given, Mapping):
        raise ValueError(f"{what}: expected stats by name, or the path of a file, found {given!r}")
    return given


def with_statistics(config: Any) -> Any:
    """A configuration of windows whose `normalize` has the numbers of its file instead of its path. Others stay as they are.

    Raises ValueError if a file has no such statistics.
    """
    if not isinstance(config, Mapping):
        return config
    read = {}
    for name, own in config.items():
        normalize = own.get("normalize") if isinstance(own, Mapping) else None
        if isinstance(normalize, Mapping) and isinstance(normalize.get("stats"), str | os.PathLike):
            given = dict(normalize)
            path, key = given.pop("stats"), given.pop("key", None)
            stats = _statistics(f"normalize of '{name}'", path, key)
            read[name] = {**own, "normalize": {**given, "stats": stats}}
    return {**config, **read} if read else config


def _library(values: Any) -> Any:
    if not is_torch(values):
        return np
    import torch

    return torch


def _like(xp: Any, numbers: np.ndarray, values: Any) -> Any:
    return numbers if xp is np else xp.as_tensor(numbers, device=values.device)


def _as_float64(xp: Any, values: Any) -> Any:
    return values.astype(np.float64) if xp is np else values.double()


def _as_float32(xp: Any, values: Any) -> Any:
    return values.astype(np.float32) if xp is np else values.float()
