"""Which columns the LeRobot dataset of a store of tensors has."""

import numpy as np

from ..datasets.lerobot_rows import column_key
from ..training.selection import value_of
from .tensors import present_step

_PLAN = "trajectory_msgs/msg/JointTrajectory"
_TICK_COLUMNS = ("tick", "stamp_ns", "recorded_ns", "epoch")


class Column:
    """A column of the dataset.

    Attributes:
        key: its name.
        feature: what LeRobot needs to know of it: dtype, shape and names.
        kind: "number", "image" or "video".
        read: a function of (frames, first, end). It returns the values of these ticks.
        steps: the segments whose values it has, in their order, and the step of each.
        streams: the streams of these segments. A value is valid if all of them are.
        must_be_valid: whether a policy may take the value: it is of vectors or an image.
    """

    def __init__(self, key, dtype, shape, names, read, infos=(), must_be_valid=False):
        self.key = key
        self.steps = {info["name"]: present_step(info) for info in infos}
        self.streams = list(dict.fromkeys(info["name"].split(".")[0] for info in infos))
        self.feature = {"dtype": dtype, "shape": tuple(shape), "names": names}
        self.kind = dtype if dtype in ("image", "video") else "number"
        self.read, self.must_be_valid = read, must_be_valid

    def valid(self, frames, first, end):
        """Which of these ticks have a valid value: an array of bool."""
        whole = np.ones(end - first, bool)
        for stream in self.streams:
            whole &= frames.known(stream, "valid", first, end)
        return whole


class Frames:
    """The present step of every stream, at the ticks of a store."""

    def __init__(self, tensors, actions):
        """
        Args:
            tensors: the store.
            actions: an `Actions` of the streams of actions.
        """
        self.tensors, self.actions = tensors, actions

    def plain(self, name, first, end):
        """A number of each tick, such as its stamp."""
        return self.tensors.read(name, first, end)

    def values(self, name, first, end):
        """The values of a segment [tick, ...]."""
        if name in self.actions:
            return self.actions.read(name, "values", first, end)
        return self.tensors.read(name, first, end, present_step(self.tensors.segments[name]))

    def known(self, name, kind, first, end):
        """What is known of a stream, such as "valid" [tick]."""
        if name in self.actions:
            return self.actions.read(name, kind, first, end)
        step = present_step(self.tensors.segments[name])
        return self.tensors.read(f"{name}.{kind}", first, end, step)


def columns(tensors, order, action, *, state=None, images=False):
    """The columns of a dataset.

    Args:
        tensors: the store.
        order: names of streams, in the order of the configuration.
        action: names of the streams that become `action`: an `Actions` has their values.
        state: names of the streams that become `observation.state`; None: by `state_of`.
        images: whether images are kept as images rather than as videos.

    Raises ValueError if a stream does not fit.
    """
    place = {name: at for at, name in enumerate(order)}
    segments = dict(
        sorted(tensors.segments.items(), key=lambda named: place.get(named[0].split(".")[0], -1))
    )
    state = state_of(segments, state, action)
    found = [Column(name, "int64", (1,), None, _plain(name)) for name in _TICK_COLUMNS]
    for key, streams in (("observation.state", state), ("action", action)):
        if streams:
            found.append(_vector(key, [segments[name] for name in streams], len(streams) > 1))
    found += [_mark(name) for name in marks_of(tensors)]
    for name, info in segments.items():
        if info["encoder"] == "image":
            found.append(_image(info, "image" if images else "video"))
        elif name not in state + action:
            found.append(_observation(info))
        if info["encoder"] != "voxel_coordinates":
            found += _of_steps(tensors, info, name in action)
    keys = [column.key for column in found]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"expected distinct columns, found {twice[0]!r} twice: rename the stream")
    return found


def action_of(streams, state, action):
    """The streams of actions: those that are given, or else `action` or `actions`, or else all plans.

    Args:
        streams: a dict of the streams of the configuration, as they are written.
        state, action: names that the user gives, or None.

    Raises ValueError if there is none, or a stream is unknown, of both or there twice.
    """
    named = list(action or ())
    for option, names in (("--state", state or ()), ("--action", named)):
        if twice := [name for at, name in enumerate(names) if name in names[:at]]:
            raise ValueError(f"{option}: expected each stream once, found {twice[0]!r} twice")
    for name in named:
        if name not in streams:
            raise ValueError(f"--action: expected streams of {', '.join(streams)}, found {name!r}")
    if both := sorted(set(state or ()) & set(named)):
        raise ValueError(f"expected the stream {both[0]!r} in the state or the action, found both")
    if not named and action is None:
        free = {name: of for name, of in streams.items() if name not in (state or ())}
        named = [name for name in free if name in ("action", "actions")]
        plan = _PLAN.rpartition("/")[2]
        named = named or [name for name, of in free.items() if plan in str(_type_of(of))]
    if not named:
        raise ValueError(
            f"expected a stream of actions, found only {', '.join(streams)}: give --action STREAM, or add a stream of "
            "the commands, whose topic is that of your robot:\n"
            "  action:\n"
            "    {type: sensor_msgs/msg/JointState, topic: /command, joints: [...], max_age_ms: 100}"
        )
    return named


