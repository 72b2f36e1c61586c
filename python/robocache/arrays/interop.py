"""Arrays of any library, as the operations take and return them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _native
from . import batch_shapes

# Set by `robocache.arrays.torch` when it is imported: what takes the arguments of `resample` for tensors in the usual case. None
# if this torch does not let it.
take: Any = None


def is_torch(array: Any) -> bool:
    """True if an array is a tensor of torch, which is not imported for that.

    torch.compile traces this. It fails on `sys.modules`, if a module is imported while it looks at the others.
    """
    for base in type(array).__mro__:
        if base.__name__ == "Tensor" and base.__module__ == "torch":
            return True
    return False


def unmasked(array: Any, name: str) -> Any:
    """The array as it is. Raises TypeError if it has a mask, which no operation heeds."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: expected an array without a mask, found a masked one: fill or compress it"
        )
    return array


def current_stream(device: int) -> int:
    """The handle of torch's current stream of a GPU."""
    torch = sys.modules["torch"]
    # It takes a fraction of the time of torch's own function. Torch before 2.10 has none.
    handle = _native.current_stream(torch.Tensor, device)
    return torch.cuda.current_stream(device).cuda_stream if handle is None else handle


def place_of(device: Any) -> tuple[int, int]:
    """Where an operation on tensors runs: a GPU and its current stream, or the host and its number of threads."""
    torch = sys.modules["torch"]
    if device.type == "cuda":
        return device.index, current_stream(device.index)
    if device.type == "cpu":
        return -1, torch.get_num_threads()
    raise ValueError(f"expected tensors on the CPU or a CUDA device, found {device}")


class Array:
    """An array of any library, and what keeps it alive."""

    __slots__ = (
        "array",
        "bits",
        "device",
        "dtype",
        "library",
        "pointer",
        "read_only",
        "shape",
        "view",
    )

    def __init__(self, array: Any, name: str) -> None:
        self.bits = self.read_only = False
        if is_torch(array):
            self._of_torch(array)
            return
        if isinstance(array, np.ndarray):
            array = np.require(unmasked(array, name), requirements=["C", "A"])
        self.array = array
        self.library = type(array).__module__.partition(".")[0]
        # 1 is CUDA's default stream, on which operations on arrays of libraries without streams run.
        self.view = view = _native.View(array, name, 1)
        if not view.contiguous:
            raise ValueError(f"{name}: expected a contiguous array")
        self.pointer, self.shape, self.device = view.pointer, view.shape, view.device
        self.read_only = view.read_only
        # NumPy has no bfloat16 of its own: uint16 holds its bits.
        self.bits = view.dtype == "uint16" and isinstance(array, np.ndarray)
        self.dtype = "bfloat16" if self.bits else view.dtype

    def _of_torch(self, tensor: Any) -> None:
        # A negated view has other values than its memory.
        tensor = tensor.detach().resolve_neg().contiguous()
        if tensor.data_ptr() % tensor.element_size():
            tensor = tensor.clone()
        self.array, self.library = tensor, "torch"
        self.pointer, self.shape = tensor.data_ptr(), tuple(tensor.shape)
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(f"expected tensors on the CPU or a CUDA device, found {tensor.device}")
        self.device = tensor.device.index if tensor.is_cuda else -1
        self.dtype = str(tensor.dtype).removeprefix("torch.")

    def meets(self, other: "Array") -> bool:
        """Whether two contiguous arrays have memory in common."""
        if self.device != other.device:
            return False
        spans = [(each.pointer, each.pointer + each.byte_len) for each in (self, other)]
        return max(begin for begin, _ in spans) < min(end for _, end in spans)

    @property
    def byte_len(self) -> int:
        """The length in bytes, of elements whose type's name ends with its bits; a bool is a byte."""
        bits = self.dtype.lstrip("abcdefghijklmnopqrstuvwxyz") or "8"
        return math.prod(self.shape) * int(bits) // 8

    @property
    def place(self) -> tuple[int, int]:
        """Where an operation on it runs: see `_Place` in _native.pyi."""
        if self.library == "torch":
            return place_of(self.array.device)
        return self.device, 0


def instants(array: Any, name: str) -> Array:
    """An array of int64."""
    found = Array(array, name)
    if found.dtype != "int64":
        raise TypeError(f"{name}: expected elements of int64, found {found.dtype}")
    return found


def check_same_place(arrays: list[Array], names: list[str]) -> None:
    """Raises an error if arrays are of several libraries or on several devices."""
    first = arrays[0]
    for array, name in zip(arrays[1:], names[1:], strict=True):
        if array.library != first.library:
            raise TypeError(
                f"{name}: expected an array of the library of the {names[0]}, {first.library},"
                f" found one of {array.library}"
            )
        if array.device != first.device:
            expected, found = (
                f"cuda:{each.device}" if each.device >= 0 else "the CPU" for each in (first, array)
            )
            raise ValueError(f"{name}: expected an array on {expected}, found one on {found}")


def dtype_name(dtype: Any) -> str:
    """The name of an element type of any library."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.removeprefix("torch.")


def checked_out(out: Any, shape: tuple[int, ...], dtype: str, inputs: Sequence[Array]) -> Any:
    """An array for the values that the caller has given; it has no memory of an input."""
    contiguous = aligned = True
    if isinstance(out, np.ndarray):
        contiguous, aligned = out.flags.c_contiguous, out.flags.aligned
    if is_torch(out):
        contiguous = out.is_contiguous() and not out.is_neg()
        aligned = out.data_ptr() % out.element_size() == 0
    if not contiguous or not aligned:
        raise ValueError(
            "out: expected a contiguous array with elements at multiples of their size"
        )
    found = Array(out, "out")
    if found.shape != shape:
        raise ValueError(f"out: expected the shape {list(shape)}, found {list(found.shape)}")
    if found.dtype != dtype:
        raise TypeError(f"out: expected elements of {dtype}, found {found.dtype}")
    check_same_place([inputs[0], found], ["input", "out"])
    if found.read_only:
        raise ValueError("out: expected an array to write, found one that is read-only")
    if any(found.meets(each) for each in inputs):
        raise ValueError("out: expected memory that no input has")
    return out


class Results:
    """Makes arrays of the library of another one, on its device."""

    def __init__(self, like: Array) -> None:
        self.like = like
        self.namespace = None
        if like.library not in ("numpy", "torch"):
            self.namespace = _namespace(like.array)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        if self.namespace is not None:
            return _native.empty(self.like.device, shape, dtype)
        if self.like.library == "torch":
            torch = sys.modules["torch"]
            return torch.empty(shape, dtype=getattr(torch, dtype), device=self.like.array.device)
        return np.empty(shape, _numpy_type(dtype, self.like.bits))

    def wait(self) -> None:
        """Waits for what was launched, if the library does not order it itself."""
        if self.namespace is not None and self.like.device >= 0:
            _native.synchronize(self.like.device)

    def give(self, array: Any) -> Any:
        """The array as the library's own, complete."""
        self.wait()
        if self.namespace is None:
            return array
        return self.namespace.from_dlpack(array)


def _namespace(array: Any) -> Any:
    """The module of a library that can make its arrays of others, by the array API standard."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    # For example, `cupy` of a `cupy.ndarray`.
    module = sys.modules.get(type(array).__module__.partition(".")[0])
    if hasattr(module, "from_dlpack"):
        return module
    raise TypeError(
        f"expected an array of a library with from_dlpack, found {type(array).__name__}"
    )


def _numpy_type(dtype: str, bits: bool) -> Any:
    if dtype != "bfloat16":
        return dtype
    try:
        import ml_dtypes
    except ImportError:
        return np.uint16
    return np.uint16 if bits else ml_dtypes.bfloat16


def value_type(of_rows: list[str], dtype: Any) -> str:
    """The type of the values: that which is asked for, or that of all rows."""
    for each in of_rows:
        batch_shapes.code(each, "rows")
    if dtype is None:
        types = sorted(set(of_rows))
        if len(types) > 1:
            raise ValueError(f"dtype: expected it, as rows are of {' and '.join(types)}")
        return of_rows[0]
    name = dtype_name(dtype)
    batch_shapes.code(name, "dtype")
    for each in of_rows:
        if each not in ("float32", name):
            raise TypeError(f"rows: expected float32 or the values' type, {name}, found {each}")
    return name
