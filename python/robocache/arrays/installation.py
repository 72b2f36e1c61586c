"""What this installation can do, by the names of the RoboCache for torch that came before: `check_installation` and others."""

from __future__ import annotations

import importlib.util
import platform
import sys
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
    """Computes small cases on the CPU, and on the GPU if there is one, and compares them with what is right.

    Prints a line per operation and device. Returns True. Raises RuntimeError if a value is wrong, ImportError without PyTorch.
    """
    import torch

    for device in ["cpu"] + ["cuda"] * (is_cuda_available() and torch.cuda.is_available()):
        for name, found, expected in _cases(torch, device):
            if not torch.equal(found, expected.to(found.dtype)):
                raise RuntimeError(
                    f"{name} on {device}: expected {expected.tolist()}, found {found.tolist()}"
                )
        for name in ("resample_trajectories", "fuse_multimodal", "voxelize"):
            print(f"{name} on {device}: as expected")
    return True


# Numbers that all types of elements hold: two episodes, and their values at the targets.
_ROWS = [[[0, 1], [2, -1], [6, 3]], [[4, 0], [0, 8], [1, 1]]]
_TIMES = [[0, 0.5, 2], [0, 1, 4]]
_TARGETS = [[-1, 0.25, 0.5, 1.25, 9], [0.25, 0.5, 1, 2.5, 4]]
_VALUES = [[[0, 1], [1, 0], [2, -1], [4, 1], [6, 3]], [[3, 2], [2, 4], [0, 8], [0.5, 4.5], [1, 1]]]
# Points in three voxels, and one outside.
_POINTS = [[0.2, 0.2, 0.2], [0.2, 0.7, 0.2], [1.2, 0.2, 0.7], [1.4, 0.3, 0.6], [9, 9, 9]]
_FEATURES = [[1, -2], [2, 2], [3, 0], [5, -4], [7, 7]]
_LOW, _SIZE, _SHAPE = [0.0, 0.0, 0.0], 0.5, [3, 2, 2]
#: By mode: what these voxels have, and what an empty one has.
_VOXELS: dict[str, tuple[Any, Any, Any, Any]] = {
    "count": (1, 1, 2, 0),
    "occupancy": (1, 1, 1, 0),
    "mean": ([1, -2], [2, 2], [4, -2], [0, 0]),
    "max": ([1, -2], [2, 2], [5, 0], [0, 0]),
}


def _cases(torch: Any, device: str) -> Iterator[tuple[str, Any, Any]]:
    """An operation's name, its result, and what is right."""
    backend = "cuda" if device == "cuda" else "pytorch"

    def of(numbers: Any) -> Any:
        return torch.tensor(numbers, dtype=torch.float32, device=device)

    rows, times, targets, values = map(of, (_ROWS, _TIMES, _TARGETS, _VALUES))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        found = resample_trajectories(rows.to(dtype), times, targets, backend=backend)
        yield "resample_trajectories", found, values
    streams = rows, times, -rows, times, 2 * rows, times
    fused = fuse_multimodal(*streams, targets, backend=backend)
    yield "fuse_multimodal", fused, torch.cat([values, -values, 2 * values], -1)
    points = of(_POINTS)
    for mode, (first, second, third, none) in _VOXELS.items():
        features = of(_FEATURES) if mode in ("mean", "max") else None
        grid = [[[first, none], [second, none]], [[none] * 2] * 2, [[none, third], [none] * 2]]
        found = voxelize_pointcloud(points, features, _LOW, _SIZE, _SHAPE, mode, backend=backend)
        yield "voxelize", found, of(grid)
    # The second cloud is a voxel further along x.
    clouds = torch.stack([points, points + of([_SIZE, 0, 0])])
    one = of([[[1, 0], [1, 0]], [[0, 0], [0, 0]], [[0, 1], [0, 0]]])
    further = torch.cat([torch.zeros_like(one[:1]), one[:2]])
    found = voxelize_occupancy(clouds, _SHAPE, _SIZE, _LOW, backend=backend)
    yield "voxelize", found, torch.stack([one, further])


def _torch() -> Any:
    """The module `torch`; None if it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch
