"""Streams of arrays, as the compiled part reads them."""

import numpy as np

from ..arrays.interop import unmasked
from ..datasets.frame_stamps import exact_ns
from ..message.dtypes import ARRAY_NAMES
from .steps import nanoseconds, offsets_of

_NAMES = {array: name for name, array in ARRAY_NAMES.items()}
_NEVER = np.iinfo(np.int64)


#: The greatest age and gap of streams that say none [ms].
_LIMIT_MS = 100


def of_arrays(name, stream, lengths, period_ns=None, rate_hz=None):
    """What a stream of arrays means, and its columns. `period_ns` is a step that says no other length, and that of
    `rate_hz`."""
    columns = ("rows", "stamp_ns")
    if lacking := [key for key in columns if key not in stream]:
        found = ", ".join(map(str, stream)) or "nothing"
        raise ValueError(f"'{name}': expected {lacking[0]}, found {found}")
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
    if rate_hz is not None and not arrivals:
        _check_frames(name, stamp_ns, period_ns, rate_hz)
    offsets = offsets_of(config, name, 0, period_ns, None if arrivals else period_ns)
    # Of slower frames, each is valid until the next.
    limit_ms = max(_LIMIT_MS, (period_ns or 0) / 1e6)
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
        "max_age_ns": nanoseconds(stream.pop("max_age_ms", limit_ms), f"max_age_ms of '{name}'"),
        "max_gap_ns": nanoseconds(stream.pop("max_gap_ms", limit_ms), f"max_gap_ms of '{name}'"),
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


def is_own_label(stream):
    """True if a stream of arrays says a `horizon` and no `history`: its windows are a label."""
    return "horizon" in stream and "history" not in stream


def own_labels(streams):
    """The names of streams of arrays whose steps are a label, by what a saved cache says of them."""
    for name, means in streams.items():
        offsets_ns = means["target_offsets_ns"]
        if len(offsets_ns) > 1 and means["present"] == 0 and not means["plans"]:
            yield name


def _check_frames(name, stamp_ns, period_ns, rate_hz):
    """Raises ValueError if stamps are those of frames but for the rounding of the period: a window is at whole periods, and
    would hold the frame before."""
    if not len(stamp_ns) or stamp_ns.dtype.kind not in "iu":
        return
    stamp_ns = stamp_ns.astype(np.int64)
    frames = np.rint(stamp_ns * (rate_hz / 1e9)).astype(np.int64)
    off = stamp_ns != frames * period_ns
    if off.any() and (abs(stamp_ns - exact_ns(frames, rate_hz)) <= 1).all():
        at = int(np.argmax(off))
        frame, found = int(frames[at]), int(stamp_ns[at])
        raise ValueError(
            f"stamp_ns of '{name}': expected frame {frame} at {frame} * {period_ns} = {frame * period_ns} ns, found {found}: "
            "give frames * period_ns, where windows look for them"
        )
