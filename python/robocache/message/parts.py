"""Checks of the parts of a tensor message that rclpy deserialized.

`_native.read_message` checks the bytes of a message (`core::message`).
"""

import math

#: Every segment starts at a multiple of this inside `FusedTensor.data` [bytes].
SEGMENT_ALIGN = 64

# DLPack's (type code, bits) to the configuration's name and bytes per element.
_DTYPES = {
    (2, 32): ("f32", 4),
    (2, 16): ("f16", 2),
    (4, 16): ("bf16", 2),
    (1, 8): ("u8", 1),
    (0, 32): ("i32", 4),
}


def stamp_ns(sec, nanosec):
    """The nanoseconds of a `builtin_interfaces/Time`."""
    if nanosec >= 1_000_000_000:
        raise ValueError(f"expected a nanosecond part below 1000000000, found {nanosec}")
    return sec * 1_000_000_000 + nanosec


def check_distinct(name, names):
    """Checks that no other segment has this name."""
    if name in names:
        raise ValueError(f"expected distinct segment names, found '{name}' twice")


def check_segment(name, dtype, shape, offset, steps, data_len):
    """Checks what a message says of a segment.

    Args:
        dtype: DLPack's (type code, bits, lanes).
        offset: where its elements are in the data [bytes], of which there are `data_len`.
        steps: for each field of the steps, an array with an entry per step.

    Returns the configuration's name of the type, and the shape.
    """
    code, bits, lanes = dtype
    if (code, bits) not in _DTYPES or lanes != 1:
        raise ValueError(
            f"segment '{name}': expected DLPack type {', '.join(map(str, _DTYPES))} with 1 lane, "
            f"found ({code}, {bits}) with {lanes}"
        )
    dtype, size = _DTYPES[code, bits]
    shape = shape.tolist()
    if not shape or min(shape) < 0:
        raise ValueError(f"segment '{name}': expected a shape of sizes >= 0, found {shape}")
    for field, values in steps.items():
        if len(values) != shape[0]:
            raise ValueError(
                f"segment '{name}': expected {shape[0]} steps in {field}, found {len(values)}"
            )
    entries = shape[1] if len(shape) > 1 else 1
    most = max(steps["count"].tolist(), default=0)
    if most > entries:
        raise ValueError(
            f"segment '{name}': expected at most {entries} entries in count, found {most}"
        )
    if offset % SEGMENT_ALIGN:
        raise ValueError(
            f"segment '{name}': expected an offset that is a multiple of {SEGMENT_ALIGN}, found {offset}"
        )
    if offset + math.prod(shape) * size > data_len:  # Python's integers do not overflow
        raise ValueError(
            f"segment '{name}': expected {dtype}{shape} at byte {offset} to lie inside the data, "
            f"found {data_len} bytes of data"
        )
    return dtype, shape
