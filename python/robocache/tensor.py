"""`FusedTensor` and its segments, from a message's bytes or from a deserialized message."""

import math

import numpy as np

from .cdr import Reader

#: `age_ns` of a step that used no row.
NO_AGE = np.iinfo(np.int64).max

#: Every segment starts at a multiple of this inside `FusedTensor.data` [bytes].
SEGMENT_ALIGN = 64

# DLPack's (type code, bits) to the configuration's name and the NumPy type of the view. The data is
# little-endian, also in a big-endian message. NumPy has no bfloat16.
_DTYPES = {
    (2, 32): ("f32", np.dtype("<f4")),
    (2, 16): ("f16", np.dtype("<f2")),
    (4, 16): ("bf16", np.dtype("<u2")),
}


class Segment:
    """One stream of a fused tensor.

    Attributes:
        name: the stream's name in the configuration.
        dtype: "f32", "f16" or "bf16".
        shape: the first dimension is the history step, oldest first.
        array: a view of the message, of `shape`; for bf16 its bits as uint16 (see `float32`).
        valid: bool per step; if it is False, the value is a fill value, so do not act on it.
        age_ns: int64 per step, target time minus the stamp of the newest row used; negative if that
            row is newer than the target, `NO_AGE` if the step used no row.
    """

    __slots__ = ("name", "dtype", "shape", "array", "valid", "age_ns")

    def __init__(self, name, dtype, array, valid, age_ns):
        self.name = name
        self.dtype = dtype
        self.shape = array.shape
        self.array = array
        self.valid = valid
        self.age_ns = age_ns

    def float32(self):
        """The values as float32: for f32 the view itself, else a converted copy (exact)."""
        if self.dtype != "bf16":
            return self.array.astype(np.float32, copy=False)
        bits = self.array.astype(np.uint32)
        bits <<= 16  # bfloat16 is the upper half of a binary32
        return bits.view(np.float32)

    def torch(self):
        """The values as a torch.Tensor (bf16 as torch.bfloat16) that shares the message's memory.

        Torch cannot mark memory as read-only: do not write to the tensor.
        """
        import warnings

        import torch

        dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        if self.array.size == 0:
            return torch.empty(self.shape, dtype=dtypes[self.dtype])
        with warnings.catch_warnings():  # torch warns about the read-only memory, see above
            warnings.simplefilter("ignore", UserWarning)
            return torch.frombuffer(self.array, dtype=dtypes[self.dtype]).reshape(self.shape)

    def __dlpack__(self, **options):
        """DLPack export without a copy: by NumPy or, for bfloat16, by torch.

        NumPy before 2.1 and consumers of DLPack before 1.0 do not support read-only memory. They
        refuse a `bytes` message with a BufferError, so decode a `bytearray` for them.
        """
        if self.dtype != "bf16":
            return self.array.__dlpack__(**options)
        return self.torch().__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __repr__(self):
        return (
            f"Segment({self.name!r}, {self.dtype}{list(self.shape)}, valid={self.valid.tolist()})"
        )


class FusedTensor:
    """Every stream at the target times of one control tick.

    Attributes:
        tick: the tick's number; `stamp_ns` is tick * period.
        stamp_ns: the tick's instant, nanoseconds on the node's clock.
        frame_id: the base frame.
        segments: dict of name to `Segment`, in the order of the configuration.
        data: the packed bytes (uint8 array); all segments are views of it.
    """

    __slots__ = ("tick", "stamp_ns", "frame_id", "segments", "data")

    def __init__(self, tick, stamp_ns, frame_id, segments, data):
        self.tick = tick
        self.stamp_ns = stamp_ns
        self.frame_id = frame_id
        self.segments = segments
        self.data = data

    def __getitem__(self, name):
        return self.segments[name]

    def __repr__(self):
        return f"FusedTensor(tick={self.tick}, {list(self.segments.values())})"


def decode(message):
    """Decodes the CDR bytes of a `robocache_ros/msg/FusedTensor`. The arrays are views of them.

    Raises ValueError if the bytes are no such message. It says what was expected and found.
    """
    reader = Reader(message)
    stamp_ns = _stamp_ns(reader.i32(), reader.u32())
    frame_id = reader.string()
    tick = reader.u64()
    heads = [_read_head(reader) for _ in range(reader.u32())]
    data = np.frombuffer(reader.bytes(), dtype=np.uint8)
    return FusedTensor(tick, stamp_ns, frame_id, _segments(heads, data), data)


def from_msg(msg):
    """Converts a deserialized `robocache_ros.msg.FusedTensor`. The arrays share its memory."""
    heads = [
        (
            segment.name,
            (segment.dtype_code, segment.dtype_bits, segment.dtype_lanes),
            np.asarray(segment.shape, dtype=np.int64),
            segment.byte_offset,
            np.asarray(segment.valid, dtype=bool),
            np.asarray(segment.age_ns, dtype=np.int64),
        )
        for segment in msg.segments
    ]
    data = np.frombuffer(msg.data, dtype=np.uint8)
    stamp_ns = _stamp_ns(msg.header.stamp.sec, msg.header.stamp.nanosec)
    return FusedTensor(msg.tick, stamp_ns, msg.header.frame_id, _segments(heads, data), data)


def _stamp_ns(sec, nanosec):
    if nanosec >= 1_000_000_000:
        raise ValueError(f"expected a nanosecond part below 1000000000, found {nanosec}")
    return sec * 1_000_000_000 + nanosec


def _read_head(reader):
    """Reads a `TensorSegment` without the values. The tuple is evaluated in wire order."""
    return (
        reader.string(),
        (reader.u8(), reader.u8(), reader.u16()),
        reader.i64s(),
        reader.u64(),
        reader.bools(),
        reader.i64s(),
    )


def _segments(heads, data):
    segments = {}
    for head in heads:
        segment = _segment(*head, data)
        if segment.name in segments:
            raise ValueError(f"expected distinct segment names, found {segment.name!r} twice")
        segments[segment.name] = segment
    return segments


def _segment(name, dtype, shape, offset, valid, age_ns, data):
    """A checked view of `data`."""
    code, bits, lanes = dtype
    if (code, bits) not in _DTYPES or lanes != 1:
        raise ValueError(
            f"segment {name!r}: expected DLPack type (2, 32), (2, 16) or (4, 16) with 1 lane, "
            f"found ({code}, {bits}) with {lanes}"
        )
    dtype_name, dtype_np = _DTYPES[code, bits]
    shape = tuple(shape.tolist())
    if not shape or min(shape) < 0:
        raise ValueError(f"segment {name!r}: expected a shape of sizes >= 0, found {list(shape)}")
    if len(valid) != shape[0] or len(age_ns) != shape[0]:
        raise ValueError(
            f"segment {name!r}: expected {shape[0]} steps in valid and age_ns, "
            f"found {len(valid)} and {len(age_ns)}"
        )
    count = math.prod(shape)  # Python's integers do not overflow
    end = offset + count * dtype_np.itemsize
    if end > len(data) or offset % SEGMENT_ALIGN:
        raise ValueError(
            f"segment {name!r}: expected bytes {offset}..{end} to start at a multiple of "
            f"{SEGMENT_ALIGN} and to lie inside the data, found {len(data)} bytes of data"
        )
    array = data[offset:end].view(dtype_np).reshape(shape)
    return Segment(name, dtype_name, array, valid, age_ns)
