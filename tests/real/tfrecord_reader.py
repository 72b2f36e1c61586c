"""Reads TFRecord files and `tf.train.Example` by their definitions, without the package and without protobuf.

https://www.tensorflow.org/tutorials/load_data/tfrecord, https://protobuf.dev/programming-guides/encoding.
"""

import struct

import numpy as np


def records(path):
    """The data of all records of a file."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 12 : at + 12 + length])
        at += length + 16
    return found


def example(data):
    """The features of an Example: by name a list of bytes, or an array of float32 or int64."""
    (features,) = [value for number, value in fields(data) if number == 1]
    found = {}
    for _, entry in fields(features):
        own = dict(fields(entry))
        ((kind, values),) = fields(own[2])
        found[own[1].decode()] = _list(kind, [value for _, value in fields(values)])
    return found


def _list(kind, values):
    if kind == 1:
        return values
    if kind == 2:
        return np.concatenate([np.frombuffer(_packed(value, "<f"), "<f4") for value in values])
    numbers = []
    for value in values:
        numbers += [value] if isinstance(value, int) else varints(value)
    return np.array(numbers, np.uint64).astype(np.int64)


def _packed(value, code):
    return struct.pack(code, value) if isinstance(value, float) else value


def varints(data):
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Pairs of a field's number and its value: bytes, an integer or a float."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        elif key & 7 == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        else:
            value, at = varint(data, at)
        found.append((key >> 3, value))
    return found
