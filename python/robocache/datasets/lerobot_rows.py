"""The rows of an episode of a LeRobot dataset: their instants, which of them are valid, and their tasks."""

import json

import numpy as np

from . import frame_stamps
from .frame_stamps import STAMPS

#: What a dataset of our own says of itself.
_ABOUT = "meta/robocache.json"


def instants(dataset, episode):
    """The stamps of the frames [ns], and their instants in the videos of the episode [s].

    Frame k of an evenly spaced episode is at tick k + 1 of the dataset's rate.

    Raises ValueError if the table is damaged or stamps do not increase, OSError if it cannot be read.
    """
    where = f"{dataset.root}#{episode.name}"
    has_stamps = dataset.has_stamps
    names = ["timestamp", "frame_index", *([STAMPS] if has_stamps else [])]
    columns = dataset.numbers(episode, names)
    seconds = columns["timestamp"].astype(np.float64)
    frames = columns["frame_index"].astype(np.int64)
    if not len(frames):
        raise ValueError(f"{where}: expected a frame or more, found none")
    # NaN is not even, and its rounding is no stamp.
    if not np.isfinite(seconds).all():
        raise ValueError(f"{where}: expected finite timestamps, found others")
    if frame_stamps.is_even(seconds, frames, dataset.fps).all():
        # A frame is at a tick: the period of ticks is a whole number of nanoseconds.
        stamp_ns = frame_stamps.at_ticks(frames, dataset.fps)
        seconds = frame_stamps.exact_ns(frames, dataset.fps) / 1e9
    else:
        stamp_ns = frame_stamps.rounded_ns(seconds) + frame_stamps.period_ns(dataset.fps)
    if has_stamps:
        stamp_ns = columns[STAMPS].astype(np.int64)
    back = np.flatnonzero(np.diff(stamp_ns) <= 0)
    if len(back):
        raise ValueError(
            f"{where}: expected increasing stamps, found {stamp_ns[back[0] + 1]} ns after "
            f"{stamp_ns[back[0]]} ns at frame {back[0] + 1}"
        )
    return stamp_ns, seconds


def column_key(kind, name):
    """The name of a column that is no image. LeRobot takes each one with `image` in its name for an image."""
    return f"{kind}.{name}".replace("image", "img")


def gates(root, columns):
    """The columns that say which frames of a feature are valid: a dict by feature of lists of `valid.STREAM`.

    Only a dataset of `robocache to-lerobot` has them. A feature may be of several streams: each must be valid.

    Args:
        root: of the dataset.
        columns: the names of its columns.

    Raises ValueError if `meta/robocache.json` is damaged, or a dataset of to-lerobot lacks it.
    """
    path = root / _ABOUT
    if not path.is_file():
        own = [name for name in columns if _is_own(name, columns)]
        if own:
            raise ValueError(
                f"{path}: expected this file of the export, because it says to which columns {own[0]!r} belongs, found none. "
                "Copy it from the dataset that `robocache to-lerobot` wrote"
            )
        return {}
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        steps = {key: list(each["steps"]) for key, each in about.get("columns", {}).items()}
        if not all(isinstance(stream, str) for of in steps.values() for stream in of):
            raise TypeError(f"{steps} without names of streams")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path}: expected the columns and their streams, found others ({error!r})"
        ) from None
    # The coordinates of a grid are as valid as its cells.
    valid = {
        key: [column_key("valid", stream.removesuffix(".coordinates")) for stream in of]
        for key, of in steps.items()
    }
    found = {key: [name for name in of if name in columns] for key, of in valid.items()}
    return {key: names for key, names in found.items() if names}


def lags_ms(root):
    """By stream the lag that its values have in an export of ours [ms]; empty of other datasets.

    An export that has no contract says nothing.
    """
    try:
        about = json.loads((root / _ABOUT).read_text(encoding="utf-8"))
        streams = about["contract"]["streams"].items()
        return {name: -each["targets_ns"][-1] / 1e6 for name, each in streams}
    except (OSError, ValueError, RecursionError, TypeError, KeyError, IndexError, AttributeError):
        return {}


def _is_own(name, columns):
    """True for a column `valid.STREAM` of to-lerobot, which comes with the targets of the stream."""
    kind, _, stream = name.partition(".")
    return kind == "valid" and f"target_ns.{stream}" in columns


def valid(dataset, episode, feature):
    """True for each frame in which a feature is valid; None if the dataset does not say it. Raises as `instants`."""
    names = dataset.gates.get(feature)
    if not names:
        return None
    columns = dataset.numbers(episode, names)
    return np.logical_and.reduce([columns[name].astype(bool) for name in names])


def tasks(dataset, episode, stamp_ns):
    """The parts of an episode by their tasks: dicts of `begin_ns`, the stamp of the part's first frame, and `task`.

    As in LeRobot, the task of a frame is that of its `task_index`. Empty if the episode has no task.

    Raises ValueError if a task is unknown; otherwise as `instants`.
    """
    if "task_index" not in dataset.columns:
        if len(episode.tasks) > 1:
            raise ValueError(
                f"{dataset.root}#{episode.name}: expected a column 'task_index', because the episode has "
                f"{len(episode.tasks)} tasks, found none"
            )
        return [{"begin_ns": int(stamp_ns[0]), "task": task} for task in episode.tasks]
    numbers = dataset.numbers(episode, ["task_index"])["task_index"].astype(np.int64)
    firsts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    found = []
    for first in firsts.tolist():
        task = dataset.tasks.get(int(numbers[first]))
        if task is None and not dataset.tasks and len(firsts) == 1 and len(episode.tasks) <= 1:
            # The dataset has no table of tasks.
            return [{"begin_ns": int(stamp_ns[0]), "task": task} for task in episode.tasks]
        if task is None:
            raise ValueError(
                f"{dataset.root}#{episode.name}: expected a task of meta/tasks in frame {first}, found task_index "
                f"{numbers[first]}"
            )
        found.append({"begin_ns": int(stamp_ns[first]), "task": task})
    return found
