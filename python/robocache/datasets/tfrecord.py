"""TFRecord files, and what `tf.train.Example` has, without TensorFlow.

A record is a length (uint64), the masked CRC-32C of the length (uint32), the data, and the masked CRC-32C of the data
(uint32), all little-endian: https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import functools
import os
import struct

import numpy as np

from .mapping_file import missing

_HEAD, _TAIL = 12, 4
#: Of a record; protobuf takes no more.
_MAX_BYTES = (1 << 31) - 1


def expect_packages():
    """Raises ImportError, which says what to install."""
    try:
        import google.protobuf  # noqa: F401
        import google_crc32c  # noqa: F401
    except ImportError as error:
        raise missing("protobuf and google-crc32c", error) from error


def _masked(data):
    """The checksum of TFRecord files: the CRC-32C, rotated by 15 bits, plus a constant."""
    import google_crc32c

    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class Offsets:
    """Where the records of a file are. The data are not read.

    Attributes:
        spans: of each whole record where its data begin, and their length.
        damage: why there are fewer than `count`; None if there are all.
    """

    def __init__(self, path, count):
        """Reads the heads of `count` records.

        Raises:
            ValueError: the file has more.
            OSError: it cannot be read.
        """
        self.spans, self.damage, at = [], None, 0
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            while at < size and self.damage is None:
                where = f"{path}: record {len(self.spans)} at byte {at}"
                span = _head(where, os.pread(file.fileno(), _HEAD, at), at, size)
                if isinstance(span, str):
                    self.damage = span
                else:
                    self.spans.append(span)
                    at = span[0] + span[1] + _TAIL
        found = len(self.spans)
        if found > count or (found == count and self.damage is not None):
            more = self.damage or f"found {found}"
            raise ValueError(
                f"{path}: expected {count} records as in dataset_info.json, and no more: {more}"
            )
        if found < count and self.damage is None:
            self.damage = f"{path}: expected {count} records as in dataset_info.json, found {found}"

    def of(self, record):
        """The span of a record. Raises ValueError if the file is damaged before its end."""
        if record < len(self.spans):
            return self.spans[record]
        raise ValueError(self.damage)


def _head(where, head, at, size):
    """The span of the record at `at`, or a text: what is wrong."""
    if len(head) < _HEAD:
        return f"{where}: expected {_HEAD} bytes of a length, found {len(head)}"
    length, checksum = struct.unpack("<QI", head)
    if _masked(head[:8]) != checksum:
        return f"{where}: expected the checksum {_masked(head[:8]):#010x} of its length, found {checksum:#010x}"
    if length > _MAX_BYTES or at + _HEAD + length + _TAIL > size:
        return (
            f"{where}: expected {length} bytes, found {max(0, size - at - _HEAD - _TAIL)} up to the end of the file: it "
            "may be truncated"
        )
    return at + _HEAD, length


def record(path, offset, length):
    """The data of a record. Raises ValueError if its checksum is wrong or the file ends."""
    with _opened(path) as file:
        data = os.pread(file.fileno(), length + _TAIL, offset)
    if len(data) < length + _TAIL:
        raise ValueError(f"{path}: expected {length + _TAIL} bytes at {offset}, found {len(data)}")
    view = memoryview(data)
    (checksum,) = struct.unpack("<I", view[length:])
    found = _masked(data[:length])  # google_crc32c takes bytes alone
    if found != checksum:
        raise ValueError(
            f"{path}: record at byte {offset - _HEAD}: expected data with the checksum {checksum:#010x}, found "
            f"{found:#010x}"
        )
    return view[:length]


class Part:
    """The bytes of a record in its file: `features` reads only those that it needs."""

    def __init__(self, file, offset, length):
        self._file, self._offset, self._length = file, offset, length

    def __len__(self):
        return self._length

    def __getitem__(self, span):
        first, stop, _ = span.indices(self._length)
        return os.pread(self._file.fileno(), max(0, stop - first), self._offset + first)


def some_features(path, offset, length, names):
    """Features of a record by name, without the rest and without its checksum: as of `features`."""
    with _opened(path) as file:
        return features(path, Part(file, offset, length), names)


def features(where, data, names):
    """Features of a serialized `tf.train.Example`: a dict by name of NumPy arrays, or of lists of bytes.

    Only what is asked for is decoded.

    Args:
        where: what errors name.
        data: the bytes, or a `Part`.
        names: those that are wanted. If one is missing, the result has not it.

    Raises ValueError if they are no Example.
    """
    from google.protobuf.message import DecodeError

    found = {}
    try:
        for first, stop in _fields(data, 0, len(data), 1):  # Example.features
            for begin, end in _fields(data, first, stop, 1):  # Features.feature, a map
                name = _first(data, begin, end, 1)
                if name is None:
                    continue
                key = bytes(data[name[0] : name[1]]).decode()
                value = _first(data, begin, end, 2)
                if key in names and value is not None:
                    feature = _feature()()
                    feature.MergeFromString(bytes(data[value[0] : value[1]]))
                    found[key] = _values(feature)
    except (_Damage, DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: expected a tf.train.Example, found damage: {error}") from None
    return found


class _Damage(Exception):
    """The bytes are no message."""


def _fields(data, at, stop, number):
    """Yields the spans of a field of length-delimited values (protobuf encoding, wire type 2)."""
    while at < stop:
        key, at = _varint(data, at, stop)
        wire = key & 7
        if wire == 2:
            size, at = _varint(data, at, stop)
            if at + size > stop:
                raise _Damage(f"{size} bytes at byte {at}, of {stop - at}")
            if key >> 3 == number:
                yield at, at + size
            at += size
        elif wire == 0:
            _, at = _varint(data, at, stop)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise _Damage(f"the wire type {wire} at byte {at}")
    if at != stop:
        raise _Damage(f"a value that ends at byte {at} of {stop}")


def _first(data, at, stop, number):
    return next(_fields(data, at, stop, number), None)


def _varint(data, at, stop):
    """A number, and where it ends."""
    value = 0
    for shift, byte in enumerate(data[at : min(at + 10, stop)]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    raise _Damage(f"a number without an end at byte {at}")


@functools.cache
def _feature():
    """The message type `tf.train.Feature`, as in tensorflow/core/example/feature.proto."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="robocache/feature.proto", package="robocache.example", syntax="proto3"
    )
    lists = {"Bytes": kind.TYPE_BYTES, "Float": kind.TYPE_FLOAT, "Int64": kind.TYPE_INT64}
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, element) in enumerate(lists.items(), start=1):
        message = file.message_type.add(name=f"{name}List")
        message.field.add(name="value", number=1, type=element, label=kind.LABEL_REPEATED)
        feature.field.add(
            name=f"{name.lower()}_list",
            number=number,
            type=kind.TYPE_MESSAGE,
            label=kind.LABEL_OPTIONAL,
            type_name=f".robocache.example.{name}List",
            oneof_index=0,
        )
    file.message_type.append(feature)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("robocache.example.Feature"))


def _values(feature):
    """A list of bytes, or an array of float32 or int64."""
    kind = feature.WhichOneof("kind")
    if kind == "bytes_list":
        return list(feature.bytes_list.value)
    if kind == "float_list":
        return np.array(feature.float_list.value, np.float32)
    if kind == "int64_list":
        return np.array(feature.int64_list.value, np.int64)
    return []


def _opened(path):
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: expected a TFRecord file, found no such file") from None
