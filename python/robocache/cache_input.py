"""Streams of arrays, as the compiled part reads them."""

import numpy as np

from ._dtypes import ARRAY_NAMES
from ._interop import unmasked
from ._steps import nanoseconds, offsets_of

_NAMES = {array: name for name, array in ARRAY_NAMES.items()}
_NEVER = np.iinfo(np.int64)


def of_arrays(name, stream, lengths, period_ns=None):
    """What a stream of arrays means, and its columns. `period_ns` is a step that says no other length."""
    columns = ("rows", "stamp_ns")
    rows, stamp_ns = (np.asarray(unmasked(stream.pop(key), key)) for key in columns)
    dtype = _NAMES.get(str(rows.dtype))
    if dtype is None or rows.ndim < 2:
        raise TypeError(
            f"rows of '{name}': expected [rows, row...] of {', '.join(_NAMES)}, found {rows.dtype}"
        )
    arrivals = "received_ns" in stream
    received_ns = np.asarray(stream.pop("received_ns", stamp_ns))
    vector = rows.ndim == 2 and dtype not in ("u8", "i32")
    default = [f"{at}" for at in range(rows.shape[1])] if rows.ndim == 2 else []
    channels = list(stream.pop("channels", default))
    lanes = list(stream.pop("lanes", ["linear"] * len(channels)))
    if rows.ndim == 2 and not len(channels) == len(lanes) == rows.shape[1]:
        raise ValueError(
            f"channels and lanes of '{name}': expected {rows.shape[1]}, found {len(channels)}"
        )
    pairs = zip(channels, lanes, strict=True)
    config = {key: stream.pop(key) for key in ("history", "horizon", "lag_ms") if key in stream}
    offsets = offsets_of(config, name, 0, period_ns)
    means = {
        "name": name,
        "row_shape": list(rows.shape[1:]),
        "coordinates_shape": None,
        "dtype": dtype,
        "row_dtypes": [dtype],
        "vector": {
            "channels": [{"name": channel, "lane": lane} for channel, lane in pairs],
            "groups": [{"channels": list(range(len(channels)))}],
        }
        if vector
        else None,
        "channels": channels,
        "target_offsets_ns": offsets,
        "present": config.get("history", {"steps": 1})["steps"] - 1,
        "strategy": stream.pop("strategy", "linear" if vector else "hold"),
        "max_age_ns": nanoseconds(stream.pop("max_age_ms", 100), f"max_age_ms of '{name}'"),
        "max_gap_ns": nanoseconds(stream.pop("max_gap_ms", 100), f"max_gap_ms of '{name}'"),
        "fill": stream.pop("fill", "zero"),
        "plans": False,
        "arrivals": arrivals,
        "max_age_ns_of_inputs": None,
        "valid_when": None,
    }
    if stream:
        raise ValueError(
            f"'{name}': found {', '.join(map(str, stream))}, which a stream of arrays does not have"
        )
    columns = {
        "rows": np.ascontiguousarray(rows),
        "stamp_ns": np.ascontiguousarray(stamp_ns),
        "received_ns": np.ascontiguousarray(received_ns),
        "left_ns": np.full(len(stamp_ns), _NEVER.max, np.int64),
        "replaced": np.zeros(len(stamp_ns), np.bool_),
        "episode_ends": np.cumsum(np.asarray(lengths, np.int64)),
    }
    return means, columns
