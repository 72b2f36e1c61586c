"""The operations as torch operators: `torch.ops.robocache.resample`, `fuse`, `voxelize` and `encode_image`.

`robocache.resample` and the others take torch tensors and come here. The operators run on the current stream
and wait for nothing, except `voxelize`, which waits for its grids. They have fake kernels, so `torch.compile(fullgraph=True)` and CUDA graphs work.
The gradient with respect to rows is that of the strategy "linear" with linear lanes; another one raises
RuntimeError in `backward`. It is summed in the order of the targets, so it is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _layout, _native, encoders
from .operations import Resampled, Stream

__all__ = ["fuse", "resample"]

# By the numbers of `_layout.CODES`.
_DTYPES = [torch.float32, torch.float16, torch.bfloat16]
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}

_library = torch.library.Library("robocache", "DEF")
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
_library.define(
    "voxelize(Tensor points, float[] origin_m, float size_m, int[] shape, str[] channels, str[] fields,"
    " SymInt[] starts, bool single, int min_points, float[] pose, ScalarType dtype) -> (Tensor, Tensor)"
)
_library.define(
    "encode_image(Tensor images, int[] size, str encoding, str filter, str fit, int[]? crop, str layout,"
    " str color, float[] mean, float[] std, int pad_value, ScalarType dtype) -> Tensor"
)


def resample(
    rows: Tensor,
    stamps: Tensor,
    targets: Tensor,
    *,
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
        _layout.NO_LIMIT if max_age_ns is None else max_age_ns,
        _layout.NO_LIMIT if max_gap_ns is None else max_gap_ns,
        fill,
        "" if lanes is None else _layout.letters(lanes),
        rows.dtype if dtype is None else _dtype(dtype),
        row_offsets,
        target_offsets,
    )
    if out is not None:
        _check_plain(out, [rows])
        _check_apart(out, [rows, stamps, targets, row_offsets, target_offsets])
        return _written(out, _resample(*arguments, out))
    # The dispatcher would take longer than the rest of a call.
    if type(rows) is Tensor and _is_plain((rows,)):
        return Resampled(*_resample(*arguments))
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
        [_layout.limit(stream.max_age_ns) for stream in streams],
        [_layout.limit(stream.max_gap_ns) for stream in streams],
        [stream.fill for stream in streams],
        [_layout.letters(stream.lanes) for stream in streams],
        _dtype(dtype),
        [stream.row_offsets for stream in streams],
        target_offsets,
    )
    if out is not None:
        _check_plain(out, rows)
        offsets = [stream.row_offsets for stream in streams]
        stamps = [stream.stamps for stream in streams]
        _check_apart(out, [*rows, *stamps, *offsets, targets, target_offsets])
        return _written(out, _fuse(*arguments, out))
    if all(type(own) is Tensor for own in rows) and _is_plain(rows):
        return Resampled(*_fuse(*arguments))
    return Resampled(*torch.ops.robocache.fuse(*arguments))


def _dtype(dtype: Any) -> torch.dtype:
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, None)
    if dtype not in _CODES:
        raise TypeError(f"dtype: expected float32, float16 or bfloat16, found {dtype}")
    return dtype


def _is_plain(rows: Sequence[Tensor]) -> bool:
    """Whether nothing but the computation itself is asked for: no gradient, no tracing, no transform."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() != 0:
        return False
    if torch._C._get_tracing_state() is not None:
        return False
    if torch._C._functorch.maybe_current_level() is not None:
        return False
    if not torch.is_grad_enabled():
        return True
    return not any(own.requires_grad for own in rows)


def _check_plain(out: Tensor, rows: Sequence[Tensor]) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(f"out: expected a torch tensor, found {type(out).__name__}")
    if out.requires_grad or not _is_plain(rows):
        raise RuntimeError("out: expected no gradient and no tracing where there is out")


