"""What this installation can do, by the names of the RoboCache for torch that came before: `check_installation` and others."""

from __future__ import annotations

import importlib.util
import math
import platform
import sys
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, TextIO

from .. import _native
from .trajectories import (
    fuse_multimodal,
    resample_trajectories,
    voxelize_occupancy,
    voxelize_pointcloud,
    why_no_cuda,
)

__all__ = ["check_installation", "is_cuda_available", "print_installation_info", "self_test"]

#: The rounding of each element type, as a part of a value near 1.
_ROUNDING = {"float32": 2.0**-22, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def is_cuda_available() -> bool:
    """Whether the operations compute on a GPU here: the package is built with CUDA, and there is a GPU for it."""
    return why_no_cuda() is None


def check_installation() -> dict[str, Any]:
    """The state of the installation, as a dict. There is one extension, so the first three entries are equal:
    `cuda_extension_available`, `multimodal_extension_available`, `voxelize_extension_available`. The others are
    `pytorch_available`, and what PyTorch says: `cuda_device_available` and `gpu_name` (None without a GPU)."""
    torch = _torch()
    has_device = torch is not None and torch.cuda.is_available()
    names = ("cuda", "multimodal", "voxelize")
    return {
        **dict.fromkeys([f"{name}_extension_available" for name in names], is_cuda_available()),
        "pytorch_available": torch is not None,
        "cuda_device_available": has_device,
        "gpu_name": torch.cuda.get_device_name(0) if has_device else None,
    }


def print_installation_info(stream: TextIO | None = None) -> None:
    """Prints what `check_installation` knows, the versions, and why there is no CUDA, to `stream` or to stdout."""
    torch, compiled = _torch(), _native.cuda_version()
    info = check_installation()
    lines = {
        "robocache": f"{_native.version()} ({__file__})",
        "Python": platform.python_version(),
        "PyTorch": torch.__version__ if torch else "none",
        "kernels": f"CUDA {int(compiled) // 1000}.{int(compiled) % 1000 // 10}"
        if compiled
        else "none",
        "GPU of PyTorch": info["gpu_name"] or "none",
        "backend cuda": why_no_cuda() or "works",
    }
    for name, value in lines.items():
        print(f"{name + ':':<16}{value}", file=stream or sys.stdout)


def self_test() -> bool:
    """Computes small cases on the CPU, and on the GPU if there is one, and compares them with plain arithmetic of Python.

    Prints a line per operation and device. Returns True. Raises RuntimeError if a value is wrong, ImportError without PyTorch.
    """
    import torch

    devices = ["cpu"] + ["cuda"] * (is_cuda_available() and torch.cuda.is_available())
    for device in devices:
        backend = "cuda" if device == "cuda" else "pytorch"
        for name, cases in _CASES.items():
            for found, expected, tolerance in cases(torch, device, backend):
                _compare(f"{name} on {device}", found, expected, tolerance)
            print(f"{name} on {device}: as expected")
    return True


def _compare(name: str, found: Any, expected: Any, tolerance: float) -> None:
    """Raises RuntimeError if the shape or a number of the tensor differs from nested lists."""
    shape, numbers = list(found.shape), found.double().flatten().tolist()
    expected_shape, wanted = _flat(expected)
    if shape != expected_shape:
        raise RuntimeError(f"{name}: expected the shape {expected_shape}, found {shape}")
    for at, (own, want) in enumerate(zip(numbers, wanted, strict=True)):
        if not abs(own - want) <= tolerance * max(1.0, abs(want)):  # a NaN is wrong
            raise RuntimeError(f"{name}: expected {want} at element {at}, found {own}")


def _flat(nested: Any) -> tuple[list[int], list[float]]:
    """The shape and the numbers of nested lists."""
    if not isinstance(nested, list):
        return [], [float(nested)]
    parts = [_flat(part) for part in nested]
    return [len(parts), *parts[0][0]], [number for _, own in parts for number in own]


def _stream(rows: int, dim: int, seed: int) -> tuple[list, list]:
    """Two episodes of rows, which float16 and bfloat16 hold exactly, at uneven times."""
    data = [
        [[((7 * r + 3 * d + seed + e) % 17 - 8) / 8 for d in range(dim)] for r in range(rows)]
        for e in range(2)
    ]
    times = [[(r + ((r * seed) % 3) / 8) / 16 for r in range(rows)] for _ in range(2)]
    return data, times


def _interpolated(data: list, times: list, targets: list) -> list:
    """Linear interpolation, with the end rows held."""

    def at(rows: list, own: list, target: float) -> list:
        target = min(max(target, own[0]), own[-1])
        after = min(max(bisect_right(own, target), 1), len(own) - 1)
        weight = (target - own[after - 1]) / (own[after] - own[after - 1])
        return [a + weight * (b - a) for a, b in zip(rows[after - 1], rows[after], strict=True)]

    episodes = zip(data, times, targets, strict=True)
    return [[at(rows, own, target) for target in wanted] for rows, own, wanted in episodes]


_TARGETS = [[-0.1, 0.0, 0.03, 0.125, 0.4, 0.77, 3.0]] * 2


def _resampling(torch: Any, device: str, backend: str) -> Iterator[tuple[Any, Any, float]]:
    data, times = _stream(13, 5, 1)
    expected = _interpolated(data, times, _TARGETS)
    stamps, targets = (
        torch.tensor(each, dtype=torch.double, device=device) for each in (times, _TARGETS)
    )
    for dtype, tolerance in _ROUNDING.items():
        rows = torch.tensor(data, dtype=getattr(torch, dtype), device=device)
        yield resample_trajectories(rows, stamps, targets, backend=backend), expected, tolerance


def _fusing(torch: Any, device: str, backend: str) -> Iterator[tuple[Any, Any, float]]:
    streams = [_stream(9, 3, 1), _stream(14, 2, 2), _stream(6, 4, 5)]
    parts = [_interpolated(*stream, _TARGETS) for stream in streams]
    expected = [
        [[*a, *b, *c] for a, b, c in zip(*episodes, strict=True)]
        for episodes in zip(*parts, strict=True)
    ]
    tensors = [torch.tensor(part, device=device) for stream in streams for part in stream]
    a, a_times, b, b_times, c, c_times = tensors
    targets = torch.tensor(_TARGETS, device=device)
    # Times of float32 are rounded to nanoseconds.
    fused = fuse_multimodal(a, a_times, b, b_times, c, c_times, targets, backend=backend)
    yield fused, expected, 1e-5


def _voxelizing(torch: Any, device: str, backend: str) -> Iterator[tuple[Any, Any, float]]:
    low, size, shape = [-1.0, -0.5, 0.25], 0.25, [6, 4, 3]
    # Points in the middle of quarters of voxels, some of them outside.
    clouds = [
        [
            [
                lower + size * ((k * (a + 3) + a + seed) % (4 * (n + 1)) / 4 + 0.125)
                for a, (lower, n) in axes
            ]
            for k in range(60)
        ]
        for seed in (0, 5)
        for axes in [list(enumerate(zip(low, shape, strict=True)))]
    ]
    features = [[k % 11 / 4, -k % 7 / 2] for k in range(60)]
    cells = [[_cell(point, low, size, shape) for point in cloud] for cloud in clouds]

    def grid(own: list, value: Any) -> list:
        """`value` of the numbers of the points in each voxel."""
        x, y, z = map(range, shape)
        members: dict[Any, list[int]] = {}
        for number, cell in enumerate(own):
            members.setdefault(cell, []).append(number)
        return [[[value(members.get((i, j, k), [])) for k in z] for j in y] for i in x]

    def of_features(reduced: Any) -> Any:
        return lambda own: [reduced([features[n][f] for n in own]) if own else 0 for f in (0, 1)]

    points = torch.tensor(clouds, dtype=torch.float32, device=device)
    modes = {
        "count": len,
        "occupancy": lambda own: int(bool(own)),
        "mean": of_features(lambda values: sum(values) / len(values)),
        "max": of_features(max),
    }
    for mode, value in modes.items():
        given = torch.tensor(features, device=device) if mode in ("mean", "max") else None
        found = voxelize_pointcloud(points[0], given, low, size, shape, mode, backend=backend)
        yield found, grid(cells[0], value), 1e-5
    found = voxelize_occupancy(points, shape, size, low, backend=backend)
    yield found, [grid(own, modes["occupancy"]) for own in cells], 0


def _cell(point: list, low: list, size: float, shape: list) -> tuple[int, ...] | None:
    """The voxel of a point; None outside the grid."""
    cell = tuple(math.floor((p - lower) / size) for p, lower in zip(point, low, strict=True))
    return cell if all(0 <= c < n for c, n in zip(cell, shape, strict=True)) else None


_CASES = {"resample_trajectories": _resampling, "fuse_multimodal": _fusing, "voxelize": _voxelizing}


def _torch() -> Any:
    """The module `torch`; None if it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch
