"""Fused tensors in memory of a GPU: what `Pipeline(output="cuda")` gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._native import DeviceArray, TensorBytes
from .dtypes import ARRAY_NAMES
from .tensor import FusedTensor, Segment, decode


class DeviceSegment(Segment):
    """One stream of a tensor on a GPU.

    As `Segment`, but `array` is in memory of the GPU. It speaks DLPack: `torch.from_dlpack`,
    `cupy.from_dlpack` and `jax.dlpack.from_dlpack` take it, or the segment, without a copy. What is said of the
    steps (`valid`, `target_ns`, `age_ns`, `count`, `inputs_valid`) is on the host.
    """

    __slots__ = ()

    def in_use(self, step: int = -1) -> Any:
        """The entries of a step that are in use, as a torch.Tensor of `count[step]` entries."""
        return self.torch()[step, : int(self.count[step])]

    def float32(self) -> Any:
        """The values as a torch.Tensor of float32: for f32 the memory itself, else a converted copy."""
        return self.torch().float()

    def torch(self, copy: bool | None = None) -> Any:
        """The values as a torch.Tensor on the GPU that shares the memory: do not write to it.

        It is complete: no stream has to wait. It may be read on the current stream; on another one, keep the
        tensor until that has read it. With `copy` it has memory of its own.
        """
        import torch

        tensor = torch.from_dlpack(self.array)
        return tensor.clone() if copy else tensor

    def __dlpack__(self, **options: Any) -> Any:
        """DLPack export without a copy."""
        return self.array.__dlpack__(**options)


class DeviceTensor(FusedTensor):
    """A fused tensor whose `data` is in memory of a GPU. It has neither `message` nor `digest`."""

    __slots__ = ("_native",)
    _native: TensorBytes

    def on_host(self) -> FusedTensor:
        """A copy of it as a `FusedTensor` on the host."""
        return decode(self._native.complete())


def array_of(native: TensorBytes, dtype: str, shape: Sequence[int], offset: int) -> DeviceArray:
    """The array of a segment."""
    return native.device_array(list(shape), ARRAY_NAMES[dtype], offset)


def tensor_of(
    native: TensorBytes,
    name: tuple[int, int, int],
    stamp_ns: int,
    frame_id: str,
    segments: dict[str, Segment],
) -> DeviceTensor:
    """The tensor of these segments. Its name is run, epoch and tick."""
    run, epoch, tick = name
    data = native.device_array([native.device_len or 0], "uint8", 0)
    tensor = DeviceTensor(tick, stamp_ns, frame_id, segments, data, run=run, epoch=epoch)
    tensor._native = native
    return tensor
