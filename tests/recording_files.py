"""The files of the example `replay_recording`."""

import struct


def write_recording(path, messages, ticks, period_ns):
    """Messages (arrival [ns], stream, bytes), by arrival, and the numbers of ticks."""
    events = [(arrival, 0, stream, data) for arrival, stream, data in messages]
    # A tick comes when the clock reaches it: behind all that had arrived by then.
    events += [(tick * period_ns, 1, tick, b"") for tick in ticks]
    with open(path, "wb") as file:
        for arrival, kind, number, data in sorted(events, key=lambda event: event[:2]):
            if kind == 0:
                file.write(struct.pack("<BIqI", 0, number, arrival, len(data)) + data)
            else:
                file.write(struct.pack("<Bq", 1, number))


def read_tensors(path):
    """The serialized tensors that a replay wrote, in their order."""
    data, at, tensors = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        tensors.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return tensors