def state_of(segments, state, action):
    """The streams of the state: those that are given, or else `state`, or else all vectors that are no actions.

    Raises ValueError if a stream of the state or of the action is no vector.
    """
    vectors = [name for name, info in segments.items() if info["encoder"] == "vector"]
    for option, names in (("--state", state), ("--action", action)):
        for name in names or ():
            if name not in vectors:
                raise ValueError(
                    f"{option}: expected streams of vectors ({', '.join(vectors)}), found {name!r}"
                )
    if state is not None:
        return list(state)
    free = [name for name in vectors if name not in action]
    return ["state"] if "state" in free else free


def marks_of(tensors):
    """The names of the marks that were noted in the recordings of the episodes."""
    marks = (mark for episode in tensors.about["episodes"] for mark in episode.get("marks", ()))
    return sorted({mark["name"] for mark in marks})


def with_marks(features, others):
    """The features of a dataset by key, and those of the marks that other datasets have: in the order of `columns`."""
    prefix = column_key("mark", "")
    marks = {
        key: of
        for known in (features, *others)
        for key, of in known.items()
        if key.startswith(prefix)
    }
    keys = [key for key in features if key not in marks]
    before = [key for key in keys if key in (*_TICK_COLUMNS, "observation.state", "action")]
    after = keys[len(before) :]
    return {key: (features | marks)[key] for key in (*before, *sorted(marks), *after)}


def is_plan(info):
    """Whether a segment is of a stream of plans."""
    return _PLAN in info["ros_types"]


def valid_keys(steps):
    """The columns that say whether a column's values are valid. `steps` has its segments, as `Column.steps`."""
    return list(dict.fromkeys(column_key("valid", name.split(".")[0]) for name in steps))


def _type_of(stream):
    return stream.get("type") if isinstance(stream, dict) else None


def _mark(name):
    """What was noted last at a tick; 0 before the first mark."""

    def read(frames, first, end):
        stamps, values = (
            frames.plain("stamp_ns", first, end),
            np.zeros((end - first, 1), np.float32),
        )
        episode = frames.tensors.about["episodes"][frames.tensors.episode_of(first)]
        for mark in episode.get("marks", ()):
            if mark["name"] == name:
                at_ns = mark["at_ns"] if mark["at_ns"] is not None else stamps.min()
                values[stamps >= at_ns] = value_of(mark["value"])
        return values

    return Column(column_key("mark", name), "float32", (1,), None, read)


def _plain(name):
    return lambda frames, first, end: frames.plain(name, first, end)[:, None]


def _vector(key, infos, several):
    """Streams of vectors, one after the other."""
    names = [
        f"{info['name']}.{channel}" if several else channel
        for info in infos
        for channel in info["channels"]
    ]

    def read(frames, first, end):
        parts = [frames.values(info["name"], first, end) for info in infos]
        rows = [np.asarray(part, np.float32).reshape(len(part), -1) for part in parts]
        return np.concatenate(rows, axis=1)

    return Column(key, "float32", (len(names),), names, read, infos, must_be_valid=True)


def _image(info, kind):
    """An image [height, width, 3]; a gray one three times."""
    name = info["name"]
    if info["dtype"] != "u8":
        raise ValueError(
            f"stream {name!r}: expected dtype u8, as LeRobot's policies normalise images themselves, "
            f"found {info['dtype']}; write this in the configuration, without `normalize`:\n"
            f"  {name}:\n    dtype: u8"
        )
    channels = len(info["channels"])
    if channels not in (1, 3):
        raise ValueError(f"stream {name!r}: expected 1 or 3 channels, found {channels}")
    shape = info["shape"][1:]
    height, width = shape[1:] if info["layout"] == "chw" else shape[:2]
    if kind == "video" and (height % 2 or width % 2):
        raise ValueError(
            f"stream {name!r}: expected an even height and width for a video, found "
            f"{height} x {width}; resize the image, or keep images (--images)"
        )

    def read(frames, first, end):
        pixels = frames.values(name, first, end)
        if info["layout"] == "chw":
            pixels = pixels.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:3], 3)))

    names = ["height", "width", "channels"]
    key, shape = f"observation.images.{name}", (height, width, 3)
    return Column(key, kind, shape, names, read, [info], must_be_valid=True)


def _observation(info):
    """Any other stream: floats as float32, integers as they are.

    LeRobot gives each vector that is called an observation to a policy, and `meta/modality.json` has it as a state.
    """
    name, shape = info["name"], info["shape"][1:]
    integer = {"u8": "uint8", "i32": "int32"}.get(info["dtype"])
    names = info["channels"] if len(shape) == 1 and len(info["channels"]) == shape[0] else None

    def read(frames, first, end):
        values = frames.values(name, first, end)
        return values.astype(integer or np.float32, copy=False)

    key, is_vector = column_key("observation", name), info["encoder"] == "vector"
    dtype = integer or "float32"
    return Column(key, dtype, shape, names, read, [info], must_be_valid=is_vector)


def _of_steps(tensors, info, is_action):
    """What is known of the present step: whether it is valid, its age, its target. Of which inputs a value is, is known of
    observations alone."""
    found, name = [], info["name"]
    kinds = {"valid": "bool", "age_ns": "int64", "target_ns": "int64"}
    if not is_action:
        kinds |= {"count": "int64", "inputs_valid": "int64"}
    for kind, dtype in kinds.items():
        if not tensors.has(f"{name}.{kind}"):
            continue

        def read(frames, first, end, kind=kind, dtype=dtype):
            return frames.known(name, kind, first, end).astype(dtype)[:, None]

        found.append(Column(column_key(kind, name), dtype, (1,), None, read))
    return found
