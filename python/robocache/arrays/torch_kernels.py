"""What the torch operators compute: tensors in, tensors out. Nothing here knows gradients or tracing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .. import _native
from . import batch_shapes
from .interop import place_of
from .torch_asks import expect_no_tangent, is_watched

# By the numbers of `batch_shapes.CODES`.
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
# The numbers by which the extension knows times: nanoseconds, and seconds.
TIMES = {torch.int64: 0, torch.float32: 1, torch.float64: 2}
# Of a stream of `fuse_seconds`, as `fuse` has it; the same objects in each call.
_HELD = ("linear", batch_shapes.NO_LIMIT, batch_shapes.NO_LIMIT, "first", "")


def _template(shape: tuple[int, ...], dtype: torch.dtype, device: int | None) -> Tensor:
    """A tensor without memory, for `torch.empty_like`: with a template, that takes half the time of `torch.empty`."""
    found = torch.empty(shape, dtype=dtype, device="cpu" if device is None else device)
    found.untyped_storage().resize_(0)
    return found


def _direct() -> _native.Direct | None:
    """The extension's way for the usual case, in one call; None if this torch does not let C code read tensors."""
    try:
        return _native.Direct(
            Tensor,
            _template,
            torch.empty_like,
            torch.get_num_threads,
            batch_shapes.rule,
            [*DTYPES, torch.bool, torch.int64],
            [
                is_watched,
                torch.is_grad_enabled,
                forward_ad.unpack_dual,
                batch_shapes.letters,
                batch_shapes.NO_LIMIT,
                "",
            ],
        )
    except TypeError as error:
        # The table of functions is missing, or of a version that is not known. Anything else is a fault of ours.
        if "found none" not in str(error):
            raise
        return None


DIRECT = _direct()


def _instants(
    tensor: Tensor, device: torch.device, name: str, dtype: torch.dtype = torch.int64
) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a torch tensor, found {type(tensor).__name__}")
    if tensor.dtype is not dtype:
        expected = str(dtype).removeprefix("torch.")
        raise TypeError(f"{name}: expected elements of {expected}, found {tensor.dtype}")
    if tensor.device != device:
        raise ValueError(f"{name}: expected a tensor on {device}, found one on {tensor.device}")
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % tensor.element_size() else tensor


