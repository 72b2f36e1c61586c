"""What the functions of `encoders` compute, on arrays of any library, without gradients and tracing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import _native
from . import batch_shapes, interop
from .interop import Array, Results

IDENTITY = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
_CHANNEL = re.compile(r"(\w+)(?:\((\w+)\))?")
# The numbers by which the extension knows element types; images may stay bytes.
_CODES = {**batch_shapes.CODES, "uint8": 3}


class Voxels(NamedTuple):
    """Grids, and what happened to the points."""

    values: Any
    """`[B, channels, Z, Y, X]`, or without B for one cloud of `[N, F]`."""
    dropped: Any
    """int64 `[B, 4]` on the host, of torch for tensors and else of NumPy. The numbers of points that are not finite,
    have values out of range, are outside the grid, and are in voxels with too few points."""


def voxelize(
    points: Any,
    origin_m: Sequence[float],
    size_m: float,
    shape: Sequence[int],
    channels: Sequence[str],
    fields: Sequence[str],
    offsets: Any,
    min_points: int,
    t_base_sensor: Any,
    dtype: Any,
    out: Any,
) -> Voxels:
    points = Array(points, "points")
    if points.dtype not in ("float32", "float64"):
        raise TypeError(f"points: expected elements of float32 or float64, found {points.dtype}")
    single = len(points.shape) == 2 and offsets is None
    if offsets is not None or single:
        batch_shapes.expect_dims(points.shape, 2, "points", "[N, F], or [sum of N, F] with offsets")
    else:
        batch_shapes.expect_dims(points.shape, 3, "points", "[N, F] or [B, N, F]")
    if points.shape[-1] != len(fields):
        raise ValueError(
            f"fields: expected a name for each of {points.shape[-1]} values, found {len(fields)}"
        )
    count = math.prod(points.shape[:-1])
    name = interop.dtype_name(dtype)
    rule = voxel_rule(
        tuple(map(float, origin_m)),
        float(size_m),
        tuple(map(int, shape)),
        tuple(channels),
        tuple(fields),
        points.dtype == "float64",
        min_points,
        batch_shapes.code(name, "dtype"),
        pose_of(t_base_sensor),
    )
    starts = starts_of(offsets, points.shape, single)
    grid = (len(channels), *tuple(map(int, shape))[::-1])
    lead = () if single else (len(starts) - 1,)
    results = Results(points)
    if out is None:
        values = results.empty((*lead, *grid), name)
    else:
        values = interop.checked_out(out, (*lead, *grid), name, [points])
    address = Array(values, "out").pointer
    dropped = _native.voxelize(points.place, rule, (points.pointer, count), starts, address)
    values = results.give(values) if out is None else out
    return Voxels(values, np.array(dropped, np.int64).reshape(len(starts) - 1, 4))


def starts_of(offsets: Any, shape: Sequence[int], single: bool) -> list[int]:
    """Where each cloud begins, and the number of points."""
    if offsets is None:
        each = shape[-2]
        return [each * at for at in range(2 if single else shape[0] + 1)]
    starts = offsets.tolist() if hasattr(offsets, "tolist") else list(offsets)
    if not starts or not all(isinstance(start, int) for start in starts):
        raise ValueError("offsets: expected at least one whole number")
    return starts


def pose_of(t_base_sensor: Any) -> tuple[tuple[float, ...], ...]:
    """The three rows of a transform; those of the identity by default."""
    if t_base_sensor is None:
        return IDENTITY
    pose = np.asarray(t_base_sensor, np.float64)
    if pose.shape not in ((3, 4), (4, 4)):
        raise ValueError(
            f"t_base_sensor: expected the shape [3, 4] or [4, 4], found {list(pose.shape)}"
        )
    return tuple(map(tuple, pose[:3].tolist()))


@lru_cache(maxsize=64)
def voxel_rule(origin_m, size_m, shape, channels, fields, wide, min_points, code, pose):
    parts = []
    for channel in channels:
        match = _CHANNEL.fullmatch(channel)
        if match is None:
            raise ValueError(
                f"channels: expected words such as count or mean(x), found {channel!r}"
            )
        parts.append((match[1], match[2] or ""))
    return _native.VoxelRule(
        origin_m, size_m, shape, parts, list(fields), wide, min_points, code, pose
    )


def encode_image(
    images: Any,
    size: Sequence[int],
    encoding: str | None,
    filter: str,
    fit: str,
    crop: Sequence[int] | None,
    layout: str,
    color: str,
    mean: Sequence[float],
    std: Sequence[float],
    pad_value: int,
    dtype: Any,
    out: Any,
) -> Any:
    images = Array(images, "images")
    if images.dtype != "uint8":
        raise TypeError(f"images: expected elements of uint8, found {images.dtype}")
    if len(images.shape) not in (3, 4):
        raise ValueError(
            f"images: expected the shape [H, W, C] or [N, H, W, C], found {list(images.shape)}"
        )
    *lead, height, width, channels = images.shape
    encoding = _checked_encoding(encoding, channels)
    name = interop.dtype_name(dtype)
    if name not in _CODES:
        raise TypeError(f"dtype: expected one of {', '.join(_CODES)}, found {name}")
    if not 0 <= pad_value <= 255:
        raise ValueError(f"pad_value: expected 0 to 255, found {pad_value}")
    rule = _image_rule(
        (tuple(map(int, size)),),
        filter,
        fit,
        None if crop is None else tuple(map(int, crop)),
        layout,
        color,
        tuple(mean),
        tuple(std),
        pad_value,
        _CODES[name],
    )
    results = Results(images)
    shape = (*lead, *rule.shape)
    if out is None:
        rows = results.empty(shape, name)
    else:
        rows = interop.checked_out(out, shape, name, [images])
    count = math.prod(lead)
    address = Array(rows, "out").pointer
    if count > 0:
        of_images = (images.pointer, count, height, width)
        _native.encode_images(images.place, rule, encoding, of_images, address)
    if out is None:
        return results.give(rows)
    results.wait()
    return out


def _checked_encoding(encoding: str | None, channels: int) -> str:
    encoding = encoding or {1: "mono8", 3: "rgb8", 4: "rgba8"}.get(channels, "rgb8")
    expected = {"mono8": 1, "rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4}.get(encoding, channels)
    if channels != expected:
        raise ValueError(f"images: expected {expected} channels of {encoding}, found {channels}")
    return encoding


@lru_cache(maxsize=64)
def _image_rule(*arguments):
    return _native.ImageRule(*arguments)
