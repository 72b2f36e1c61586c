"""Point clouds and images to rows: what the node's encoders do, on arrays.

    grids = robocache.voxelize(points, origin_m=(-2, -2, 0), size_m=0.1, shape=(40, 40, 20)).values
    inputs = robocache.encode_image(images, size=(224, 224), mean=MEAN, std=STD)

Arrays are those of `robocache.operations`. On a GPU, `voxelize` waits for its grids, `encode_image` does
not. For tensors both are torch operators, without a gradient.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _layout, _native
from ._arrays import Array, Results, is_torch, of_torch

__all__ = ["Voxels", "encode_image", "voxelize"]

_IDENTITY = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
_CHANNEL = re.compile(r"(\w+)(?:\((\w+)\))?")
# The numbers by which the extension knows element types; images may stay bytes.
_CODES = {**_layout.CODES, "uint8": 3}


class Voxels(NamedTuple):
    """Grids, and what happened to the points."""

    values: Any
    """`[B, channels, Z, Y, X]`, or without B for one cloud of `[N, F]`."""
    dropped: Any
    """int64 `[B, 4]` on the host, of torch for tensors and else of NumPy: points that are not finite, whose values are out of range, that are
    outside the grid, and in voxels with too few."""


def voxelize(
    points: Any,
    *,
    origin_m: Sequence[float],
    size_m: float,
    shape: Sequence[int],
    channels: Sequence[str] = ("occupancy",),
    fields: Sequence[str] = ("x", "y", "z"),
    offsets: Any = None,
    min_points: int = 1,
    t_base_sensor: Any = None,
    dtype: Any = "float32",
    out: Any = None,
) -> Voxels:
    """Sorts the points of clouds into voxels.

    `points` are float32 or float64: `[N, F]` for one cloud, `[B, N, F]` for several, or `[sum of N, F]` with
    `offsets`, int64 `[B + 1]`, a sequence or an array on the host. `fields` name the F values of a point. The
    grid has its lower corner at `origin_m` and `shape` voxels along x, y and z of `size_m` [m] each. Each of the
    `channels` is "count", "occupancy", or one of mean, max, min, sum and last of a field, such as
    "mean(intensity)"; "range", and "offset_x", "offset_y", "offset_z" from the voxel's centre, are features as
    well. A voxel with fewer than `min_points` points is empty. `t_base_sensor`, 3 x 4 or 4 x 4, takes points to
    the frame of the grid. Empty voxels are 0. The result does not depend on the order of points, except "last".

    Raises TypeError for a wrong type of array or element, and ValueError for the rest: also if a value is beyond
    the range of `dtype`.
    """
    if is_torch(points) and out is None and not of_torch().is_plain(points):
        starts = _starts(offsets, points.shape, points.ndim == 2)
        pose = [number for row in _pose(t_base_sensor) for number in row]
        lists = [list(map(float, origin_m)), float(size_m), list(map(int, shape))]
        lists += [list(channels), list(fields), starts, offsets is None and points.ndim == 2]
        operator = sys.modules["torch"].ops.robocache.voxelize
        return Voxels(*operator(points, *lists, min_points, pose, _torch_type(dtype)))
    found = _voxelize(
        points,
        origin_m,
        size_m,
        shape,
        channels,
        fields,
        offsets,
        min_points,
        t_base_sensor,
        dtype,
        out,
    )
    if is_torch(points) and out is None:
        return Voxels(found.values, sys.modules["torch"].from_numpy(found.dropped))
    return found


def _torch_type(dtype: Any) -> Any:
    torch = sys.modules["torch"]
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise TypeError(f"dtype: expected an element type of torch, found {dtype}")
    return found


def _voxelize(
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
        _layout.expect_dims(points.shape, 2, "points", "[N, F], or [sum of N, F] with offsets")
    else:
        _layout.expect_dims(points.shape, 3, "points", "[N, F] or [B, N, F]")
    if points.shape[-1] != len(fields):
        raise ValueError(
            f"fields: expected a name for each of {points.shape[-1]} values, found {len(fields)}"
        )
    count = math.prod(points.shape[:-1])
    name = _arrays.dtype_name(dtype)
    rule = _voxel_rule(
        tuple(map(float, origin_m)),
        float(size_m),
        tuple(map(int, shape)),
        tuple(channels),
        tuple(fields),
        points.dtype == "float64",
        min_points,
        _layout.code(name, "dtype"),
        _pose(t_base_sensor),
    )
    starts = _starts(offsets, points.shape, single)
    grid = (len(channels), *tuple(map(int, shape))[::-1])
    lead = () if single else (len(starts) - 1,)
    results = Results(points)
    if out is None:
        values = results.empty((*lead, *grid), name)
    else:
        values = _arrays.checked_out(out, (*lead, *grid), name, points)
    address = Array(values, "out").pointer
    dropped = _native.voxelize(points.place, rule, (points.pointer, count), starts, address)
    values = results.give(values) if out is None else out
    return Voxels(values, np.array(dropped, np.int64).reshape(len(starts) - 1, 4))


def _starts(offsets: Any, shape: Sequence[int], single: bool) -> list[int]:
    """Where each cloud begins, and the number of points."""
    if offsets is None:
        each = shape[-2]
        return [each * at for at in range(2 if single else shape[0] + 1)]
    starts = offsets.tolist() if hasattr(offsets, "tolist") else list(offsets)
    if not starts or not all(isinstance(start, int) for start in starts):
        raise ValueError("offsets: expected at least one whole number")
    return starts


def _pose(t_base_sensor: Any) -> tuple[tuple[float, ...], ...]:
    if t_base_sensor is None:
        return _IDENTITY
    pose = np.asarray(t_base_sensor, np.float64)
    if pose.shape not in ((3, 4), (4, 4)):
        raise ValueError(
            f"t_base_sensor: expected the shape [3, 4] or [4, 4], found {list(pose.shape)}"
        )
    return tuple(map(tuple, pose[:3].tolist()))


@lru_cache(maxsize=64)
def _voxel_rule(origin_m, size_m, shape, channels, fields, wide, min_points, code, pose):
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
    *,
    size: Sequence[int],
    encoding: str | None = None,
    filter: str = "pil_bilinear",
    fit: str = "pad_center",
    crop: Sequence[int] | None = None,
    layout: str = "chw",
    color: str = "rgb",
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
    pad_value: int = 0,
    dtype: Any = "float32",
    out: Any = None,
) -> Any:
    """Crops, resizes, pads and normalises images.

    `images` are uint8, `[H, W, C]` for one or `[N, H, W, C]` for several of one size; C is 1, 3 or 4, and
    `encoding` says which: "rgb8" by default, "bgr8", "rgba8", "bgra8" or "mono8". `size` is the height and the
    width of the result, which is `[..., channels, height, width]`, or `[..., height, width, channels]` with the
    `layout` "hwc". `filter` and `fit` are those of configurations, `crop` is x, y, width and height of the part
    that is used [px]. A value is `(byte / 255 - mean) / std`, per channel of `color`: "rgb", "bgr" or "mono".
    `dtype` is float32, float16, bfloat16, or uint8 for the bytes as they are.

    Raises TypeError for a wrong type of array or element, and ValueError for the rest.
    """
    mean, std = _of_channels(mean, "mean"), _of_channels(std, "std")
    if is_torch(images) and out is None and not of_torch().is_plain(images):
        part = None if crop is None else list(map(int, crop))
        words = (encoding or "", filter, fit, part, layout, color)
        operator = sys.modules["torch"].ops.robocache.encode_image
        last = (list(mean), list(std), pad_value, _torch_type(dtype))
        return operator(images, list(map(int, size)), *words, *last)
    return _encode_image(
        images, size, encoding, filter, fit, crop, layout, color, mean, std, pad_value, dtype, out
    )


def _encode_image(
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
    encoding = encoding or {1: "mono8", 3: "rgb8", 4: "rgba8"}.get(channels, "rgb8")
    expected = {"mono8": 1, "rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4}.get(encoding, channels)
    if channels != expected:
        raise ValueError(f"images: expected {expected} channels of {encoding}, found {channels}")
    name = _arrays.dtype_name(dtype)
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
        rows = _arrays.checked_out(out, shape, name, images)
    count = math.prod(lead)
    address = Array(rows, "out").pointer
    if count > 0:
        of_images = (images.pointer, count, height, width)
        _native.encode_images(images.place, rule, encoding, of_images, address)
    if out is None:
        return results.give(rows)
    results.wait()
    return out


def _of_channels(numbers: Sequence[float], name: str) -> tuple[float, ...]:
    numbers = tuple(map(float, numbers))
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    if len(numbers) != 3:
        raise ValueError(f"{name}: expected 1 or 3 numbers, found {len(numbers)}")
    return numbers


@lru_cache(maxsize=64)
def _image_rule(*arguments):
    return _native.ImageRule(*arguments)
