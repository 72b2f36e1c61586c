"""What is asked of windows, as the compiled part reads it."""

import json
from collections.abc import Mapping

import numpy as np

from .cache_input import nanoseconds, offsets_of

#: What a stream of a configuration of windows may have, and what the compiled part calls it.
_NANOSECONDS = {"max_age_ms": "max_age_ns", "max_gap_ms": "max_gap_ns"}
_AS_THEY_ARE = {"strategy": "strategy", "fill": "fill", "dtype": "dtype", "rows": "view"}
_KEYS = {
    *("history", "horizon", "lag_ms", "offsets_ns", "present", "required"),
    *_NANOSECONDS,
    *_AS_THEY_ARE,
}
_ROWS = ("as_served", "strict", "all")


def choices(config, rows, streams):
    """The text of what `EpisodeCache.plan` is asked for; None for all streams as the node's configuration has them.

    Args:
        config, rows: of `EpisodeCache.windows`.
        streams: what the streams of the cache mean, by name.
    """
    if rows is not None and rows not in _ROWS:
        raise ValueError(f"rows: expected one of {', '.join(_ROWS)}, found {rows!r}")
    if config is None and rows is not None:
        config = {name: {} for name in streams}
    if config is None:
        return None
    if not isinstance(config, Mapping):
        raise TypeError(f"config: expected a dict by stream, found {config!r}")
    if not config:
        raise ValueError("config: expected a stream or more, found none")
    asked = [_choice(name, own, rows, streams.get(name)) for name, own in config.items()]
    return json.dumps(asked, default=_plain)


def _choice(name, config, rows, means):
    """What is asked of a stream."""
    if not isinstance(config, Mapping):
        raise TypeError(f"'{name}': expected a dict, found {config!r}")
    unknown = set(config) - _KEYS
    if unknown:
        expected, found = ", ".join(sorted(_KEYS)), ", ".join(sorted(map(str, unknown)))
        raise ValueError(f"'{name}': expected {expected}, found {found}")
    choice = {"stream": name, "required": bool(config.get("required", False))}
    for key, native in _AS_THEY_ARE.items():
        if key in config:
            choice[native] = config[key]
    for key, native in _NANOSECONDS.items():
        if key in config:
            choice[native] = nanoseconds(config[key], f"{key} of '{name}'")
    choice.setdefault("view", rows)
    if "present" in config and "offsets_ns" not in config:
        raise ValueError(f"present of '{name}': expected offsets_ns beside it")
    if "offsets_ns" in config:
        offsets_ns = integers(config["offsets_ns"], f"offsets_ns of '{name}'")
        choice["offsets_ns"] = offsets_ns.reshape(-1).tolist()
        if "present" in config:
            choice["present"] = int(config["present"])
    elif {"history", "horizon", "lag_ms"} & set(config):
        choice["offsets_ns"] = offsets_of(config, name, means)
        choice["present"] = config.get("history", {"steps": 1})["steps"] - 1
    return choice


def _plain(value):
    """NumPy's numbers and arrays for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"expected numbers, words and lists, found {type(value).__name__}")


def integers(values, name):
    """Numbers as int64. A float does not hold an instant, and int64 not every uint64."""
    if type(values) is np.ndarray and values.dtype == np.int64:
        return values
    values = np.asarray(values)
    if values.dtype.kind not in "iu" and values.size:
        raise TypeError(f"{name}: expected integers, found {values.dtype}")
    most = np.iinfo(np.int64).max
    if values.dtype == np.uint64 and (values > most).any():
        raise ValueError(f"{name}: expected at most {most}, found {values.max()}")
    return values.astype(np.int64)


def latencies(latency_ns, streams, windows, random):
    """`[streams, windows]`: how much earlier than at its instant each stream of a window is taken [ns]."""
    names = [stream.name for stream in streams]
    unknown = set(latency_ns) - set(names)
    if unknown:
        raise ValueError(
            f"latency_ns: expected streams of {', '.join(names)}, found {', '.join(sorted(unknown))}"
        )
    late = np.zeros((len(names), windows), np.int64)
    # In the order of the plan, so that what is drawn does not depend on the order of the dict.
    for at, name in enumerate(names):
        if name in latency_ns:
            what = f"latency_ns of '{name}'"
            least, most = np.broadcast_to(integers(latency_ns[name], what), (2,))
            if least < 0 or most < least:
                raise ValueError(
                    f"{what}: expected 0 or more, the least first, found {least} and {most}"
                )
            late[at] = random.integers(least, most, windows, endpoint=True)
    return late
