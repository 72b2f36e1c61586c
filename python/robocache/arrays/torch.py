"""The operations on torch tensors, which `robocache.resample` and the others call.

They run on the current stream and wait for nothing, except `voxelize`, which waits for its grids. Where torch traces or
wants a gradient they are the operators of `torch_operators`. The gradient is summed in the order of the targets, so it is
the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import batch_shapes, interop, torch_kernels
from . import torch_operators as torch_operators  # registers them
from .interop import place_of
from .streams import Resampled, Stream
from .torch_asks import expect_no_tangent, is_watched
from .torch_kernels import CODES

__all__ = ["fuse", "fuse_seconds", "is_plain", "place_of", "resample"]


# Makes a named tuple of a tuple, without the call of its Python code.
_new = tuple.__new__
# Without the look-ups of its names.
_is_compiling = torch.compiler.is_compiling


def resample(
    rows: Tensor,
    stamps: Tensor,
    targets: Tensor,
    strategy: str = "linear",
    max_age_ns: int | None = None,
    max_gap_ns: int | None = None,
    fill: str = "zero",
    lanes: Sequence[str] | None = None,
    dtype: torch.dtype | None = None,
    row_offsets: Tensor | None = None,
    target_offsets: Tensor | None = None,
    out: Tensor | None = None,
) -> Resampled:
    """`robocache.resample` for tensors. A tensor that is not contiguous is copied."""
    arguments = (
        rows,
        stamps,
        targets,
        strategy,
        batch_shapes.NO_LIMIT if max_age_ns is None else max_age_ns,
        batch_shapes.NO_LIMIT if max_gap_ns is None else max_gap_ns,
        fill,
        "" if lanes is None else batch_shapes.letters(lanes),
        rows.dtype if dtype is None else _dtype(dtype),
        row_offsets,
        target_offsets,
    )
    if out is not None:
        _check_plain(out, [rows])
        _check_apart(out, [rows, stamps, targets, row_offsets, target_offsets])
        return _written(out, torch_kernels.resample(*arguments, out))
    # The dispatcher would take longer than the rest of a call.
    if is_plain(rows) and not (rows.requires_grad and torch.is_grad_enabled()):
        return _new(Resampled, torch_kernels.resample(*arguments))
    expect_no_tangent([rows])
    return Resampled(*torch.ops.robocache.resample(*arguments))


def fuse(
    streams: Sequence[Stream],
    targets: Tensor,
    *,
    dtype: torch.dtype | None = None,
    target_offsets: Tensor | None = None,
    out: Tensor | None = None,
) -> Resampled:
    """`robocache.fuse` for tensors. A tensor that is not contiguous is copied."""
    rows = [stream.rows for stream in streams]
    for own in rows:
        if not isinstance(own, Tensor):
            raise TypeError(f"rows: expected a torch tensor, found {type(own).__name__}")
    if dtype is None:
        dtype = rows[0].dtype
        if any(own.dtype != dtype for own in rows):
            raise ValueError("dtype: expected it, as rows are of several types")
    arguments = (
        rows,
        [stream.stamps for stream in streams],
        targets,
        [stream.strategy for stream in streams],
        [batch_shapes.limit(stream.max_age_ns) for stream in streams],
        [batch_shapes.limit(stream.max_gap_ns) for stream in streams],
        [stream.fill for stream in streams],
        [batch_shapes.letters(stream.lanes) for stream in streams],
        _dtype(dtype),
        [stream.row_offsets for stream in streams],
        target_offsets,
    )
    if out is not None:
        _check_plain(out, rows)
        offsets = [stream.row_offsets for stream in streams]
        stamps = [stream.stamps for stream in streams]
        _check_apart(out, [*rows, *stamps, *offsets, targets, target_offsets])
        return _written(out, torch_kernels.fuse(*arguments, out))
    if is_plain(rows[0]) and all(type(own) is Tensor for own in rows) and not _wants_gradient(rows):
        return _new(Resampled, torch_kernels.fuse(*arguments))
    expect_no_tangent(rows)
    return Resampled(*torch.ops.robocache.fuse(*arguments))


def fuse_seconds(rows: Sequence[Tensor], times: Sequence[Tensor], targets: Tensor) -> Tensor:
    """Values of streams at targets in seconds, as `torch_kernels.fuse_seconds` gives them. Rows are of one type."""
    if is_plain(rows[0]) and all(type(own) is Tensor for own in rows) and not _wants_gradient(rows):
        return torch_kernels.fuse_seconds(rows, times, targets)
    expect_no_tangent(rows)
    return torch.ops.robocache.fuse_seconds(rows, times, targets)


def _dtype(dtype: Any) -> torch.dtype:
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, None)
    if dtype not in CODES:
        raise TypeError(f"dtype: expected float32, float16 or bfloat16, found {dtype}")
    return dtype


def is_plain(tensor: Tensor) -> bool:
    """True if nothing but a computation is asked for: no tracing, no transform. Gradients aside."""
    return not _is_compiling() and type(tensor) is Tensor and not is_watched()


def _wants_gradient(rows: Sequence[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(own.requires_grad for own in rows)


def _check_plain(out: Tensor, rows: Sequence[Tensor]) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(f"out: expected a torch tensor, found {type(out).__name__}")
    if out.requires_grad or not is_plain(out) or _wants_gradient(rows):
        raise RuntimeError("out: expected no gradient and no tracing where there is out")


def _check_apart(out: Tensor, inputs: Sequence[Tensor | None]) -> None:
    """Raises ValueError if memory of `out` is memory of an input."""
    begin, end = _span(out)
    for tensor in inputs:
        if isinstance(tensor, Tensor) and tensor.device == out.device:
            first, last = _span(tensor)
            if max(begin, first) < min(end, last):
                raise ValueError("out: expected memory that no input has")


def _span(tensor: Tensor) -> tuple[int, int]:
    """The addresses from the first byte of a tensor to behind its last one. Strides are never negative."""
    begin = tensor.data_ptr()
    if not tensor.numel():
        return begin, begin
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    return begin, begin + (last + 1) * tensor.element_size()


def _written(out: Tensor, results: Sequence[Tensor]) -> Resampled:
    """The results, after `out` was written: autograd must know that it changed."""
    torch.autograd.graph.increment_version(out)
    return Resampled(*results)


if torch_kernels.DIRECT is not None:
    interop.take = torch_kernels.DIRECT.take
# Says that this module is imported, to the last line.
complete = True
