"""Streams of arrays, as the compiled part reads them."""

import numpy as np

from . import _frame_stamps
from ._dtypes import ARRAY_NAMES
from ._interop import unmasked
from ._steps import nanoseconds, offsets_of
from .lerobot_dataset import Dataset

_NAMES = {array: name for name, array in ARRAY_NAMES.items()}
_NEVER = np.iinfo(np.int64)
_FLOATS = ("float32", "float64")


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


def of_lerobot(dataset, max_gap_ms):
    """The streams, the lengths and the episodes of a `LeRobotDataset`, as `EpisodeCache.from_arrays` takes them."""
    table = dataset.hf_dataset.with_format("numpy")
    has_tasks = "task_index" in table.column_names
    names = _task_names(dataset.meta.tasks) if has_tasks else None
    return of_frames(
        lambda name: np.asarray(table[name]),
        {name: feature["dtype"] for name, feature in dataset.meta.features.items()},
        dataset.meta.fps,
        names,
        max_gap_ms,
    )


def of_lerobot_files(path, max_gap_ms):
    """The same of the files of a dataset, without LeRobot."""
    dataset = Dataset(path)
    vectors = {n: each.dtype for n, each in dataset.features.items() if each.kind == "vector"}
    dtypes = {name: dtype for name, dtype in vectors.items() if dtype in _FLOATS}
    has_tasks = "task_index" in dataset.columns
    names = ["episode_index", "timestamp", "frame_index", *(["task_index"] if has_tasks else [])]
    table = dataset.table([*names, *dtypes])
    tasks = dataset.tasks if has_tasks else None
    return of_frames(table.__getitem__, dtypes, dataset.fps, tasks, max_gap_ms)


def of_frames(column, dtypes, fps, tasks, max_gap_ms):
    """The same of columns of all frames, in the order of their episodes.

    Args:
        column: a function that returns a column by its name.
        dtypes: the element types of features by name.
        fps: frames per second.
        tasks: the names of tasks by their numbers; None if there is no column `task_index`.
        max_gap_ms: of `EpisodeCache.from_lerobot`.
    """
    numbers = np.asarray(column("episode_index"), np.int64)
    found, lengths = np.unique(numbers, return_counts=True)
    if (np.diff(numbers) < 0).any():
        raise ValueError("episode_index: expected frames in the order of their episodes")
    stamp_ns = _stamps(column, lengths, fps)
    gap = round(1500 / fps, 6) if max_gap_ms is None else max_gap_ms
    streams = {}
    for name, dtype in dtypes.items():
        if dtype not in _FLOATS or name == "timestamp":
            continue
        rows = np.asarray(column(name), np.float32)
        streams[name] = {
            "rows": np.ascontiguousarray(rows.reshape(len(rows), -1)),
            "stamp_ns": stamp_ns,
            # So a step beyond the last frame is invalid, as LeRobot's padding is.
            "max_age_ms": round(500 / fps, 6),
            "max_gap_ms": gap,
        }
    of_frame = None if tasks is None else column("task_index")
    firsts = np.cumsum(lengths) - lengths
    about = [
        {
            "name": f"{number:06d}",
            "task": None if tasks is None else tasks.get(int(of_frame[first])),
        }
        for number, first in zip(found, firsts, strict=True)
    ]
    return streams, lengths.tolist(), about


def _stamps(column, lengths, fps):
    """The instants of frames: exact ones in each episode of evenly spaced frames."""
    seconds = np.asarray(column("timestamp"), np.float64)
    frames = np.asarray(column("frame_index"), np.int64)
    even = _frame_stamps.is_even(seconds, frames, fps)
    firsts = np.cumsum(lengths) - lengths
    even_episodes = np.logical_and.reduceat(even, firsts) if len(firsts) else even
    exact_ns, rounded_ns = _frame_stamps.exact_ns(frames, fps), _frame_stamps.rounded_ns(seconds)
    return np.where(np.repeat(even_episodes, lengths), exact_ns, rounded_ns)


def _task_names(tasks):
    """The names of tasks by their numbers: of a data frame whose index has the names, or of a dict."""
    if isinstance(tasks, dict):
        return {int(number): str(name) for number, name in tasks.items()}
    return {int(number): str(name) for name, number in tasks["task_index"].items()}
