"""Fused tensors in memory of a GPU: what `Pipeline(output="cuda")` gives."""

from .message.device_tensor import DeviceSegment, DeviceTensor

__all__ = ["DeviceSegment", "DeviceTensor"]
