"""The tensors of a pipeline or of a replay, as views of the bytes that the compiled part gives."""

import numpy as np

from .device_tensor import DeviceSegment, array_of, tensor_of
from .tensor import FusedTensor, Segment, array_at, steps_of


class Views:
    """Makes the tensors of one pipeline. All its messages have their parts at the same places.

    Args:
        is_shared: whether another process has written the bytes, so that this one must not.
    """

    def __init__(self, is_shared=False):
        self._places = None
        self._is_shared = is_shared

    def of(self, native):
        """The tensor of native bytes. Its arrays are read-only views that keep the bytes alive."""
        if self._places is None:
            self._places = native.places()
        message, (stamp_ns, run, epoch, tick, digest) = np.asarray(native), native.head()
        frame_id, _, (data_at, data_len), places = self._places
        if native.device_len is not None:
            segments = {}
            for name, dtype, shape, at, steps_at in places:
                steps = steps_of(message, shape[0], steps_at)
                array = array_of(native, dtype, shape, at - data_at)
                segments[name] = DeviceSegment(name, dtype, array, *steps)
            return tensor_of(native, (run, epoch, tick), stamp_ns, frame_id, segments)
        segments = {
            name: Segment(
                name,
                dtype,
                array_at(message, dtype, shape, at),
                *steps_of(message, shape[0], steps_at),
                is_shared=self._is_shared,
            )
            for name, dtype, shape, at, steps_at in places
        }
        data = np.ndarray(data_len, np.uint8, message, data_at)
        return FusedTensor(tick, stamp_ns, frame_id, segments, data, digest, message, run, epoch)
