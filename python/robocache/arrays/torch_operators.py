"""The operations as torch operators: `torch.ops.robocache.resample`, `fuse`, `fuse_seconds`, `voxelize` and `encode_image`.

They have fake kernels, for `torch.compile(fullgraph=True)`, and gradients with respect to rows: that of the strategy
"linear" with linear lanes. Another one raises RuntimeError in `backward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import batch_shapes, encoder_kernels, torch_kernels
from .torch_asks import expect_no_tangent
from .torch_kernels import CODES, DTYPES, shape_of


class _Library(torch.library.Library):
    """A library whose kernels for gradients refuse tangents: torch's own would silently give none."""

    def impl(self, name, kernel, key="", **others):
        super().impl(name, _without_tangent(kernel) if key == "Autograd" else kernel, key, **others)


def _without_tangent(kernel):
    def checked(keys, *arguments, **others):
        # `torch.func.jvp` of an operator itself comes here with its tangents, and no further.
        first = arguments[0]
        expect_no_tangent([first] if isinstance(first, Tensor) else first)
        return kernel(keys, *arguments, **others)

    return checked


_library = _Library("robocache", "DEF")
_library.define(
    "resample(Tensor rows, Tensor stamps, Tensor targets, str strategy, int max_age_ns, int max_gap_ns,"
    " str fill, str lanes, ScalarType dtype, Tensor? row_offsets, Tensor? target_offsets)"
    " -> (Tensor, Tensor, Tensor)"
)
_library.define(
    "fuse(Tensor[] rows, Tensor[] stamps, Tensor targets, str[] strategy, int[] max_age_ns,"
    " int[] max_gap_ns, str[] fill, str[] lanes, ScalarType dtype, Tensor?[] row_offsets,"
    " Tensor? target_offsets) -> (Tensor, Tensor, Tensor)"
)
_library.define(
    "fuse_backward(Tensor of_values, Tensor[] stamps, Tensor targets, int[] dims, int[] types,"
    " str[] strategy, int[] max_age_ns, int[] max_gap_ns, str[] fill, str[] lanes, Tensor?[] row_offsets,"
    " Tensor? target_offsets) -> Tensor[]"
)
_library.define("fuse_seconds(Tensor[] rows, Tensor[] times, Tensor targets) -> Tensor")
_library.define(
    "fuse_seconds_backward(Tensor of_values, Tensor[] times, Tensor targets, int[] dims) -> Tensor[]"
)
_library.define(
    "voxelize(Tensor points, float[] origin_m, float size_m, int[] shape, str[] channels, str[] fields,"
    " SymInt[] starts, bool single, int min_points, float[] pose, ScalarType dtype) -> (Tensor, Tensor)"
)
_library.define(
    "encode_image(Tensor images, int[] size, str encoding, str filter, str fit, int[]? crop, str layout,"
    " str color, float[] mean, float[] std, int pad_value, ScalarType dtype) -> Tensor"
)


