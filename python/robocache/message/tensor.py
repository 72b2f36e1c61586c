"""`FusedTensor` and its segments, from a message's bytes or from a deserialized message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .parts import SEGMENT_ALIGN, check_distinct, check_segment, stamp_ns
from .values import Values

__all__ = [
    "NO_AGE",
    "SEGMENT_ALIGN",
    "FusedTensor",
    "Segment",
    "decode",
    "digest_of",
    "from_msg",
]

#: `age_ns` of a step that used no row.
NO_AGE = np.iinfo(np.int64).max

# The configuration's names of element types to the NumPy types of views. The data is little-endian, also in a
# big-endian message. NumPy has no bfloat16.
_DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
    "i32": np.dtype("<i4"),
}
_BOOL, _BYTE = np.dtype(bool), np.dtype("u1")
# What is said of steps, in both byte orders of messages.
_LITTLE = np.dtype("<i8"), np.dtype("<u4")
_BIG = np.dtype(">i8"), np.dtype(">u4")
# Of each step: valid, target_ns, age_ns, count and inputs_valid.
_Steps = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Segment(Values):
    """One stream of a fused tensor. It is an array of its numbers, too: `numpy.asarray(segment)`, `segment[-1]`.

    Attributes:
        name: the stream's name in the configuration.
        dtype: "f32", "f16", "bf16", "u8" or "i32".
        shape: the first dimension is the history step, oldest first.
        array: a view of the message, of `shape`. For bf16 these are no numbers but their bits as
            uint16, because NumPy has no bfloat16: `float32` and `torch` give numbers for every type.
        valid: bool per step; if it is False, the value is a fill value, so do not act on it.
        target_ns: int64 per step, its target time on the node's clock.
        age_ns: int64 per step, target time minus the stamp of the newest row used; negative if that
            row is newer than the target, `NO_AGE` if the step used no row. It leaves out the lag:
            `FusedTensor.age_at_tick_ns` has it.
        count: uint32 per step, entries in use along the second dimension: always all of them for a
            dense segment (see `in_use`).
        inputs_valid: uint32 per step; bit i says that a row which is valid at this step came from
            the stream's input i; of a grid with clouds of several inputs, that it holds a cloud of
            input i that is not too old.
    """

    __slots__ = (
        "name",
        "dtype",
        "shape",
        "array",
        "valid",
        "target_ns",
        "age_ns",
        "count",
        "inputs_valid",
        "_is_shared",
    )

    def __init__(
        self,
        name: str,
        dtype: str,
        array: Any,
        valid: np.ndarray,
        target_ns: np.ndarray,
        age_ns: np.ndarray,
        count: np.ndarray,
        inputs_valid: np.ndarray,
        is_shared: bool = False,
    ) -> None:
        self.name = name
        self._is_shared = is_shared
        self.dtype = dtype
        self.shape = array.shape
        self.array = array
        self.valid = valid
        self.target_ns = target_ns
        self.age_ns = age_ns
        self.count = count
        self.inputs_valid = inputs_valid

    def in_use(self, step: int = -1) -> Any:
        """The entries of a step that are in use: a view of `count[step]` entries.

        Of a sparse voxel grid, `tensor["lidar"].in_use()` has the features of the occupied voxels and
        `tensor["lidar.coordinates"].in_use()` their coordinates z, y, x. Of a dense segment it is the
        whole step.
        """
        return self.array[step, : self.count[step]]

    def float32(self) -> Any:
        """The values as float32: for f32 the view itself, else a converted copy.

        The copy is exact, but for integers of i32 beyond 2**24.
        """
        if self.dtype != "bf16":
            return self.array.astype(np.float32, copy=False)
        bits = self.array.astype(np.uint32)
        bits <<= 16  # bfloat16 is the upper half of a binary32
        return bits.view(np.float32)

    def torch(self, copy: bool | None = None) -> Any:
        """The values as a torch.Tensor (bf16 as torch.bfloat16).

        Args:
            copy: whether the tensor has memory of its own. If not, it shares that of the message: do not write to it,
                because torch cannot mark memory as read-only. By default, only a tensor that another process has
                written (`robocache.shared`) is copied: a write to its memory would end this process.
        """
        tensor = self._torch()
        return tensor.clone() if (self._is_shared if copy is None else copy) else tensor

    def _torch(self) -> Any:
        """As `torch`, in the message's memory."""
        import warnings

        import torch

        dtypes = {
            "f32": torch.float32,
            "f16": torch.float16,
            "bf16": torch.bfloat16,
            "u8": torch.uint8,
            "i32": torch.int32,
        }
        if self.array.size == 0:
            return torch.empty(self.shape, dtype=dtypes[self.dtype])
        with warnings.catch_warnings():  # torch warns about the read-only memory, see above
            warnings.simplefilter("ignore", UserWarning)
            return torch.frombuffer(self.array, dtype=dtypes[self.dtype]).reshape(self.shape)

    def __dlpack__(self, **options: Any) -> Any:
        """DLPack export without a copy: by NumPy or, for bfloat16, by torch.

        NumPy before 2.1 and consumers of DLPack before 1.0 do not support read-only memory. They
        refuse a `bytes` message with a BufferError, so decode a `bytearray` for them.
        """
        if self.dtype != "bf16":
            return self.array.__dlpack__(**options)
        return self.torch().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __repr__(self) -> str:
        bits = self.dtype == "bf16" and isinstance(self.array, np.ndarray)
        note = ", array: bits as uint16" if bits else ""
        valid = self.valid.tolist()
        return f"Segment({self.name!r}, {self.dtype}{list(self.shape)}, valid={valid}{note})"


