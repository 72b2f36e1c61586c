"""The tensors of a pipeline or of a replay, as views of the bytes that the compiled part gives."""

import struct

import numpy as np

from .cdr import ENCAPSULATION_LEN, Reader
from .device_tensor import DeviceSegment, array_of, complete, tensor_of
from .tensor import FusedTensor, Segment, decode

_STAMP = struct.Struct("<iI")
_NUMBERS = struct.Struct("<QQ")


class Views:
    """Makes the tensors of one pipeline. All its messages have their parts at the same places, so only the
    first one is decoded, and the others are views at these places.
    """

    def __init__(self):
        self._frame_id = None
        self._length = None

    def of(self, native):
        """The tensor of native bytes. Its arrays are read-only views that keep the bytes alive."""
        message, on_device = np.asarray(native), native.device_len
        if len(message) != self._length:
            whole = message if on_device is None else complete(message, on_device)
            self._learn(decode(whole), len(message))

        def view(place):
            shape, dtype, offset = place
            return np.ndarray(shape, dtype, message, offset)

        def segment(name, kind, place, steps):
            steps = [view(place) for place in steps]
            if on_device is None:
                return Segment(name, kind, view(place), *steps)
            shape, _, offset = place
            array = array_of(native, kind, shape, max(offset - len(message), 0))
            return DeviceSegment(name, kind, array, *steps)

        segments = {
            name: segment(name, kind, place, steps)
            for name, kind, (place, *steps) in self._segments
        }
        sec, nanosec = _STAMP.unpack_from(message, ENCAPSULATION_LEN)
        tick, digest = _NUMBERS.unpack_from(message, self._numbers_at)
        stamp_ns = sec * 1_000_000_000 + nanosec
        if on_device is not None:
            return tensor_of(native, tick, stamp_ns, self._frame_id, segments)
        data = view(self._data)
        return FusedTensor(tick, stamp_ns, self._frame_id, segments, data, digest, message)

    def _learn(self, tensor, length):
        """Notes where the parts of a tensor are, of whose message `length` bytes are on the host."""
        begin = tensor.message.ctypes.data
        valid_at = iter(_valid_at(tensor.message))

        def place(array):
            return array.shape, array.dtype, array.ctypes.data - begin if array.size else 0

        def places(of):
            # `decode` copies what says whether steps are valid, so its place is read from the message.
            valid = (of.valid.shape, of.valid.dtype, next(valid_at))
            steps = (of.target_ns, of.age_ns, of.count, of.inputs_valid)
            return [place(of.array), valid, *map(place, steps)]

        self._segments = [(name, of.dtype, places(of)) for name, of in tensor.segments.items()]
        self._data = place(tensor.data)
        # The stamp, then the frame's length and its bytes, which end with a zero; then numbers of 8 bytes.
        after_frame = 8 + 4 + len(tensor.frame_id.encode()) + 1
        self._numbers_at = ENCAPSULATION_LEN + after_frame + -after_frame % 8
        self._frame_id, self._length = tensor.frame_id, length


def _valid_at(message):
    """Where the flags of each segment's steps are in a message [bytes]."""
    reader = Reader(message)
    for read in (reader.i32, reader.u32, reader.string, reader.u64, reader.u64):
        read()
    for _ in range(reader.u32()):
        for read in (reader.string, reader.u8, reader.u8, reader.u16, reader.i64s, reader.u64):
            read()
        flags = reader.bytes()
        yield reader.position - len(flags)
        for read in (reader.i64s, reader.i64s, reader.u32s, reader.u32s):
            read()