def _voxelize(
    points: Tensor,
    origin_m: Sequence[float],
    size_m: float,
    shape: Sequence[int],
    channels: Sequence[str],
    fields: Sequence[str],
    starts: Sequence[int],
    single: bool,
    min_points: int,
    pose: Sequence[float],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    flat = points.reshape(-1, points.shape[-1])
    rows = [pose[at : at + 4] for at in (0, 4, 8)]
    found = encoder_kernels.voxelize(
        flat, origin_m, size_m, shape, channels, fields, starts, min_points, rows, dtype, None
    )
    return found.values[0] if single else found.values, torch.from_numpy(found.dropped)


def _encode_image(
    images: Tensor,
    size: Sequence[int],
    encoding: str,
    filter: str,
    fit: str,
    crop: Sequence[int] | None,
    layout: str,
    color: str,
    mean: Sequence[float],
    std: Sequence[float],
    pad_value: int,
    dtype: torch.dtype,
) -> Tensor:
    how = (filter, fit, crop, layout, color, mean, std, pad_value, dtype)
    return encoder_kernels.encode_image(images, size, encoding or None, *how, None)


for _device in ("CPU", "CUDA"):
    _library.impl("voxelize", _voxelize, _device)
    _library.impl("encode_image", _encode_image, _device)
    _library.impl("resample", torch_kernels.resample, _device)
    _library.impl("fuse", torch_kernels.fuse, _device)
    _library.impl("fuse_backward", torch_kernels.fuse_backward, _device)
    _library.impl("fuse_seconds", torch_kernels.fuse_seconds, _device)
    _library.impl("fuse_seconds_backward", torch_kernels.fuse_seconds_backward, _device)


@torch.library.register_fake("robocache::resample", lib=_library)
def _(rows, stamps, targets, strategy, age, gap, fill, lanes, dtype, row_offsets, target_offsets):
    of_rows, of_targets = [shape_of(row_offsets)], shape_of(target_offsets)
    found = batch_shapes.layout([rows.shape], [stamps.shape], targets.shape, of_rows, of_targets)
    return (
        rows.new_empty((*found.lead, found.dims[0]), dtype=dtype),
        rows.new_empty(found.lead, dtype=torch.bool),
        rows.new_empty(found.lead, dtype=torch.int64),
    )


@torch.library.register_fake("robocache::fuse", lib=_library)
def _(rows, stamps, targets, strategy, age, gap, fill, lanes, dtype, row_offsets, target_offsets):
    found = batch_shapes.layout(
        [own.shape for own in rows],
        [own.shape for own in stamps],
        targets.shape,
        [shape_of(own) for own in row_offsets],
        shape_of(target_offsets),
    )
    steps = (len(rows), *found.lead)
    return (
        rows[0].new_empty((*found.lead, sum(found.dims)), dtype=dtype),
        rows[0].new_empty(steps, dtype=torch.bool),
        rows[0].new_empty(steps, dtype=torch.int64),
    )


@torch.library.register_fake("robocache::fuse_seconds", lib=_library)
def _(rows, times, targets):
    shapes, nothing = [own.shape for own in rows], [None] * len(rows)
    found = batch_shapes.layout(shapes, [own.shape for own in times], targets.shape, nothing, None)
    return rows[0].new_empty((*found.lead, sum(found.dims)))


@torch.library.register_fake("robocache::voxelize", lib=_library)
def _(points, origin_m, size_m, shape, channels, fields, starts, single, min_points, pose, dtype):
    lead = () if single else (len(starts) - 1,)
    return (
        points.new_empty((*lead, len(channels), *shape[::-1]), dtype=dtype),
        torch.empty((len(starts) - 1, 4), dtype=torch.int64, device="cpu"),
    )


@torch.library.register_fake("robocache::encode_image", lib=_library)
def _(images, size, encoding, filter, fit, crop, layout, color, mean, std, pad_value, dtype):
    channels = 1 if color == "mono" else 3
    shape = (channels, *size) if layout == "chw" else (*size, channels)
    return images.new_empty((*images.shape[:-3], *shape), dtype=dtype)


@torch.library.register_fake("robocache::fuse_backward", lib=_library)
def _(of_values, stamps, targets, dims, types, *_):
    return [
        of_values.new_empty((*own.shape, dim), dtype=DTYPES[code])
        for own, dim, code in zip(stamps, dims, types, strict=True)
    ]


@torch.library.register_fake("robocache::fuse_seconds_backward", lib=_library)
def _(of_values, times, targets, dims):
    return [of_values.new_empty((*own.shape, dim)) for own, dim in zip(times, dims, strict=True)]


def _save_one(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    rows, stamps, targets, strategy, age, gap, fill, lanes, _, row_offsets, target_offsets = inputs
    _save(ctx, [rows], [stamps], targets, [row_offsets], target_offsets, output)
    ctx.rules = ([strategy], [age], [gap], [fill], [lanes])


def _save_all(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    rows, stamps, targets, strategy, age, gap, fill, lanes, _, row_offsets, target_offsets = inputs
    _save(ctx, rows, stamps, targets, row_offsets, target_offsets, output)
    ctx.rules = (strategy, age, gap, fill, lanes)


def _save(ctx, rows, stamps, targets, row_offsets, target_offsets, output):
    ctx.streams = len(rows)
    ctx.has_offsets = all(own is not None for own in row_offsets)
    ctx.rows = ([own.shape[-1] for own in rows], [CODES[own.dtype] for own in rows])
    ctx.save_for_backward(*stamps, targets, *row_offsets, target_offsets)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _of_rows(ctx: Any, of_values: Tensor | None) -> list[Tensor | None]:
    if of_values is None:
        return [None] * ctx.streams
    strategy, age, gap, fill, lanes = ctx.rules
    dims, types = ctx.rows
    # The sizes may be symbols here, so no rule is made.
    for own, letters in zip(strategy, lanes, strict=True):
        if own != "linear":
            raise RuntimeError(f"expected the strategy linear for a gradient, found {own}")
        if letters.strip("l"):
            raise RuntimeError("expected linear lanes for a gradient, found others")
    saved, count = ctx.saved_tensors, ctx.streams
    stamps, targets, offsets = saved[:count], saved[count], saved[count + 1 : 2 * count + 1]
    return torch.ops.robocache.fuse_backward(
        of_values,
        stamps,
        targets,
        dims,
        types,
        strategy,
        age,
        gap,
        fill,
        lanes,
        offsets,
        saved[-1],
    )


def _backward_one(ctx: Any, of_values: Tensor | None, *_: Any) -> tuple[Any, ...]:
    return _of_rows(ctx, of_values)[0], *[None] * 10


def _backward_all(ctx: Any, of_values: Tensor | None, *_: Any) -> tuple[Any, ...]:
    nothing = [None] * ctx.streams
    # torch takes a list for one of tensors, and else as a value.
    of_offsets = nothing if ctx.has_offsets else None
    return _of_rows(ctx, of_values), nothing, *[None] * 7, of_offsets, None


torch.library.register_autograd(
    "robocache::resample", _backward_one, setup_context=_save_one, lib=_library
)
torch.library.register_autograd(
    "robocache::fuse", _backward_all, setup_context=_save_all, lib=_library
)


# ---- The gradient's own gradient ----------------------------------------------------------------
# Values are linear in rows, so the gradient of the gradient is the operation itself.


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    of_values, stamps, targets, _, _, *rules, row_offsets, target_offsets = inputs
    ctx.streams, ctx.rules, ctx.dtype = len(stamps), rules, of_values.dtype
    ctx.has_offsets = all(own is not None for own in row_offsets)
    ctx.save_for_backward(*stamps, targets, *row_offsets, target_offsets)


def _backward_of_backward(ctx: Any, of_rows: Sequence[Tensor]) -> tuple[Any, ...]:
    saved, count = ctx.saved_tensors, ctx.streams
    stamps, targets, offsets = saved[:count], saved[count], saved[count + 1 : 2 * count + 1]
    found = torch.ops.robocache.fuse(
        list(of_rows), stamps, targets, *ctx.rules, ctx.dtype, offsets, saved[-1]
    )
    nothing = [None] * count
    of_offsets = nothing if ctx.has_offsets else None
    return found[0], nothing, *[None] * 8, of_offsets, None


torch.library.register_autograd(
    "robocache::fuse_backward", _backward_of_backward, setup_context=_save_backward, lib=_library
)


# ---- Times in seconds ---------------------------------------------------------------------------


def _save_seconds(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    rows, times, targets = inputs
    ctx.dims = [own.shape[-1] for own in rows]
    ctx.save_for_backward(*times, targets)


def _backward_of_seconds(ctx: Any, of_values: Tensor) -> tuple[Any, ...]:
    *times, targets = ctx.saved_tensors
    of_rows = torch.ops.robocache.fuse_seconds_backward(of_values, times, targets, ctx.dims)
    return of_rows, [None] * len(times), None


def _save_backward_of_seconds(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, times, targets, _ = inputs
    ctx.save_for_backward(*times, targets)


def _backward_of_backward_of_seconds(ctx: Any, of_rows: Sequence[Tensor]) -> tuple[Any, ...]:
    *times, targets = ctx.saved_tensors
    found = torch.ops.robocache.fuse_seconds(list(of_rows), times, targets)
    return found, [None] * len(times), None, None


for _name, _backward, _setup in (
    ("fuse_seconds", _backward_of_seconds, _save_seconds),
    ("fuse_seconds_backward", _backward_of_backward_of_seconds, _save_backward_of_seconds),
):
    torch.library.register_autograd(
        f"robocache::{_name}", _backward, setup_context=_setup, lib=_library
    )