class FusedTensor(Mapping[str, Segment]):
    """Every stream at the target times of one control tick: a mapping of names to segments.

    Attributes:
        tick: the tick's number; `stamp_ns` is tick * period.
        stamp_ns: the tick's instant, nanoseconds on the node's clock.
        frame_id: the base frame.
        segments: dict of name to `Segment`, in the order of the configuration.
        data: the packed bytes (uint8 array); all segments are views of it.
        digest: the hash that the node made of all of it, 0 if it made none (see `digest_of`).
        message: the serialized message that the arrays view, or None.
        run: the run of the node that made it, drawn at each start and activation; 0 if no node made it, but a replay
            or a `robocache.Pipeline`.
        epoch: the epoch of the clock, which a jump back raises. Run, epoch and tick name the tensor.
    """

    __slots__ = (
        "tick",
        "stamp_ns",
        "frame_id",
        "segments",
        "data",
        "digest",
        "message",
        "run",
        "epoch",
    )

    def __init__(
        self,
        tick: int,
        stamp_ns: int,
        frame_id: str,
        segments: dict[str, Segment],
        data: Any,
        digest: int = 0,
        message: Any = None,
        run: int = 0,
        epoch: int = 0,
    ) -> None:
        self.tick = tick
        self.stamp_ns = stamp_ns
        self.frame_id = frame_id
        self.segments = segments
        self.data = data
        self.digest = digest
        self.message = message
        self.run = run
        self.epoch = epoch

    def __getitem__(self, name: str) -> Segment:
        return self.segments[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    # Not by the segments, which are arrays.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def age_at_tick_ns(self, name: str) -> np.ndarray:
        """How old the newest row that each step of a segment uses was at the tick [ns].

        This is `stamp_ns` minus the row's stamp. It is greater than `age_ns` by the lag and by the
        distance of the step from the newest one. `NO_AGE` if the step used no row.
        """
        segment = self.segments[name]
        before_tick_ns = self.stamp_ns - segment.target_ns
        known = segment.age_ns != NO_AGE
        return np.where(known, np.where(known, segment.age_ns, 0) + before_tick_ns, NO_AGE)

    def __repr__(self) -> str:
        return f"FusedTensor(tick={self.tick}, {list(self.segments.values())})"


def decode(message: Any) -> FusedTensor:
    """Decodes the CDR bytes of a `robocache_ros/msg/FusedTensor`. The arrays are views of them.

    Raises ValueError if the bytes are no such message. It says what was expected and found.
    """
    try:
        from .._native import read_message  # with the first message: to import this module is quick
    except ImportError as error:
        raise ImportError(
            f"expected the compiled part of robocache: install its wheel ({error})"
        ) from error

    whole = message if isinstance(message, bytes) else np.frombuffer(message, np.uint8)
    (stamp, run, epoch, tick, digest), places = read_message(whole)
    frame_id, big_endian, (data_at, data_len), found = places
    segments = {}
    for name, dtype, shape, at, steps_at in found:
        array = array_at(whole, dtype, shape, at)
        valid, target_ns, age_ns, count, inputs_valid = steps_of(
            whole, shape[0], steps_at, _BIG if big_endian else _LITTLE
        )
        if big_endian:
            target_ns, age_ns, count, inputs_valid = (
                values.astype(values.dtype.newbyteorder("="))
                for values in (target_ns, age_ns, count, inputs_valid)
            )
        # Any byte but 0 is true, as in C.
        valid = valid.view(_BYTE) != 0
        segments[name] = Segment(name, dtype, array, valid, target_ns, age_ns, count, inputs_valid)
    data: np.ndarray = np.ndarray(data_len, _BYTE, whole, data_at)
    return FusedTensor(tick, stamp, frame_id, segments, data, digest, message, run, epoch)


def array_at(message: Any, dtype: str, shape: Sequence[int], at: int) -> np.ndarray:
    """The elements of a segment, as a view of a message."""
    return np.ndarray(shape, _DTYPES[dtype], message, at)


def steps_of(
    message: Any, count: int, places: Sequence[int], numbers: tuple[np.dtype, np.dtype] = _LITTLE
) -> _Steps:
    """What a message says of each step: valid, target_ns, age_ns, count and inputs_valid, as views."""
    valid_at, target_at, age_at, count_at, inputs_at = places
    nanos, entries = numbers
    return (
        np.ndarray(count, _BOOL, message, valid_at),
        np.ndarray(count, nanos, message, target_at),
        np.ndarray(count, nanos, message, age_at),
        np.ndarray(count, entries, message, count_at),
        np.ndarray(count, entries, message, inputs_at),
    )


def from_msg(msg: Any) -> FusedTensor:
    """Converts a deserialized `robocache_ros.msg.FusedTensor`. The arrays share its memory."""
    data = np.frombuffer(msg.data, dtype=np.uint8)
    stamp = stamp_ns(msg.header.stamp.sec, msg.header.stamp.nanosec)
    segments: dict[str, Segment] = {}
    for segment in msg.segments:
        name, offset = segment.name, segment.byte_offset
        kind = segment.dtype_code, segment.dtype_bits, segment.dtype_lanes
        steps: dict[str, Any] = {
            "valid": np.asarray(segment.valid, dtype=bool),
            "target_ns": np.asarray(segment.target_ns, dtype=np.int64),
            "age_ns": np.asarray(segment.age_ns, dtype=np.int64),
            "count": np.asarray(segment.count, dtype=np.uint32),
            "inputs_valid": np.asarray(segment.inputs_valid, dtype=np.uint32),
        }
        shape = np.asarray(segment.shape, dtype=np.int64)
        dtype, shape = check_segment(name, kind, shape, offset, steps, len(data))
        check_distinct(name, segments)
        segments[name] = Segment(name, dtype, array_at(data, dtype, shape, offset), **steps)
    head = msg.tick, stamp, msg.header.frame_id
    return FusedTensor(*head, segments, data, msg.digest, run=msg.run, epoch=msg.epoch)


def digest_of(tensor: FusedTensor) -> int:
    """Computes the digest of a tensor as the node does. It needs the package xxhash.

    It is equal to `tensor.digest` unless a bit of the tensor changed on the way, or the node made
    no digest (0). It is the XXH3 hash (64 bits, seed 0) of `valid`, `target_ns`, `age_ns`, `count`
    and `inputs_valid` of each segment, and then of `data`: little-endian, without gaps.
    """
    try:
        import xxhash
    except ImportError:
        raise ImportError("digest_of: expected the package xxhash: pip install xxhash") from None
    hasher = xxhash.xxh3_64()
    for segment in tensor.segments.values():
        hasher.update(segment.valid.astype(np.uint8).tobytes())
        hasher.update(segment.target_ns.astype("<i8").tobytes())
        hasher.update(segment.age_ns.astype("<i8").tobytes())
        hasher.update(segment.count.astype("<u4").tobytes())
        hasher.update(segment.inputs_valid.astype("<u4").tobytes())
    hasher.update(tensor.data)
    return hasher.intdigest()
