"""Writes CDR in both byte orders, so that the tests of the reader do not depend on the reader."""

import struct


class Writer:
    def __init__(self, order="<"):
        self.order = order
        self.body = bytearray()

    def put(self, code, value):
        layout = struct.Struct(self.order + code)
        self.body += bytes(-len(self.body) % layout.size) + layout.pack(value)

    def sequence(self, code, values):
        self.put("I", len(values))
        for value in values:
            self.put(code, value)

    def string(self, text):
        self.sequence("B", text.encode() + b"\0")

    def message(self):
        return bytes([0, self.order == "<", 0, 0]) + bytes(self.body)


def fused_tensor(segments, data, order="<", stamp=(12, 340), frame_id="base"):
    """The bytes of a FusedTensor of run 9, epoch 3, tick 77 and digest 5.

    `segments` are dicts with the fields of TensorSegment.
    """
    writer = Writer(order)
    writer.put("i", stamp[0])
    writer.put("I", stamp[1])
    writer.string(frame_id)
    for number in (9, 3, 77, 5):
        writer.put("Q", number)
    writer.put("I", len(segments))
    for segment in segments:
        writer.string(segment["name"])
        writer.put("B", segment["dtype_code"])
        writer.put("B", segment["dtype_bits"])
        writer.put("H", segment["dtype_lanes"])
        writer.sequence("q", segment["shape"])
        writer.put("Q", segment["byte_offset"])
        writer.sequence("?", segment["valid"])
        writer.sequence("q", segment["target_ns"])
        writer.sequence("q", segment["age_ns"])
        writer.sequence("I", segment["count"])
        writer.sequence("I", segment["inputs_valid"])
    writer.sequence("B", data)
    return writer.message()


def segment(name, dtype, shape, byte_offset, valid, age_ns, lanes=1, **given):
    """The fields of one TensorSegment; `dtype` is DLPack's (code, bits).

    Targets are 10, 20, ... ns, counts full and inputs 1, unless they are given.
    """
    steps = range(len(valid))
    fields = {
        "target_ns": [10 * (step + 1) for step in steps],
        "count": [shape[1] if len(shape) > 1 else 1] * len(valid),
        "inputs_valid": [1] * len(valid),
    }
    return {
        **fields,
        **given,
        "name": name,
        "dtype_code": dtype[0],
        "dtype_bits": dtype[1],
        "dtype_lanes": lanes,
        "shape": list(shape),
        "byte_offset": byte_offset,
        "valid": list(valid),
        "age_ns": list(age_ns),
    }