def _rows(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    own = tensor.dtype
    if own is not dtype and own is not torch.float32 or own not in CODES:
        expected = (
            f"float32 or the values' type, {dtype}"
            if own in CODES
            else "float32, float16 or bfloat16"
        )
        raise TypeError(f"rows: expected elements of {expected}, found {own}")
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
    # The kernels load 16 bytes at a time.
    return tensor.clone() if tensor.data_ptr() % 16 and tensor.is_cuda else tensor


def resample(
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
    expect_no_tangent((rows,))
    if DIRECT is not None and row_offsets is None and target_offsets is None and out is None:
        found = DIRECT.resample(
            rows, stamps, targets, strategy, max_age_ns, max_gap_ns, fill, lanes, dtype
        )
        if found is not None:
            return found
    device = rows.device
    rows = _rows(rows, dtype)
    stamps, targets = _instants(stamps, device, "stamps"), _instants(targets, device, "targets")
    shape, lead = rows.shape, targets.shape
    if row_offsets is None and target_offsets is None and len(lead) == 2 and len(shape) == 3:
        # The usual case, checked with few calls.
        (episodes, count, dim), steps = shape, lead[1]
        if lead[0] != episodes or stamps.shape != (episodes, count):
            batch_shapes.layout([shape], [stamps.shape], lead, [None], None)
        at_rows = at_targets = 0
    else:
        if row_offsets is not None:
            row_offsets = _instants(row_offsets, device, "row_offsets")
        if target_offsets is not None:
            target_offsets = _instants(target_offsets, device, "target_offsets")
        of_rows, of_targets = [shape_of(row_offsets)], shape_of(target_offsets)
        sizes = batch_shapes.layout([shape], [stamps.shape], lead, of_rows, of_targets)
        episodes, steps, (count,), (dim,) = sizes.episodes, sizes.targets, sizes.rows, sizes.dims
        at_rows, at_targets = _pointer(row_offsets), _pointer(target_offsets)
    if out is None:
        values = torch.empty((*lead, dim), dtype=dtype, device=device)
    else:
        values = _checked_out(out, (*lead, dim), dtype, device)
    valid = torch.empty(lead, dtype=torch.bool, device=device)
    age_ns = torch.empty(lead, dtype=torch.int64, device=device)
    _native.fuse(
        place_of(device),
        (CODES[dtype], TIMES[torch.int64]),
        episodes,
        (targets.data_ptr(), steps, at_targets),
        (values.data_ptr(), valid.data_ptr(), age_ns.data_ptr()),
        [
            (
                batch_shapes.rule(strategy, max_age_ns, max_gap_ns, fill, dim, lanes),
                rows.data_ptr(),
                CODES[rows.dtype],
                (stamps.data_ptr(), count, at_rows),
            )
        ],
    )
    return values, valid, age_ns


def fuse(
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
    times: torch.dtype = torch.int64,
) -> tuple[Tensor, Tensor, Tensor]:
    expect_no_tangent(rows)
    if DIRECT is not None and out is None and target_offsets is None:
        if all(own is None for own in row_offsets):
            parts = (rows, stamps, strategy, max_age_ns, max_gap_ns, fill, lanes)
            streams = list(zip(*parts, strict=True))
            found = DIRECT.fuse(streams, targets, dtype, times is not torch.int64)
            if found is not None:
                return found
    device = rows[0].device
    rows = [_rows(_on(own, device, "rows"), dtype) for own in rows]
    sizes, arrays = _checked(
        [own.shape for own in rows], stamps, targets, row_offsets, target_offsets, device, times
    )
    shape = (*sizes.lead, sum(sizes.dims))
    if out is None:
        values = torch.empty(shape, dtype=dtype, device=device)
    else:
        values = _checked_out(out, shape, dtype, device)
    steps = (len(rows), *sizes.lead)
    valid = torch.empty(steps, dtype=torch.bool, device=device)
    age_ns = torch.empty(steps, dtype=torch.int64, device=device)
    _native.fuse(
        place_of(device),
        (CODES[dtype], TIMES[times]),
        sizes.episodes,
        arrays.targets,
        (values.data_ptr(), valid.data_ptr(), age_ns.data_ptr()),
        [
            (batch_shapes.rule(*own_rule), own.data_ptr(), CODES[own.dtype], instants)
            for own_rule, own, instants in zip(
                zip(strategy, max_age_ns, max_gap_ns, fill, sizes.dims, lanes, strict=True),
                rows,
                arrays.stamps,
                strict=True,
            )
        ],
    )
    return values, valid, age_ns


def fuse_backward(
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
    times: torch.dtype = torch.int64,
) -> list[Tensor]:
    device = of_values.device
    of_values = of_values.resolve_neg().contiguous()
    shapes = [(*own.shape, dim) for own, dim in zip(stamps, dims, strict=True)]
    found, arrays = _checked(shapes, stamps, targets, row_offsets, target_offsets, device, times)
    expected = (*found.lead, sum(dims))
    if of_values.shape != expected:
        raise ValueError(
            f"of_values: expected the shape {list(expected)}, found {list(of_values.shape)}"
        )
    of_rows = [
        torch.empty(shape, dtype=DTYPES[code], device=device)
        for shape, code in zip(shapes, types, strict=True)
    ]
    rules = zip(strategy, max_age_ns, max_gap_ns, fill, dims, lanes, strict=True)
    _native.gradient(
        place_of(device),
        (CODES[of_values.dtype], TIMES[times]),
        found.episodes,
        arrays.targets,
        of_values.data_ptr(),
        [
            (batch_shapes.rule(*rule), own.data_ptr(), CODES[own.dtype], instants)
            for rule, own, instants in zip(rules, of_rows, arrays.stamps, strict=True)
        ],
    )
    return of_rows


def fuse_seconds(rows: Sequence[Tensor], times: Sequence[Tensor], targets: Tensor) -> Tensor:
    """The values of linear streams at targets in seconds; before its first row a stream has that row.

    One launch converts the times and computes the values, if times and targets are of one type, float32 or float64.
    """
    expect_no_tangent(rows)
    if any(own.dtype is not rows[0].dtype for own in rows):
        raise ValueError(f"rows: expected one type, found {[own.dtype for own in rows]}")
    if DIRECT is not None:
        streams = [(*own, *_HELD) for own in zip(rows, times, strict=True)]
        found = DIRECT.fuse(streams, targets, rows[0].dtype, True)
        if found is not None:
            return found[0]
    times, targets, dtype = _seconds(times, targets)
    nothing = [None] * len(rows)
    of = rows[0].dtype
    return fuse(rows, times, targets, *_rules(len(rows)), of, nothing, None, None, dtype)[0]


def fuse_seconds_backward(
    of_values: Tensor, times: Sequence[Tensor], targets: Tensor, dims: Sequence[int]
) -> list[Tensor]:
    times, targets, dtype = _seconds(times, targets)
    types = [CODES[of_values.dtype]] * len(dims)
    nothing = [None] * len(dims)
    rules = _rules(len(dims))
    return fuse_backward(of_values, times, targets, dims, types, *rules, nothing, None, dtype)


def _rules(count: int) -> tuple[list[str], list[int], list[int], list[str], list[str]]:
    """Rules of `_HELD` for this number of streams, as `fuse` takes them."""
    strategy, max_age_ns, max_gap_ns, fill, lanes = _HELD
    limits = [max_age_ns] * count, [max_gap_ns] * count
    return [strategy] * count, *limits, [fill] * count, [lanes] * count


def _seconds(times: Sequence[Tensor], targets: Tensor) -> tuple[list[Tensor], Tensor, torch.dtype]:
    """Times as tensors of one type that the extension takes, and that type."""
    single = all(own.dtype is torch.float32 for own in (*times, targets))
    dtype = torch.float32 if single else torch.float64
    return [own.to(dtype) for own in times], targets.to(dtype), dtype


class _Arrays:
    """The instants of a batch as the extension takes them, and the tensors, which must live until it returns."""

    def __init__(
        self,
        found: batch_shapes.Layout,
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
    times: torch.dtype,
) -> tuple[batch_shapes.Layout, _Arrays]:
    stamps = [_instants(own, device, "stamps", times) for own in stamps]
    targets = _instants(targets, device, "targets", times)
    row_offsets = [
        None if own is None else _instants(own, device, "row_offsets") for own in row_offsets
    ]
    if target_offsets is not None:
        target_offsets = _instants(target_offsets, device, "target_offsets")
    found = batch_shapes.layout(
        shapes,
        [own.shape for own in stamps],
        targets.shape,
        [shape_of(own) for own in row_offsets],
        shape_of(target_offsets),
    )
    return found, _Arrays(found, stamps, targets, row_offsets, target_offsets)


def _on(tensor: Tensor, device: torch.device, name: str) -> Tensor:
    if tensor.device != device:
        raise ValueError(f"{name}: expected a tensor on {device}, found one on {tensor.device}")
    return tensor


def shape_of(tensor: Tensor | None) -> Sequence[int] | None:
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
    if out.is_neg():
        raise ValueError("out: expected a tensor that is no negated view")
    if not out.is_contiguous() or (out.is_cuda and out.data_ptr() % 16):
        raise ValueError("out: expected a contiguous tensor, on a GPU at a multiple of 16 bytes")
    return out
