"""Functions with the signatures of the RoboCache for torch that came before, so that its users change one import.

They resample as `robocache.fuse` does and call `voxelize`, on the device of their tensors. If `backend` is "cuda", this must be a GPU, or they
raise RuntimeError; None and "pytorch" allow any device. The results are the same bits. `docs/python.md` says what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .dispatch import torch_operations
from .encoder_kernels import IDENTITY, voxel_rule
from .encoders import voxelize
from .interop import is_torch, place_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "fuse_multimodal",
    "resample_trajectories",
    "voxelize_occupancy",
    "voxelize_pointcloud",
    "why_no_cuda",
]

# The bits of 1 as int32 and as float32.
_ONES = (1, 0x3F800000)
# None in a build without CUDA.
_scatter = getattr(_native, "scatter", None)


def resample_trajectories(
    source_data: Tensor,
    source_times: Tensor,
    target_times: Tensor,
    device: Any = None,
    backend: str | None = None,
) -> Tensor:
    """Interpolates `source_data` `[B, S, D]` at `target_times` `[B, T]`, linearly, to `[B, T, D]`.

    Times are in seconds, `source_times` `[B, S]` increase strictly. Before the first row and after the last,
    that row is held. With `device`, the tensors are moved there first.
    """
    _expect_tensors(source_data=source_data, source_times=source_times, target_times=target_times)
    if device is not None:
        moved = (each.to(device) for each in (source_data, source_times, target_times))
        source_data, source_times, target_times = moved
    _expect_backend(backend, source_data)
    return _held([source_data], [source_times], target_times)


def fuse_multimodal(
    stream1_data: Tensor,
    stream1_times: Tensor,
    stream2_data: Tensor,
    stream2_times: Tensor,
    stream3_data: Tensor,
    stream3_times: Tensor,
    target_times: Tensor,
    backend: str | None = None,
) -> Tensor:
    """Interpolates three streams as `resample_trajectories` does, to `[B, T, D1 + D2 + D3]`."""
    _expect_tensors(
        stream1_data=stream1_data,
        stream1_times=stream1_times,
        stream2_data=stream2_data,
        stream2_times=stream2_times,
        stream3_data=stream3_data,
        stream3_times=stream3_times,
        target_times=target_times,
    )
    _expect_backend(backend, stream1_data)
    rows = [stream1_data, stream2_data, stream3_data]
    return _held(rows, [stream1_times, stream2_times, stream3_times], target_times)


def voxelize_pointcloud(
    points: Tensor,
    features: Tensor | None = None,
    grid_min: Sequence[float] = (-10.0, -10.0, -10.0),
    voxel_size: float = 0.1,
    grid_size: Sequence[int] = (128, 128, 128),
    mode: str = "occupancy",
    backend: str | None = None,
) -> Tensor:
    """Sorts `points` `[N, 3]` into a grid `[X, Y, Z]` of int32 counts ("count") or zeros and ones ("occupancy"),
    or, with `features` `[N, F]`, `[X, Y, Z, F]` of float32, their "mean" or "max" per voxel."""
    _expect_tensors(points=points)
    if features is not None:
        _expect_tensors(features=features)
    _expect_backend(backend, points)
    grid: dict[str, Any] = {
        "origin_m": tuple(grid_min),
        "size_m": voxel_size,
        "shape": tuple(grid_size),
    }
    if mode in ("count", "occupancy"):
        found = _scattered(points, 2, mode, _torch().int32, **grid)
        if found is not None:
            return found
        return _voxels(points.float(), (mode,), **grid)[0].int()
    if mode not in ("mean", "max"):
        raise ValueError(f"mode: expected count, occupancy, mean or max, found {mode}")
    if features is None:
        raise ValueError(f"features: expected them for the mode {mode}, found none")
    names = [f"feature{at}" for at in range(features.shape[1])]
    values = _voxels(
        _torch().cat([points.float(), features.float()], 1),
        tuple(f"{mode}({name})" for name in names),
        names,
        **grid,
    )
    return values.permute(1, 2, 3, 0).contiguous()


def voxelize_occupancy(
    points: Tensor,
    grid_size: Sequence[int] | Tensor,
    voxel_size: float,
    origin: Sequence[float] | Tensor,
    backend: str | None = None,
) -> Tensor:
    """Sorts clouds `points` `[B, N, 3]` into grids `[B, X, Y, Z]` of float32 zeros and ones. `grid_size` is X, Y and Z, `origin` the
    lower corner, `voxel_size` the edge of a voxel; all lengths have one unit."""
    _expect_tensors(points=points)
    _expect_backend(backend, points)
    if points.ndim != 3 or points.shape[-1] != 3:
        raise ValueError(f"points: expected the shape [B, N, 3], found {list(points.shape)}")
    grid: dict[str, Any] = {
        "origin_m": tuple(map(float, origin)),
        "size_m": float(voxel_size),
        "shape": tuple(map(int, grid_size)),
    }
    found = _scattered(points, 3, "occupancy", _torch().float32, **grid)
    if found is not None:
        return found
    return _voxels(points.float(), ("occupancy",), **grid)[:, 0].contiguous()


def _voxels(
    points: Tensor,
    channels: Sequence[str],
    names: Sequence[str] = (),
    *,
    origin_m: Sequence[float],
    size_m: float,
    shape: Sequence[int],
) -> Tensor:
    """Clouds as `[..., channels, X, Y, Z]`. The points have x, y, z and the features `names`.

    The grid of `voxelize` has z first and x last. This call exchanges the names x and z, so that the grid has x first
    and z last without a transposition."""
    fields = ("z", "y", "x", *names)
    origin_m, shape = tuple(origin_m)[::-1], tuple(shape)[::-1]
    grid: dict[str, Any] = {"origin_m": origin_m, "size_m": size_m, "shape": shape}
    return voxelize(points, channels=channels, fields=fields, **grid).values


def _scattered(
    points: Tensor, dims: int, mode: str, dtype: Any, origin_m: Any, size_m: float, shape: Any
) -> Tensor | None:
    """Clouds on a GPU as `[..., X, Y, Z]`, by a launch that the host does not wait for: nothing can overflow, and
    nobody asks what was dropped. None if it does not take the clouds; then `voxelize` does, or says what is wrong."""
    if _scatter is None or not points.is_cuda or not torch_operations().is_plain(points):
        return None
    *lead, count, width = points.shape if points.ndim == dims else (0, 0, 0)
    # A float holds each count up to here, and `voxelize` counts in floats.
    if width != 3 or count > 1 << 24:
        return None
    points = points.float()
    points = (points.resolve_neg() if points.is_neg() else points).contiguous()
    origin_m, shape = tuple(map(float, origin_m)), tuple(map(int, shape))
    names = ("x", "y", "z")
    rule = voxel_rule(origin_m, float(size_m), shape, (mode,), names, False, 1, 0, IDENTITY)
    out = _torch().empty((*lead, *shape), dtype=dtype, device=points.device)
    clouds = points.data_ptr(), lead[0] if lead else 1, count
    mark = 0 if mode == "count" else _ONES[out.is_floating_point()]
    taken = _scatter(place_of(points.device), rule, clouds, out.data_ptr(), mark)
    return out if taken else None


def why_no_cuda() -> str | None:
    """Why nothing is computed on a GPU here; None if it can be."""
    if _native.cuda_version() is None:
        return "this package is built without CUDA"
    try:
        _native.synchronize(0)
    except RuntimeError as error:
        return str(error)
    return None


def _expect_tensors(**given: Any) -> None:
    """Raises TypeError for what is no tensor of torch."""
    for name, each in given.items():
        if not is_torch(each):
            raise TypeError(
                f"{name}: expected a torch.Tensor, found {type(each).__module__}.{type(each).__name__}; "
                "robocache.resample and robocache.voxelize take NumPy arrays, torch.from_numpy makes tensors of them"
            )


def _expect_backend(backend: str | None, tensor: Tensor) -> None:
    """Raises RuntimeError for an unknown backend, or if it is "cuda" and the tensor cannot be computed on a GPU."""
    if backend not in (None, "cuda", "pytorch"):
        raise RuntimeError(f"backend: expected 'cuda', 'pytorch' or None, found {backend!r}")
    # A tensor on a GPU shows that there is one. To ask for it would wait for its work.
    if backend != "cuda" or (tensor.is_cuda and _native.cuda_version() is not None):
        return
    if reason := why_no_cuda():
        raise RuntimeError(f"backend: expected a GPU for 'cuda', found none: {reason}")
    raise RuntimeError(f"backend: expected tensors on a GPU for 'cuda', found {tensor.device}")


def _torch() -> Any:
    """The module `torch`. The caller has tensors, so it is imported."""
    import torch

    return torch


def _held(rows: list[Tensor], times: list[Tensor], targets: Tensor) -> Tensor:
    """Values at the targets, one stream after the other. Beyond both ends that row is held."""
    for own in rows:
        if own.shape[1] == 0:
            raise ValueError("rows: expected at least one row of each stream, found none")
    if targets.shape[:-1] != rows[0].shape[:1]:
        targets = targets.expand(rows[0].shape[0], -1)
    of = torch_operations().fuse_seconds
    if all(own.dtype is rows[0].dtype for own in rows):
        return of(rows, times, targets)
    parts = [of([own], [own_times], targets) for own, own_times in zip(rows, times, strict=True)]
    return _torch().cat(parts, -1)
