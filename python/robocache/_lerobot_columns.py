"""Which columns the LeRobot dataset of a store of tensors has."""

import numpy as np

from ._episodes import present_step

_PLAN = "trajectory_msgs/msg/JointTrajectory"
_TICK_COLUMNS = ("tick", "stamp_ns", "recorded_ns", "epoch")


class Column:
    """A column of the dataset.

    Attributes:
        key: its name.
        feature: what LeRobot needs to know of it: dtype, shape and names.
        kind: "number", "image" or "video".
        read: a function of (tensors, first, end). It returns the values of these ticks.
        steps: the segments whose values it has, in their order, and the step of each.
    """

    def __init__(self, key, dtype, shape, names, read, infos=()):
        self.key = key
        self.steps = {info["name"]: present_step(info) for info in infos}
        self.feature = {"dtype": dtype, "shape": tuple(shape), "names": names}
        self.kind = dtype if dtype in ("image", "video") else "number"
        self.read = read


def columns(tensors, order, *, state=None, action=None, images=False):
    """The columns of a dataset, and the streams of the segments that they have.

    Args:
        tensors: the store.
        order: names of streams, in the order of the configuration.
        state, action: names of streams that become `observation.state` and `action`; None: by
            `state_and_action`.
        images: whether images are kept as images rather than as videos.

    Raises ValueError if a stream does not fit.
    """
    place = {name: at for at, name in enumerate(order)}
    segments = dict(
        sorted(tensors.segments.items(), key=lambda named: place.get(named[0].split(".")[0], -1))
    )
    state, action = state_and_action(segments, state, action)
    found = [Column(name, "int64", (1,), None, _plain(name)) for name in _TICK_COLUMNS]
    for key, streams in (("observation.state", state), ("action", action)):
        if streams:
            found.append(_vector(key, [segments[name] for name in streams], len(streams) > 1))
    for name, info in segments.items():
        if info["encoder"] == "image":
            found.append(_image(info, "image" if images else "video"))
        elif name not in state + action:
            found.append(_observation(info))
        if info["encoder"] != "voxel_coordinates":
            found += _of_steps(tensors, info)
    keys = [column.key for column in found]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"expected distinct columns, found {twice[0]!r} twice: rename the stream")
    return found, [
        name for name, info in segments.items() if info["encoder"] != "voxel_coordinates"
    ]


def state_and_action(segments, state, action):
    """By default the action is the streams `action` or `actions`, or else all plans; and the state
    is the stream `state`, or else all other vectors."""
    vectors = [name for name, info in segments.items() if info["encoder"] == "vector"]
    for option, names in (("--state", state), ("--action", action)):
        for name in names or ():
            if name not in vectors:
                raise ValueError(
                    f"{option}: expected streams of vectors ({', '.join(vectors)}), found {name!r}"
                )
    taken = list(state or ())
    if action is None:
        free = [name for name in vectors if name not in taken]
        action = [name for name in free if name in ("action", "actions")]
        action = action or [name for name in free if _PLAN in segments[name]["ros_types"]]
    both = sorted(set(taken) & set(action))
    if both:
        raise ValueError(f"expected the stream {both[0]!r} in the state or the action, found both")
    if state is None:
        free = [name for name in vectors if name not in action]
        state = ["state"] if "state" in free else free
    return list(state), list(action)


def _plain(name):
    return lambda tensors, first, end: tensors.read(name, first, end)[:, None]


def _vector(key, infos, several):
    """Streams of vectors, one after the other."""
    names = [
        f"{info['name']}.{channel}" if several else channel
        for info in infos
        for channel in info["channels"]
    ]

    def read(tensors, first, end):
        parts = [tensors.read(info["name"], first, end, present_step(info)) for info in infos]
        rows = [np.asarray(part, np.float32).reshape(len(part), -1) for part in parts]
        return np.concatenate(rows, axis=1)

    return Column(key, "float32", (len(names),), names, read, infos)


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

    def read(tensors, first, end):
        pixels = tensors.read(name, first, end, present_step(info))
        if info["layout"] == "chw":
            pixels = pixels.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:3], 3)))

    names = ["height", "width", "channels"]
    return Column(f"observation.images.{name}", kind, (height, width, 3), names, read, [info])


def _observation(info):
    """Any other stream: floats as float32, integers as they are."""
    name, shape = info["name"], info["shape"][1:]
    integer = {"u8": "uint8", "i32": "int32"}.get(info["dtype"])
    names = info["channels"] if len(shape) == 1 and len(info["channels"]) == shape[0] else None

    def read(tensors, first, end):
        values = tensors.read(name, first, end, present_step(info))
        return values.astype(integer or np.float32, copy=False)

    return Column(column_key("observation", name), integer or "float32", shape, names, read, [info])


def _of_steps(tensors, info):
    """What is known of the present step: whether it is valid, its age, its target."""
    found = []
    kinds = {"valid": "bool", "age_ns": "int64", "target_ns": "int64"}
    for kind, dtype in (kinds | {"count": "int64", "inputs_valid": "int64"}).items():
        array = f"{info['name']}.{kind}"
        if not tensors.has(array):
            continue

        def read(tensors, first, end, array=array, dtype=dtype):
            return tensors.read(array, first, end, present_step(info)).astype(dtype)[:, None]

        found.append(Column(column_key(kind, info["name"]), dtype, (1,), None, read))
    return found


def column_key(kind, name):
    """The name of a column that is no image. LeRobot takes each one with `image` in its name for an image."""
    return f"{kind}.{name}".replace("image", "img")