def _check_apart(out: Tensor, inputs: Sequence[Tensor | None]) -> None:
    """Raises ValueError if memory of `out` is memory of an input."""
    own = out.untyped_storage().data_ptr()
    for tensor in inputs:
        if isinstance(tensor, Tensor) and own and tensor.untyped_storage().data_ptr() == own:
            raise ValueError("out: expected memory that no input has")


def _written(out: Tensor, results: Sequence[Tensor]) -> Resampled:
    """The results, after `out` was written: autograd must know that it changed."""
    torch.autograd.graph.increment_version(out)
    return Resampled(*results)


# ---- The kernels --------------------------------------------------------------------------------


def place_of(device: torch.device) -> tuple[int, int]:
    """Where an operation runs: a GPU and its current stream, or the host and its number of threads."""
    if device.type == "cuda":
        return device.index, torch._C._cuda_getCurrentRawStream(device.index)
    if device.type == "cpu":
        return -1, torch.get_num_threads()
    raise ValueError(f"expected tensors on the CPU or a CUDA device, found {device}")


def _instants(tensor: Tensor, device: torch.device, name: str) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a torch tensor, found {type(tensor).__name__}")
    if tensor.dtype is not torch.int64:
        raise TypeError(f"{name}: expected elements of int64, found {tensor.dtype}")
    if tensor.device != device:
        raise ValueError(f"{name}: expected a tensor on {device}, found one on {tensor.device}")
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _rows(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    own = tensor.dtype
    if own is not dtype and own is not torch.float32 or own not in _CODES:
        expected = (
            f"float32 or the values' type, {dtype}"
            if own in _CODES
            else "float32, float16 or bfloat16"
        )
        raise TypeError(f"rows: expected elements of {expected}, found {own}")
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
    # The kernels load 16 bytes at a time.
    return tensor.clone() if tensor.data_ptr() % 16 and tensor.is_cuda else tensor


def _resample(
    rows: Tensor,
    stamps: Tensor,
    targets: Tensor,
    strategy: str,
    max_age_ns: int,
    max_gap_ns: int,
    fill: str,
    lanes: str,
    dtype: torch.dtype,
    row_offsets: Tensor | None,
    target_offsets: Tensor | None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    device = rows.device
    rows = _rows(rows, dtype)
    stamps, targets = _instants(stamps, device, "stamps"), _instants(targets, device, "targets")
    shape, lead = rows.shape, targets.shape
    if row_offsets is None and target_offsets is None and len(lead) == 2 and len(shape) == 3:
        # The usual case, checked with few calls.
        (episodes, count, dim), steps = shape, lead[1]
        if lead[0] != episodes or stamps.shape != (episodes, count):
            _layout.layout([shape], [stamps.shape], lead, [None], None)
        at_rows = at_targets = 0
    else:
        if row_offsets is not None:
            row_offsets = _instants(row_offsets, device, "row_offsets")
        if target_offsets is not None:
            target_offsets = _instants(target_offsets, device, "target_offsets")
        of_rows, of_targets = [_shape(row_offsets)], _shape(target_offsets)
        found = _layout.layout([shape], [stamps.shape], lead, of_rows, of_targets)
        episodes, steps, (count,), (dim,) = found.episodes, found.targets, found.rows, found.dims
        at_rows, at_targets = _pointer(row_offsets), _pointer(target_offsets)
    if out is None:
        values = torch.empty((*lead, dim), dtype=dtype, device=device)
    else:
        values = _checked_out(out, (*lead, dim), dtype, device)
    valid = torch.empty(lead, dtype=torch.bool, device=device)
    age_ns = torch.empty(lead, dtype=torch.int64, device=device)
    _native.fuse(
        place_of(device),
        _CODES[dtype],
        episodes,
        (targets.data_ptr(), steps, at_targets),
        (values.data_ptr(), valid.data_ptr(), age_ns.data_ptr()),
        [
            (
                _layout.rule(strategy, max_age_ns, max_gap_ns, fill, dim, lanes),
                rows.data_ptr(),
                _CODES[rows.dtype],
                (stamps.data_ptr(), count, at_rows),
            )
        ],
    )
    return values, valid, age_ns


def _fuse(
    rows: Sequence[Tensor],
    stamps: Sequence[Tensor],
    targets: Tensor,
    strategy: Sequence[str],
    max_age_ns: Sequence[int],
    max_gap_ns: Sequence[int],
    fill: Sequence[str],
    lanes: Sequence[str],
    dtype: torch.dtype,
    row_offsets: Sequence[Tensor | None],
    target_offsets: Tensor | None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    device = rows[0].device
    rows = [_rows(_on(own, device, "rows"), dtype) for own in rows]
    found, arrays = _checked(
        [own.shape for own in rows], stamps, targets, row_offsets, target_offsets, device
    )
    shape = (*found.lead, sum(found.dims))
    if out is None:
        values = torch.empty(shape, dtype=dtype, device=device)
    else:
        values = _checked_out(out, shape, dtype, device)
    steps = (len(rows), *found.lead)
    valid = torch.empty(steps, dtype=torch.bool, device=device)
    age_ns = torch.empty(steps, dtype=torch.int64, device=device)
    _native.fuse(
        place_of(device),
        _CODES[dtype],
        found.episodes,
        arrays.targets,
        (values.data_ptr(), valid.data_ptr(), age_ns.data_ptr()),
        [
            (_layout.rule(*own_rule), own.data_ptr(), _CODES[own.dtype], instants)
            for own_rule, own, instants in zip(
                zip(strategy, max_age_ns, max_gap_ns, fill, found.dims, lanes, strict=True),
                rows,
                arrays.stamps,
                strict=True,
            )
        ],
    )
    return values, valid, age_ns


def _fuse_backward(
    of_values: Tensor,
    stamps: Sequence[Tensor],
    targets: Tensor,
    dims: Sequence[int],
    types: Sequence[int],
    strategy: Sequence[str],
    max_age_ns: Sequence[int],
    max_gap_ns: Sequence[int],
    fill: Sequence[str],
    lanes: Sequence[str],
    row_offsets: Sequence[Tensor | None],
    target_offsets: Tensor | None,
) -> list[Tensor]:
    device = of_values.device
    of_values = of_values.contiguous()
    shapes = [(*own.shape, dim) for own, dim in zip(stamps, dims, strict=True)]
    found, arrays = _checked(shapes, stamps, targets, row_offsets, target_offsets, device)
    expected = (*found.lead, sum(dims))
    if of_values.shape != expected:
        raise ValueError(
            f"of_values: expected the shape {list(expected)}, found {list(of_values.shape)}"
        )
    of_rows = [
        torch.empty(shape, dtype=_DTYPES[code], device=device)
        for shape, code in zip(shapes, types, strict=True)
    ]
    rules = zip(strategy, max_age_ns, max_gap_ns, fill, dims, lanes, strict=True)
    _native.gradient(
        place_of(device),
        _CODES[of_values.dtype],
        found.episodes,
        arrays.targets,
        of_values.data_ptr(),
        [
            (_layout.rule(*rule), own.data_ptr(), _CODES[own.dtype], instants)
            for rule, own, instants in zip(rules, of_rows, arrays.stamps, strict=True)
        ],
    )
    return of_rows


class _Arrays:
    """The instants of a batch as the extension takes them, and the tensors, which must live until it returns."""

    def __init__(
        self,
        found: _layout.Layout,
        stamps: Sequence[Tensor],
        targets: Tensor,
        row_offsets: Sequence[Tensor | None],
        target_offsets: Tensor | None,
    ) -> None:
        self.kept = (stamps, targets, row_offsets, target_offsets)
        self.targets = (targets.data_ptr(), found.targets, _pointer(target_offsets))
        self.stamps = [
            (own.data_ptr(), count, _pointer(offsets))
            for own, count, offsets in zip(stamps, found.rows, row_offsets, strict=True)
        ]


def _checked(
    shapes: Sequence[Sequence[int]],
    stamps: Sequence[Tensor],
    targets: Tensor,
    row_offsets: Sequence[Tensor | None],
    target_offsets: Tensor | None,
    device: torch.device,
) -> tuple[_layout.Layout, _Arrays]:
    stamps = [_instants(own, device, "stamps") for own in stamps]
    targets = _instants(targets, device, "targets")
    row_offsets = [
        None if own is None else _instants(own, device, "row_offsets") for own in row_offsets
    ]
    if target_offsets is not None:
        target_offsets = _instants(target_offsets, device, "target_offsets")
    found = _layout.layout(
        shapes,
        [own.shape for own in stamps],
        targets.shape,
        [_shape(own) for own in row_offsets],
        _shape(target_offsets),
    )
    return found, _Arrays(found, stamps, targets, row_offsets, target_offsets)


def _on(tensor: Tensor, device: torch.device, name: str) -> Tensor:
    if tensor.device != device:
        raise ValueError(f"{name}: expected a tensor on {device}, found one on {tensor.device}")
    return tensor


def _shape(tensor: Tensor | None) -> Sequence[int] | None:
    return None if tensor is None else tensor.shape


def _pointer(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _checked_out(
    out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    if out.shape != shape:
        raise ValueError(f"out: expected the shape {list(shape)}, found {list(out.shape)}")
    if out.dtype is not dtype:
        raise TypeError(f"out: expected elements of {dtype}, found {out.dtype}")
    _on(out, device, "out")
    if not out.is_contiguous() or (out.is_cuda and out.data_ptr() % 16):
        raise ValueError("out: expected a contiguous tensor, on a GPU at a multiple of 16 bytes")
    return out


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
    found = encoders._voxelize(
        flat, origin_m, size_m, shape, channels, fields, starts, min_points, rows, dtype, None
    )
    return found.values[0] if single else found.values, torch.from_numpy(found.dropped)


def _encode_image(images: Tensor, size: Sequence[int], encoding: str, *rest: Any) -> Tensor:
    return encoders._encode_image(images, size, encoding or None, *rest, None)


for _device in ("CPU", "CUDA"):
    _library.impl("voxelize", _voxelize, _device)
    _library.impl("encode_image", _encode_image, _device)
    _library.impl("resample", _resample, _device)
    _library.impl("fuse", _fuse, _device)
    _library.impl("fuse_backward", _fuse_backward, _device)


# ---- Fake kernels and gradients -----------------------------------------------------------------


@torch.library.register_fake("robocache::resample", lib=_library)
def _(rows, stamps, targets, strategy, age, gap, fill, lanes, dtype, row_offsets, target_offsets):
    of_rows, of_targets = [_shape(row_offsets)], _shape(target_offsets)
    found = _layout.layout([rows.shape], [stamps.shape], targets.shape, of_rows, of_targets)
    return (
        rows.new_empty((*found.lead, found.dims[0]), dtype=dtype),
        rows.new_empty(found.lead, dtype=torch.bool),
        rows.new_empty(found.lead, dtype=torch.int64),
    )


@torch.library.register_fake("robocache::fuse", lib=_library)
def _(rows, stamps, targets, strategy, age, gap, fill, lanes, dtype, row_offsets, target_offsets):
    found = _layout.layout(
        [own.shape for own in rows],
        [own.shape for own in stamps],
        targets.shape,
        [_shape(own) for own in row_offsets],
        _shape(target_offsets),
    )
    steps = (len(rows), *found.lead)
    return (
        rows[0].new_empty((*found.lead, sum(found.dims)), dtype=dtype),
        rows[0].new_empty(steps, dtype=torch.bool),
        rows[0].new_empty(steps, dtype=torch.int64),
    )


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
        of_values.new_empty((*own.shape, dim), dtype=_DTYPES[code])
        for own, dim, code in zip(stamps, dims, types, strict=True)
    ]


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
    ctx.rows = ([own.shape[-1] for own in rows], [_CODES[own.dtype] for own in rows])
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
