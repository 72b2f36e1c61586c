"""Windows on a GPU: what `EpisodeCache` does if it has a `device`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _native
from ..arrays import interop
from ..message.dtypes import ARRAY_NAMES


def number_of(device: Any) -> int:
    """The number of a GPU: of `0`, `"cuda"`, `"cuda:1"` or a `torch.device`."""
    if isinstance(device, int | np.integer) and not isinstance(device, bool) and device >= 0:
        return int(device)
    kind, _, number = str(device).partition(":")
    if kind != "cuda" or not (number.isdecimal() or str(device) == "cuda"):
        raise ValueError(f"device: expected 'cuda', 'cuda:0' or a number, found {device!r}")
    if number:
        return int(number)
    torch = _torch()
    return torch.cuda.current_device() if torch and torch.cuda.is_available() else 0


def _torch() -> Any:
    """PyTorch, if the program has imported it, and one that has CUDA."""
    torch: Any = sys.modules.get("torch")
    # Every call asks, so this must be a look at attributes: `is_available` asks the driver.
    return torch if hasattr(torch, "empty") and torch.version.cuda else None


class Gpu:
    """The rows of a cache for one GPU."""

    def __init__(
        self,
        native: _native.Episodes,
        number: int,
        names: list[str],
        memory: str | dict[str, str],
        device_bytes: int | None,
        pinned_bytes: int | None,
    ) -> None:
        if not hasattr(native, "on_device"):
            raise RuntimeError("device: expected a build with CUDA, found one without")
        by_name = memory if isinstance(memory, dict) else dict.fromkeys(names, memory)
        unknown = set(by_name) - set(names)
        if unknown:
            expected, found = ", ".join(names), ", ".join(sorted(map(str, unknown)))
            raise ValueError(f"memory: expected streams of {expected}, found {found}")
        of_streams = [str(by_name.get(name, "auto")) for name in names]
        self.number = number
        self._make: Any = None
        self.native = native.on_device(number, of_streams, device_bytes, pinned_bytes)
        self.memory = dict(zip(names, self.native.memory(), strict=True))

    def __repr__(self) -> str:
        where = ", ".join(f"{name} {kind}" for name, kind in self.memory.items())
        return f"cuda:{self.number} ({where})"

    def write(
        self,
        plan: _native.WindowPlan,
        size: int,
        items: Sequence[Any],
        latency_ns: bytes | None,
        out: Any,
        threads: int | None,
    ) -> Any:
        """Puts windows on the current stream of torch, or else on the default stream. Returns the buffer.

        The items are bytes of int64, or arrays on the GPU."""
        torch = _torch()
        if out is not None:
            buffer, (pointer, size) = out, self._checked(out, size)
        elif torch is not None:
            buffer = self._memory(torch, size)
            pointer = buffer.data_ptr()
        else:
            buffer = _native.empty(self.number, [size], "uint8")
            pointer = buffer.pointer
        stream = 0
        if torch is not None:
            stream = interop.current_stream(self.number)
        place, others = (self.number, stream), False
        episodes, instants, epochs = items
        if type(instants) is bytes:
            plan._launch(place, (pointer, size), episodes, instants, epochs, latency_ns, threads)
        else:
            arrays: list[Any] = [
                None if each is None else self._items(each, name)
                for each, name in (
                    (episodes, "episodes"),
                    (instants, "target_ns"),
                    (epochs, "epochs"),
                )
            ]
            count = arrays[1].shape[0]
            # Other libraries work on other streams than torch's current one, and nothing orders the two.
            others = any(each is not None and each.library != "torch" for each in arrays)
            if torch is not None and others:
                _native.synchronize(self.number)
            for array, name in zip(arrays, ("episodes", "target_ns", "epochs"), strict=True):
                if array is not None and array.shape != (count,):
                    raise ValueError(
                        f"{name}: expected the shape [{count}], found {list(array.shape)}"
                    )
            at = [0 if array is None else array.pointer for array in arrays]
            items_at = at[0], at[1], at[2]
            plan._launch_items(place, (pointer, size), count, items_at, latency_ns)
        if torch is None or others:
            _native.synchronize(self.number)
        return buffer

    def _memory(self, torch: Any, size: int) -> Any:
        """Bytes of the GPU."""
        if self._make is None:
            # It takes less time than `torch.empty`.
            self._make = torch.empty(0, dtype=torch.uint8, device=self.number).new_empty_strided
        return self._make((size,), (1,))

    def _items(self, array: Any, name: str) -> interop.Array:
        """Numbers of items in memory of this GPU."""
        if not is_on_gpu(array):
            raise ValueError(
                f"{name}: expected an array on cuda:{self.number} as the instants are, found one on the host"
            )
        found = interop.instants(array, name)
        if found.device != self.number:
            raise ValueError(
                f"{name}: expected an array on cuda:{self.number}, found one on cuda:{found.device}"
            )
        return found

    def _checked(self, out: Any, size: int) -> tuple[int, int]:
        """The address of an output, and its length in bytes."""
        if not interop.is_torch(out) and not isinstance(out, _native.DeviceArray):
            raise TypeError(
                f"out: expected a torch.Tensor or nothing, found {type(out).__module__}.{type(out).__name__}"
            )
        found = interop.Array(out, "out")
        expected = (
            f"out: expected a contiguous uint8 array of {size} bytes or more on cuda:{self.number}"
        )
        contiguous = not interop.is_torch(out) or (out.is_contiguous() and not out.is_neg())
        if found.device != self.number or found.dtype != "uint8" or not contiguous:
            raise ValueError(f"{expected}, found {found.dtype} on device {found.device}")
        if len(found.shape) != 1 or found.shape[0] < size or found.read_only:
            raise ValueError(f"{expected}, found the shape {list(found.shape)}")
        if found.pointer % _native.ALIGNMENT:
            raise ValueError(f"out: expected an address that is a multiple of {_native.ALIGNMENT}")
        return found.pointer, found.shape[0]


def is_on_gpu(array: Any) -> bool:
    """Whether an array is in memory of a GPU."""
    if isinstance(array, np.ndarray | list | tuple):
        return False
    if interop.is_torch(array):
        return array.is_cuda
    # kDLCUDA and kDLCUDAManaged
    return hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] in (2, 13)


def part(buffer: Any, offset: int, size: int, dtype: str, shape: tuple[int, ...]) -> Any:
    """A view of a part of a buffer: a tensor of torch, or an array that other libraries read by DLPack."""
    name = ARRAY_NAMES.get(dtype, dtype)
    if interop.is_torch(buffer):
        torch = sys.modules["torch"]
        return buffer[offset : offset + size].view(getattr(torch, name)).view(shape)
    return buffer.part(offset, list(shape), name)
