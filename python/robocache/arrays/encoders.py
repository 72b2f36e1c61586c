"""Point clouds and images to rows: what the node's encoders do, on arrays.

    grids = robocache.voxelize(points, origin_m=(-2, -2, 0), size_m=0.1, shape=(40, 40, 20)).values
    inputs = robocache.encode_image(images, size=(224, 224), mean=MEAN, std=STD)

Arrays are those of `robocache.arrays.operations`. On a GPU, `voxelize` waits for its grids, `encode_image` does
not. For tensors both are torch operators, without a gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from . import encoder_kernels
from .dispatch import torch_operations
from .encoder_kernels import Voxels
from .interop import is_torch

__all__ = ["Voxels", "encode_image", "voxelize"]


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
    if is_torch(points) and out is None and not torch_operations().is_plain(points):
        starts = encoder_kernels.starts_of(offsets, points.shape, points.ndim == 2)
        pose = [number for row in encoder_kernels.pose_of(t_base_sensor) for number in row]
        lists = [list(map(float, origin_m)), float(size_m), list(map(int, shape))]
        lists += [list(channels), list(fields), starts, offsets is None and points.ndim == 2]
        operator = sys.modules["torch"].ops.robocache.voxelize
        return Voxels(*operator(points, *lists, min_points, pose, _torch_type(dtype)))
    found = encoder_kernels.voxelize(
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
    if is_torch(images) and out is None and not torch_operations().is_plain(images):
        part = None if crop is None else list(map(int, crop))
        words = (encoding or "", filter, fit, part, layout, color)
        operator = sys.modules["torch"].ops.robocache.encode_image
        last = (list(mean), list(std), pad_value, _torch_type(dtype))
        return operator(images, list(map(int, size)), *words, *last)
    return encoder_kernels.encode_image(
        images, size, encoding, filter, fit, crop, layout, color, mean, std, pad_value, dtype, out
    )


def _torch_type(dtype: Any) -> Any:
    torch = sys.modules["torch"]
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise TypeError(f"dtype: expected an element type of torch, found {dtype}")
    return found


def _of_channels(numbers: Sequence[float], name: str) -> tuple[float, ...]:
    numbers = tuple(map(float, numbers))
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    if len(numbers) != 3:
        raise ValueError(f"{name}: expected 1 or 3 numbers, found {len(numbers)}")
    return numbers
