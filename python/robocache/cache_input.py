"""Streams of arrays, and times of windows, as the compiled part reads them."""

from collections.abc import Mapping

import numpy as np

from ._dtypes import ARRAY_NAMES
from ._interop import unmasked

_NAMES = {array: name for name, array in ARRAY_NAMES.items()}
_NEVER = np.iinfo(np.int64)


def nanoseconds(ms, what):
    ns = round(ms * 1e6)
    if abs(ms * 1e6 - ns) > 1e-3:
        raise ValueError(f"{what}: expected whole nanoseconds, found {ms} ms")
    return ns


def offsets_of(config, name, means):
    """The targets of `history`, `horizon` and `lag_ms`, as a configuration of the node has them."""

    def steps(key):
        part = config.get(key, {"steps": 1})
        is_dict = isinstance(part, Mapping)
        count = part.get("steps") if is_dict else None
        if (
            not is_dict
            or set(part) - {"steps", "step_ms"}
            or not isinstance(count, int)
            or count < 1
            or (count > 1 and "step_ms" not in part)
        ):
            raise ValueError(
                f"{key} of '{name}': expected steps (at least 1) and step_ms, found {part}"
            )
        return count, nanoseconds(part.get("step_ms", 0), f"step_ms of '{name}'")

    (back, back_ns), (ahead, ahead_ns) = steps("history"), steps("horizon")
    if "lag_ms" in config:
        lag = nanoseconds(config["lag_ms"], f"lag_ms of '{name}'")
    else:
        lag = -means["target_offsets_ns"][means["present"]] if means else 0
    past = [-(back - 1 - at) * back_ns - lag for at in range(back)]
    return past + [at * ahead_ns - lag for at in range(1, ahead)]


def of_arrays(name, stream, lengths):
    """What a stream of arrays means, and its columns."""
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
    offsets = offsets_of({"lag_ms": 0, **config}, name, None)
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
