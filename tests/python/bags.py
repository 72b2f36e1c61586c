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


def joints(ns, **positions):
    """Positions of joints by their names, without velocities and efforts."""
    values = np.array(list(positions.values()), dtype=np.float64)
    none = np.array([], dtype=np.float64)
    kind = "sensor_msgs/msg/JointState"
    return made(
        kind, header=header(ns), name=list(positions), position=values, velocity=none, effort=none
    )


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


def write_mcap(path, messages):
    """Writes messages (topic, receive stamp [ns], message, publication [ns]) as a file of MCAP."""
    from mcap.writer import Writer as McapWriter

    with path.open("wb") as file:
        writer = McapWriter(file)
        writer.start("ros2", "a test")
        channels = {}
        for topic, received, message, published in messages:
            if topic not in channels:
                schema = writer.register_schema(message.__msgtype__, "ros2msg", b"")
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], received, serialized(message), published)
        writer.finish()
    return path


def vector(kind, *numbers):
    return made(f"geometry_msgs/msg/{kind}", **dict(zip("xyzw", map(float, numbers))))


def empty(kind, **fields):
    """A message of this type; what is not given is zero or empty, at any depth."""
    from rosbags.interfaces import Nodetype

    def value(entry):
        node, detail = entry
        if node == Nodetype.NAME:
            return empty(detail)
        if node == Nodetype.BASE:
            return "" if detail[0] == "string" else (False if detail[0] == "bool" else 0)
        inner, count = detail
        if inner[0] == Nodetype.BASE and inner[1][0] != "string":
            numpy = {"octet": "uint8", "char": "uint8", "byte": "uint8"}
            name = numpy.get(inner[1][0], inner[1][0])
            return np.zeros(count if node == Nodetype.ARRAY else 0, name)
        return [value(inner) for _ in range(count)] if node == Nodetype.ARRAY else []

    _, members = STORE.fielddefs[kind]
    given = {name: fields[name] if name in fields else value(entry) for name, entry in members}
    return made(kind, **given)


def compressed(ns, picture, form, **options):
    """A picture of Pillow as a file in a message."""
    import io

    file = io.BytesIO()
    picture.save(file, **options)
    data = np.frombuffer(file.getvalue(), np.uint8)
    return made(
        "sensor_msgs/msg/CompressedImage", header=header(ns, "optical"), format=form, data=data
    )


def cloud(ns, points, sweep_ns=90 * MS):
    """A cloud of [n, 3] coordinates with intensity, ring and the time of an Ouster."""
    fields = (
        ("x", 0, 7),
        ("y", 4, 7),
        ("z", 8, 7),
        ("intensity", 12, 7),
        ("ring", 16, 4),
        ("t", 20, 6),
    )
    kind = np.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [{7: "<f4", 4: "<u2", 6: "<u4"}[code] for _, _, code in fields],
            "offsets": [offset for _, offset, _ in fields],
            "itemsize": 24,
        }
    )
    table = np.zeros(len(points), kind)
    table["x"], table["y"], table["z"] = np.asarray(points, np.float32).T
    table["intensity"] = np.arange(len(points)) % 255
    table["t"] = np.linspace(0, sweep_ns, len(points)).astype(np.uint32)
    field = "sensor_msgs/msg/PointField"
    described = [
        made(field, name=name, offset=offset, datatype=code, count=1)
        for name, offset, code in fields
    ]
    return unorganized(header(ns, "lidar"), described, table)


def unorganized(head, fields, table):
    """A cloud without rows. `table` has a point per row, as one array."""
    data = table.view(np.uint8).reshape(-1)
    return made(
        "sensor_msgs/msg/PointCloud2",
        header=head,
        height=1,
        width=len(table),
        fields=fields,
        is_bigendian=False,
        point_step=len(data) // len(table),
        row_step=len(data),
        data=data,
        is_dense=True,
    )


def transforms(*links):
    """A message of transforms (stamp [ns], parent, child, x [m])."""
    all = [
        made(
            "geometry_msgs/msg/TransformStamped",
            header=header(ns, parent),
            child_frame_id=child,
            transform=made(
                "geometry_msgs/msg/Transform",
                translation=vector("Vector3", x, 0, 0),
                rotation=vector("Quaternion", 0, 0, 0, 1),
            ),
        )
        for ns, parent, child, x in links
    ]
    return made("tf2_msgs/msg/TFMessage", transforms=all)
