"""A reader of CDR, the wire encoding of ROS 2 messages.

OMG DDS-XTypes 1.3, section 7.4.1 (PLAIN_CDR, version 1): an encapsulation header of four bytes,
then primitives. Each is aligned to its own size, counted from the end of the header.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

ENCAPSULATION_LEN = 4


class Reader:
    """A cursor over one serialized message. Raises ValueError if it cannot read a value."""

    def __init__(self, message: Any) -> None:
        self._message = memoryview(message).cast("B")
        if len(self._message) < ENCAPSULATION_LEN:
            found = len(self._message)
            raise ValueError(f"expected {ENCAPSULATION_LEN} more bytes at byte 0, found {found}")
        # RTPS 2.5, 10.5: the second byte is 0 for big-endian and 1 for little-endian PLAIN_CDR.
        if self._message[0] != 0 or self._message[1] not in (0, 1):
            raise ValueError(
                "expected a PLAIN_CDR message (0x0000 or 0x0001), "
                f"found encapsulation 0x{self._message[:2].hex()}"
            )
        self._order = "<" if self._message[1] else ">"
        self._position = ENCAPSULATION_LEN
        self._formats = {
            code: struct.Struct(self._order + code) for code in ("B", "H", "i", "I", "Q")
        }

    @property
    def position(self) -> int:
        """Where the next value begins, without its alignment [bytes]."""
        return self._position

    @property
    def big_endian(self) -> bool:
        """Whether the numbers of this message have their most significant byte first."""
        return self._order == ">"

    def _align(self, size: int) -> None:
        self._position += -(self._position - ENCAPSULATION_LEN) % size

    def _take(self, length: int) -> Any:
        """The next `length` bytes as a view."""
        end = self._position + length
        if end > len(self._message):
            left = max(0, len(self._message) - self._position)
            raise ValueError(f"expected {length} more bytes at byte {self._position}, found {left}")
        view = self._message[self._position : end]
        self._position = end
        return view

    def _primitive(self, code: str) -> Any:
        layout = self._formats[code]
        self._align(layout.size)
        return layout.unpack(self._take(layout.size))[0]

    def u8(self) -> int:
        return self._primitive("B")

    def u16(self) -> int:
        return self._primitive("H")

    def i32(self) -> int:
        return self._primitive("i")

    def u32(self) -> int:
        return self._primitive("I")

    def u64(self) -> int:
        return self._primitive("Q")

    def string(self) -> str:
        """A string without its terminating zero."""
        at = self._position
        raw = bytes(self._take(self.u32())).removesuffix(b"\0")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"expected UTF-8 in the string at byte {at}, found {raw.hex()}"
            ) from None

    def bytes(self) -> Any:
        """A sequence of uint8 as a view."""
        return self._take(self.u32())

    def bools(self) -> np.ndarray:
        """A sequence of bool as an array. Any byte but 0 is true, as in C."""
        return np.frombuffer(self.bytes(), dtype=np.uint8) != 0

    def i64s(self) -> np.ndarray:
        """A sequence of int64 as an array in this machine's byte order."""
        return self._numbers("i8")

    def u32s(self) -> np.ndarray:
        """A sequence of uint32 as an array in this machine's byte order."""
        return self._numbers("u4")

    def _numbers(self, kind: str) -> np.ndarray:
        wire = np.dtype(self._order + kind)
        count = self.u32()
        if count:  # no padding follows the length of an empty sequence
            self._align(wire.itemsize)
        values = np.frombuffer(self._take(wire.itemsize * count), dtype=wire)
        return values.astype(np.dtype(kind), copy=False)
