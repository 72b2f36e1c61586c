"""Replays a bag with rosbags, NumPy, Pillow and zarr, in one process: what `robocache replay` is compared with.

    replay_script.py BAG CONFIG rows OUT.zarr     rows at their own stamps, zstd
    replay_script.py BAG CONFIG ticks             per-tick tensors in memory

Each image and each cloud is encoded once, by the NumPy code of the peer node. Python runs per message, per tick and
step. Prints the seconds as JSON.
"""

import contextlib
import json
import resource
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]

import configuration  # noqa: E402 (the path comes first)
import numpy as np  # noqa: E402
from rosbags.highlevel import AnyReader  # noqa: E402
from rosbags.typesys import Stores, get_typestore  # noqa: E402
from streams import KINDS, OUTPUT_TYPES, to_output  # noqa: E402

TYPES = get_typestore(Stores.ROS2_JAZZY)
#: Rows that are written at once.
BLOCK = 32


def messages(reader, streams):
    """(stream, message, receive stamp) of each message that a stream takes, in the order of receiving."""
    by_topic = {stream.input.topic: stream for stream in streams}
    wanted = [c for c in reader.connections if c.topic in by_topic]
    read = TYPES.deserialize_cdr
    for connection, received, data in reader.messages(wanted):
        yield by_topic[connection.topic], read(data, connection.msgtype), received


def stamp_of(msg):
    return msg.header.stamp.sec * 1_000_000_000 + msg.header.stamp.nanosec


class Rows:
    """Arrays of a stream that grow block by block."""

    def __init__(self, group, stream):
        import zarr

        zstd = zarr.codecs.ZstdCodec(level=1)
        small = int(np.prod(stream.shape)) < 4096
        chunk = 1024 if small else 1
        kind = np.float32 if stream.interpolates else OUTPUT_TYPES[stream.spec.dtype]
        where = group.create_group(stream.spec.name)
        options = {"compressors": zstd, "shards": None}
        self.values = where.create_array(
            "rows", shape=(0, *stream.shape), chunks=(chunk, *stream.shape), dtype=kind, **options
        )
        self.stamps = where.create_array(
            "stamp_ns", shape=(0,), chunks=(1024,), dtype="i8", **options
        )
        self.block = 1024 if small else BLOCK
        self.pending = []

    def add(self, stamp, row):
        self.pending.append((stamp, row))
        if len(self.pending) == self.block:
            self.flush()

    def flush(self):
        if self.pending:
            stamps, rows = zip(*self.pending)
            self.values.append(np.stack(rows))
            self.stamps.append(np.array(stamps, dtype=np.int64))
            self.pending = []


def write_rows(reader, streams, out):
    import zarr

    group = zarr.create_group(out, overwrite=True)
    rows = {stream.spec.name: Rows(group, stream) for stream in streams}
    for stream, msg, _ in messages(reader, streams):
        row = stream.decode(msg)
        if row is not None:
            if not stream.interpolates:
                row = to_output(row, stream.spec.dtype)
            rows[stream.spec.name].add(stamp_of(msg), row)
    for of_stream in rows.values():
        of_stream.flush()


def make_ticks(reader, streams, config):
    lock, ticks, next_tick = contextlib.nullcontext(), 0, None
    shapes = [(stream.spec.steps, *stream.shape) for stream in streams]
    out = [np.zeros(shape, OUTPUT_TYPES[s.spec.dtype]) for s, shape in zip(streams, shapes)]
    for stream, msg, received in messages(reader, streams):
        if next_tick is None:
            next_tick = -(-received // config.period_ns)
        while next_tick * config.period_ns < received:
            for other, view in zip(streams, out):
                other.fuse(next_tick * config.period_ns, view)
            ticks, next_tick = ticks + 1, next_tick + 1
        stream.push(msg, received, lock)
    return ticks


def main():
    bag, config, what, *out = sys.argv[1:]
    config = configuration.load(config)
    streams = [KINDS[spec.kind](spec) for spec in config.streams]
    started = time.perf_counter()
    with AnyReader([Path(bag)], default_typestore=TYPES) as reader:
        ticks = make_ticks(reader, streams, config) if what == "ticks" else None
        if what == "rows":
            write_rows(reader, streams, out[0])
    used = resource.getrusage(resource.RUSAGE_SELF)
    wall = time.perf_counter() - started
    report = {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "ticks": ticks}
    print(json.dumps(report | {"peak_mb": used.ru_maxrss / 1e3}))


if __name__ == "__main__":
    main()
