"""Operations on arrays: what the node computes, for whole batches.

    resampled = robocache.resample(rows, stamps, targets, strategy="linear", max_gap_ns=50_000_000)
    loss = model(resampled.values)[resampled.valid]

Arrays are of NumPy, torch, CuPy, JAX or any library with `__dlpack__`, on the CPU or a GPU. All of a call
are of one library and on one device, and so are the results. The bits are those of the node: one
implementation serves all of them. `docs/python.md` has the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .. import _native
from . import batch_shapes, interop
from .dispatch import torch_operations
from .interop import Array, Results, is_torch
from .streams import Resampled, Stream

__all__ = ["Resampled", "Stream", "fuse", "resample"]

# Makes a named tuple of a tuple, without the call of its Python code.
_new = tuple.__new__


def resample(
    rows: Any,
    stamps: Any,
    targets: Any,
    *,
    strategy: str = "linear",
    max_age_ns: int | None = None,
    max_gap_ns: int | None = None,
    fill: str = "zero",
    lanes: Sequence[str] | None = None,
    dtype: Any = None,
    row_offsets: Any = None,
    target_offsets: Any = None,
    out: Any = None,
) -> Resampled:
    """Gives the values of a stream at target times.

    `rows` are `[B, S, D]` of float32, float16 or bfloat16, `stamps` `[B, S]` and `targets` `[B, T]`, both
    int64 nanoseconds; or `[S, D]`, `[S]` and `[T]` for one episode. Stamps increase strictly within an
    episode. Targets may be in any order. Episodes of several lengths follow one another: `rows` are then
    `[sum of S, D]`, `stamps` `[sum of S]`, and `row_offsets`, int64 `[B + 1]`, say where each begins, from
    0 to the number of rows. `target_offsets` are the same for `targets` of `[sum of T]`.

    `strategy`: "hold", "nearest", "linear" or "slerp". Nothing extrapolates. `max_age_ns` is the greatest
    distance of a target and a row that is used alone, `max_gap_ns` that of two rows with a value between
    them; None is no limit. `fill`: "zero", "last" for the newest row, or "first": as "last", and before the first
    row that row. `lanes` say for each of D elements
    whether it is "linear", "angular" [rad], of a "quaternion" (x, y, z, w) or "held", as a gripper that is
    open or closed; by default the strategy decides. `dtype` is that of the values: that of the rows, or with rows of float32 another one. `out` is
    the array for the values.

    Raises TypeError for a wrong type of array or element, and ValueError for shapes, offsets or stamps
    that do not fit. On a GPU, stamps and offsets are not read by the host, and so not checked: values are
    then of no meaning, or, with wrong offsets, not valid.
    """
    given = (
        rows, stamps, targets, strategy, max_age_ns, max_gap_ns, fill, lanes, dtype, row_offsets,
        target_offsets, out,
    )  # fmt: skip
    # The usual case of tensors: everything else takes longer than the computation. Code that is being compiled must not
    # read `take`, which changes when `robocache.arrays.torch` is imported.
    torch = sys.modules.get("torch")
    if torch is not None and not torch.compiler.is_compiling() and interop.take is not None:
        found = interop.take(*given)
        if found is not None:
            return _new(Resampled, found)
    if is_torch(rows):
        return torch_operations().resample(*given)
    stream = Stream(rows, stamps, strategy, max_age_ns, max_gap_ns, fill, lanes, row_offsets)
    return _fuse([stream], targets, dtype, target_offsets, out, single=True)


def fuse(
    streams: Sequence[Stream],
    targets: Any,
    *,
    dtype: Any = None,
    target_offsets: Any = None,
    out: Any = None,
) -> Resampled:
    """Gives the values of several streams at the same targets, one stream after the other along the last
    dimension: `values` are `[..., sum of D]`, `valid` and `age_ns` `[streams, ...]`.

    On a GPU it is one launch for up to four streams. The arguments and the errors are those of `resample`.
    """
    streams = list(streams)
    if not streams:
        raise ValueError("streams: expected at least one, found none")
    if is_torch(streams[0].rows):
        return torch_operations().fuse(
            streams, targets, dtype=dtype, target_offsets=target_offsets, out=out
        )
    return _fuse(streams, targets, dtype, target_offsets, out, single=False)


def _fuse(
    streams: list[Stream],
    targets: Any,
    dtype: Any,
    target_offsets: Any,
    out: Any,
    *,
    single: bool,
) -> Resampled:
    rows = [Array(stream.rows, "rows") for stream in streams]
    stamps = [interop.instants(stream.stamps, "stamps") for stream in streams]
    of_rows = [
        None if stream.row_offsets is None else interop.instants(stream.row_offsets, "row_offsets")
        for stream in streams
    ]
    of_targets = None
    if target_offsets is not None:
        of_targets = interop.instants(target_offsets, "target_offsets")
    targets = interop.instants(targets, "targets")
    given: list[tuple[Array | None, str]] = [(each, "rows") for each in rows]
    given += [(each, "stamps") for each in stamps]
    given += [(targets, "targets"), (of_targets, "target_offsets")]
    given += [(each, "row_offsets") for each in of_rows]
    named = [(array, name) for array, name in given if array is not None]
    interop.check_same_place(*map(list, zip(*named, strict=True)))
    layout = batch_shapes.layout(
        [array.shape for array in rows],
        [array.shape for array in stamps],
        targets.shape,
        [None if array is None else array.shape for array in of_rows],
        None if of_targets is None else of_targets.shape,
    )
    value_type = interop.value_type([array.dtype for array in rows], dtype)
    results = Results(rows[0])
    shape = (*layout.lead, sum(layout.dims))
    if out is None:
        values = results.empty(shape, value_type)
    else:
        values = interop.checked_out(out, shape, value_type, [array for array, _ in named])
    steps = layout.lead if single else (len(streams), *layout.lead)
    valid, age_ns = results.empty(steps, "bool"), results.empty(steps, "int64")
    of_streams = [
        (
            _rule(stream, dim),
            own.pointer,
            batch_shapes.code(own.dtype, "rows"),
            (instants.pointer, count, 0 if offsets is None else offsets.pointer),
        )
        for stream, own, instants, offsets, count, dim in zip(
            streams, rows, stamps, of_rows, layout.rows, layout.dims, strict=True
        )
    ]
    _native.fuse(
        rows[0].place,
        (batch_shapes.CODES[value_type], 0),
        layout.episodes,
        (targets.pointer, layout.targets, 0 if of_targets is None else of_targets.pointer),
        (Array(values, "out").pointer, Array(valid, "out").pointer, Array(age_ns, "out").pointer),
        of_streams,
    )
    values = results.give(values) if out is None else out
    return Resampled(values, results.give(valid), results.give(age_ns))


def _rule(stream: Stream, dim: int) -> _native.Rule:
    limits = batch_shapes.limit(stream.max_age_ns), batch_shapes.limit(stream.max_gap_ns)
    return batch_shapes.rule(
        stream.strategy, *limits, stream.fill, dim, batch_shapes.letters(stream.lanes)
    )
