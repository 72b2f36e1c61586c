"""Bags by independent writers: rosbags for both storages, and mcap's own where rosbags cannot."""

from pathlib import Path

import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

#: An instant like that of a real clock, and a multiple of every period in the tests [ns].
T0 = 1_795_000_000_000_000_000
MS = 1_000_000

STORE = get_typestore(Stores.ROS2_JAZZY)
STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}


def made(kind, **fields):
    """A message of this type; what is not given is zero or empty."""
    return STORE.types[kind](**fields)


def header(ns, frame=""):
    stamp = made("builtin_interfaces/msg/Time", sec=ns // 10**9, nanosec=ns % 10**9)
    return made("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


def wrench(ns, *force):
    vector = "geometry_msgs/msg/Vector3"
    x, y, z = map(float, force)
    parts = {"force": made(vector, x=x, y=y, z=z), "torque": made(vector, x=0.0, y=0.0, z=0.0)}
    body = made("geometry_msgs/msg/Wrench", **parts)
    return made("geometry_msgs/msg/WrenchStamped", header=header(ns), wrench=body)


def image(ns, pixels):
    height, width, _ = pixels.shape
    size = {"height": height, "width": width, "step": 3 * width}
    data = np.ascontiguousarray(pixels).reshape(-1)
    return made(
        "sensor_msgs/msg/Image",
        header=header(ns),
        encoding="rgb8",
        is_bigendian=0,
        data=data,
        **size,
    )


def clock(ns):
    stamp = made("builtin_interfaces/msg/Time", sec=ns // 10**9, nanosec=ns % 10**9)
    return made("rosgraph_msgs/msg/Clock", clock=stamp)


def serialized(message):
    """The CDR bytes of a message."""
    return bytes(STORE.serialize_cdr(message, message.__msgtype__))


def write_bag(path, messages, storage="mcap", compress=None, topics=()):
    """Writes messages (topic, receive stamp [ns], message) in this order.

    `compress` is None, "file", "message" or (MCAP alone) "storage", as rosbag2 calls it. `topics` (name, type) have no message.
    """
    writer = Writer(Path(path), version=9, storage_plugin=STORAGES[storage])
    if compress:
        writer.set_compression(CompressionMode[compress.upper()], CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, kind in topics:
            connections[topic] = writer.add_connection(topic, kind, typestore=STORE)
        for topic, received, message in messages:
            if topic not in connections:
                kind = message.__msgtype__
                connections[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(connections[topic], received, serialized(message))
    return Path(path)
