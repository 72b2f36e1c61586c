"""The first configuration for a dataset: a stream for each feature."""

import json
import re
from dataclasses import replace

import numpy as np

from .dataset import Topics, joint_names
from .frame_stamps import period_ns

#: Columns of datasets that `to_lerobot` wrote. Numbers of float32 do not hold them.
_INSTANTS = re.compile(r"tick|epoch|recorded_ns|(age_ns|target_ns)\..*")
_HEAD = """\
# A first configuration for a dataset, with a stream for each of its features, written by `robocache import`.
# In the repository, docs/import.md explains it, and config/robocache.yaml has every key. `robocache check` shows the tensor.

# The frames per second of the dataset. If its frames have no stamps of their own, tick k + 1 has the values of frame k.
rate_hz: {rate}
# Every feature of a frame has the stamp of the frame, so nothing comes late.
lag_ms: 0

streams:
"""


def config_of(dataset, *, preset=None, resize=None, as_jpeg=False):
    """The text of a configuration. Of the episodes it depends on what a dataset guesses of some of them.

    Args:
        dataset: a dataset of any kind.
        preset: the preset of images; None for bytes.
        resize: height and width of images; None for those of the dataset.
        as_jpeg: whether rows of images are stored with loss. JPEG needs bytes, also with a preset.

    Raises ValueError if the dataset has no feature for a stream, `resize` is no pair of numbers, or both `preset` and
    `resize` are given.
    """
    if preset is not None and resize is not None:
        raise ValueError("resize: expected None with a preset, which has a size")
    if resize is not None and not _is_size(resize):
        raise ValueError(f"resize: expected (height, width), found {resize!r}")
    topics = Topics(dataset)
    streams, left_out, names = [], [], set()
    for feature, topic, kind in zip(topics.features, topics.names, topics.types(), strict=True):
        if _INSTANTS.fullmatch(feature.name):
            left_out.append(feature.name)
            continue
        name = stream_name(feature.name, names)
        names.add(name)
        lines = [f"  # {_told(feature)}", f"  {name}:", f"    type: {kind}", f"    topic: {topic}"]
        if feature.kind == "vector":
            guessed = dataset.guessed.get(feature.name)
            if guessed is not None:
                kinds = {key: getattr(guessed, key) for key in ("angular", "quaternions", "held")}
                feature = replace(feature, **kinds)
            why = None if guessed is None else guessed.why
            lines += _vector(feature, dataset.fps, why)
        else:
            lines += _image(feature, dataset.fps, (preset, resize, as_jpeg))
        streams.append("\n".join(lines))
    if not streams:
        raise ValueError(f"{dataset.root}: expected numbers or images, found no such feature")
    head = _HEAD.format(rate=_number(dataset.fps))
    tail = (
        f"\n\n# Left out, because float32 does not hold them: {', '.join(left_out)}"
        if left_out
        else ""
    )
    return head + "\n\n".join(streams) + tail + "\n"


def _is_size(given):
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        return False
    return all(isinstance(each, (int, np.integer)) for each in given)


def stream_name(feature, taken):
    """The name of a feature's stream: `state` of `observation.state`, `top` of `observation.images.top`."""
    short = re.sub(r"^(observation\.(images?\.)?|next\.)(?=.)", "", feature)
    return free_name((short, feature), taken)


def free_name(wanted, taken):
    """The first of the wanted names, as that of a stream, which is not taken. If all are taken, the last with `_` behind it."""
    for name in wanted:
        name = re.sub(r"[^a-z0-9_]", "_", name.lower())
        name = name if name[:1].isalpha() else f"f{name}"
        if name not in taken:
            return name
    while name in taken:
        name += "_"
    return name


def _vector(feature, fps, why):
    called = joint_names(feature)
    # Integers and booleans have no values in between, nor has a vector whose elements are all held.
    is_smooth = feature.dtype.startswith("float") and set(feature.names) - set(feature.held)
    strategy = ("slerp" if feature.quaternions else "linear") if is_smooth else "hold"
    lines = [f"    joints: {_list(called)}", f"    strategy: {strategy}"]
    if why:
        lines.append(f"    # Guessed: {why}. Change it if it is wrong.")
    if is_smooth:
        lines += _elements(feature, dict(zip(feature.names, called, strict=True)))
    lines += _ages(fps)
    if is_smooth:
        lines.append(
            f"    max_gap_ms: {_number(round(1500 / fps, 6))} # 1.5 frames, so no frame may be missing"
        )
    return [*lines, "    dtype: f32"]


def _elements(feature, called):
    """Lines that say which elements are no plain numbers."""
    lines = []
    if feature.angular:
        lines.append(f"    angular: {_list([called[name] for name in feature.angular])}")
    if feature.quaternions:
        fours = (_list([called[name] for name in four]) for four in feature.quaternions)
        lines.append(f"    quaternions: [{', '.join(fours)}]")
    if feature.held:
        lines.append(f"    held: {_list([called[name] for name in feature.held])}")
    return lines


def _list(names):
    return "[" + ", ".join(json.dumps(name, ensure_ascii=False) for name in names) + "]"


def _image(feature, fps, made):
    preset, resize, as_jpeg = made
    height, width = feature.shape
    lines = ["    strategy: hold", *_ages(fps)]
    limits = [f"      max_width_px: {width}", f"      max_height_px: {height}"]
    if preset is not None:
        # JPEG holds bytes, so the policy normalises what the preset would.
        if as_jpeg:
            lines.append("    dtype: u8 # as JPEG needs; without it, the preset normalises")
        return [*lines, "    image:", f"      preset: {preset}", *limits]
    rows, columns = resize or feature.shape
    size = f"{{height: {rows}, width: {columns}, fit: stretch}}"
    note = " # fit: pad_center keeps the aspect ratio" if resize else " # as in the dataset"
    lines += ["    dtype: u8 # bytes, which the policy normalises", "    image:"]
    return [*lines, f"      resize: {size}{note}", *limits]


def _ages(fps):
    """A frame is valid until the next one is due, so that no step beyond the last frame is."""
    age_ns = max(period_ns(fps) - 1, 1)
    return [f"    max_age_ms: {_number(age_ns / 1e6)} # just below a frame: to its end"]


def _told(feature):
    name = json.dumps(feature.name, ensure_ascii=False)
    if feature.kind == "vector":
        return f"{name}: {feature.dtype} {list(feature.shape)}"
    return f"{name}: {feature.kind}, {feature.shape[0]} x {feature.shape[1]}"


def _number(value):
    return np.format_float_positional(value, trim="-")
