"""Frames as serialized ROS 2 messages (PLAIN_CDR, little-endian; see `robocache.message.cdr`).

A value is aligned to its own size, counted from the end of the encapsulation. All messages of a stream have one
layout, so only stamps and values are written for each.
"""

import struct

import numpy as np

JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"

_ENCAPSULATION = b"\0\1\0\0"
#: Where the stamp of a header is: the header is the first member of all three types.
_STAMP = slice(4, 12)
_NO_TEXT = struct.pack("<I", 1) + b"\0"


def stamps(ns):
    """`builtin_interfaces/Time` of instants [ns]: an array [instants, 8] of uint8.

    Raises ValueError if a message cannot hold an instant.
    """
    seconds, rest = np.divmod(np.asarray(ns, np.int64), 10**9)
    if len(seconds) and not 0 <= seconds.min() <= seconds.max() < 2**31:
        raise ValueError(
            f"expected stamps from 1970 to 2038, found {int(np.min(ns))} to {int(np.max(ns))} ns"
        )
    pairs = np.stack([seconds, rest], axis=1).astype("<u4")
    return np.ascontiguousarray(pairs).view(np.uint8)


def joint_states(names, positions, stamp_ns):
    """A list of JointState messages with positions [messages, names], without velocities and efforts."""
    body = bytearray(bytes(8) + _NO_TEXT)  # the stamp, and no frame_id
    _put(body, "<I", len(names))
    for name in names:
        text = name.encode() + b"\0"
        _put(body, "<I", len(text))
        body += text
    _put(body, "<I", len(names))
    if names:
        body += bytes(-len(body) % 8)
    first = len(_ENCAPSULATION) + len(body)
    end = first + 8 * len(names)
    body += bytes(8 * len(names) + 8)  # the positions, and two empty lists
    messages = np.empty((len(positions), len(_ENCAPSULATION) + len(body)), np.uint8)
    messages[:] = np.frombuffer(_ENCAPSULATION + bytes(body), np.uint8)
    messages[:, _STAMP] = stamps(stamp_ns)
    values = np.ascontiguousarray(positions, "<f8").view(np.uint8)
    messages[:, first:end] = values.reshape(len(positions), -1)
    return [message.tobytes() for message in messages]


class Images:
    """Messages of `sensor_msgs/msg/Image` with rgb8 pixels of one size."""

    def __init__(self, height, width):
        body = bytearray(_NO_TEXT)
        _put(body, "<I", height, offset=8)
        _put(body, "<I", width, offset=8)
        body += struct.pack("<I", 5) + b"rgb8\0"
        body += b"\0"  # is_bigendian
        _put(body, "<I", 3 * width, offset=8)
        _put(body, "<I", 3 * width * height, offset=8)
        self._between = bytes(body)

    def message(self, stamp, pixels):
        """The message with a stamp (8 bytes) and pixels, whose bytes are copied once."""
        return b"".join((_ENCAPSULATION, stamp, self._between, pixels))


def compressed_image(stamp, picture):
    """The message with a stamp (8 bytes) and the bytes of a PNG or a JPEG."""
    body = bytearray(_NO_TEXT)
    text = b"png\0" if picture[:4] == b"\x89PNG" else b"jpeg\0"
    _put(body, "<I", len(text), offset=8)
    body += text
    _put(body, "<I", len(picture), offset=8)
    return b"".join((_ENCAPSULATION, stamp, body, picture))


def _put(body, code, value, offset=0):
    """Writes a number at its alignment. `body` begins `offset` bytes after the encapsulation."""
    size = struct.calcsize(code)
    body += bytes(-(len(body) + offset) % size) + struct.pack(code, value)
