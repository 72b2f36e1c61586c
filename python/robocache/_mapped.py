"""Datasets whose files a mapping explains, and their episodes as recordings.

A kind of such datasets is a subclass of `MappedDataset`: it finds the fields and the episodes, and reads blocks of
frames. Everything else is here.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from . import _dataset_mapping, _frame_stamps, _ros_messages
from ._dataset import MAX_JOINTS, Feature, batches, joint_names, picture_messages, stamp_of

#: Of what messages are made of. It changes if the same files give other messages.
FORMAT = 1
#: Greatest height and width of an image.
MAX_SIDE = 1 << 14
#: Frames of an episode at most. A file may claim any number, and each frame has a stamp in memory.
MAX_FRAMES = 10_000_000


@dataclass(frozen=True)
class Found:
    """A field of the files, as a feature has it.

    Attributes:
        kind, dtype, shape: as of `Feature`.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]


class MappedDataset:
    """What all kinds have in common.

    A subclass has these attributes:

    - `KIND`: what the files are, for the user;
    - `fields()`: a dict by field of `Found`, or of a text: why it is left out;
    - `first_rate()`: the rate of a first mapping: a pair of frames per second, or None, and its source;
    - `first_task()`: where a first mapping has the task, or None;
    - `open(mapping)`: finds `episodes` and `splits`;
    - `length(episode)`: its number of frames;
    - `task(episode)`: its text or None; `tasks(episode)` if it may change;
    - `files(episode)`: the paths of its files;
    - `blocks(episode, names)`: yields dicts by feature of the values of consecutive frames: an array [frames, ...], or
      a list of bytes for the kind "image";
    - `source`: the file that says what shapes fields have.

    Those that read an episode raise ValueError or OSError if it is damaged.
    """

    def __init__(self, root):
        self.root = Path(root)
        self.left_out, self.misnamed = {}, {}

    @classmethod
    def opened(cls, root, mapping):
        """A dataset with a mapping: the name of a known one, or a file. Raises ValueError if they do not fit."""
        if mapping is None:
            raise ValueError(
                f"{root}: expected --mapping, because files of {cls.KIND} do not say their rate: one of "
                f"{', '.join(_dataset_mapping.known())}, or a file (--write-mapping writes a first one)"
            )
        dataset = cls(root)
        dataset.mapping = _dataset_mapping.read(mapping)
        dataset.fps = dataset.mapping.rate_hz
        found = dataset.fields()
        dataset.features = {
            stream: _feature(dataset, stream, field, found)
            for stream, field in dataset.mapping.streams.items()
        }
        dataset.open(dataset.mapping)
        return dataset

    @classmethod
    def draft(cls, root):
        """The text of a first mapping."""
        dataset = cls(root)
        streams, left_out = {}, {}
        for field, found in dataset.fields().items():
            if isinstance(found, str):
                left_out[field] = found
                continue
            name = _stream_name(field, streams)
            streams[name] = field, math.prod(found.shape) if found.kind == "vector" else None
        if not streams:
            raise ValueError(f"{root}: expected numbers or images, found no such field")
        rate, source = dataset.first_rate()
        text = f"rate_hz:{'' if rate is None else f' {rate:g}'} # {source}"
        task = dataset.first_task()
        return _dataset_mapping.draft(root, cls.KIND, text, task, streams, left_out)

    @property
    def stamps(self):
        """A sentence: which stamps the frames get."""
        return (
            f"stamps: nominal; frame k is at tick k + 1 of {self.fps:g} Hz, the rate_hz of {self.mapping.path}, because "
            "the files have no stamps"
        )

    def tasks(self, episode):
        """The tasks of an episode: pairs of the first frame that has it and its text or None. One or more."""
        return [(0, self.task(episode))]

    def field(self, feature):
        """The field of a feature."""
        return self.mapping.streams[feature].name

    def expect_packages(self):
        """Nothing: the packages were needed to open the files."""

    def recording(self, topics, episode, *, tolerance_s, threads):
        """An episode as a recording. It has no video, so the arguments of videos change nothing."""
        return MappedRecording(self, topics, episode)


class MappedRecording:
    """An episode, as the native replay reads it.

    Each iteration of `messages` opens the files for itself, so several threads may read at once.

    Attributes:
        name, task: of the episode.
        path: the dataset, `#` and the name: errors name it.
        made_of: a text that changes if the content may differ.
        decoded: empty: no topic is decoded of a video.
    """

    decoded: ClassVar[dict[str, str]] = {}

    def __init__(self, dataset, topics, episode):
        self._dataset, self._topics, self._episode = dataset, topics, episode
        self.name, self.path = episode.name, f"{dataset.root}#{episode.name}"
        features = [
            [*vars(feature).values(), dataset.field(feature.name)] for feature in topics.features
        ]
        tasks = self._tasks if len(self._tasks) > 1 else self.task
        about = [FORMAT, dataset.fps, features, self.name, tasks]
        about.append(stamp_of(dataset.files(episode)))
        self.made_of = hashlib.sha256(json.dumps(about).encode()).hexdigest()

    @property
    def task(self):
        """Of several the first."""
        return self._tasks[0][1]

    @cached_property
    def _tasks(self):
        """If the episode is damaged, `messages` says so."""
        try:
            return self._dataset.tasks(self._episode)
        except (ValueError, OSError):
            return [(0, None)]

    def about(self):
        """What the frames say of the episode, as the text of JSON: `task`, and `tasks` if it changes."""
        said = {"task": self.task}
        if len(self._tasks) > 1:
            begin_ns = _frame_stamps.at_ticks(
                np.array([frame for frame, _ in self._tasks]), self._dataset.fps
            )
            said["tasks"] = [
                {"begin_ns": at, "task": task or ""}
                for at, (_, task) in zip(begin_ns.tolist(), self._tasks, strict=True)
            ]
        return json.dumps(said)

    @cached_property
    def _length(self):
        length = self._dataset.length(self._episode)
        if length < 1:
            raise ValueError(f"{self.path}: expected a frame or more, found none")
        if length > MAX_FRAMES:
            raise ValueError(f"{self.path}: expected at most {MAX_FRAMES} frames, found {length}")
        return length

    @property
    def topics(self):
        """A list of (topic, ROS type, number of messages)."""
        pairs = zip(self._topics.names, self._topics.types(), strict=True)
        return [(name, kind, self._length) for name, kind in pairs]

    @property
    def span_ns(self):
        """The first and the last stamp."""
        ends = _frame_stamps.at_ticks(np.array([0, self._length - 1]), self._dataset.fps)
        return int(ends[0]), int(ends[1])

    def messages(self, wanted):
        """Yields the messages of wanted topics in the order of their stamps: lists of (topic's index, stamp [ns], bytes).

        Args:
            wanted: for each topic whether it is read at all.

        Raises ValueError or OSError if the episode is damaged from there on.
        """
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        if not chosen:
            return
        stamp_ns = _frame_stamps.at_ticks(np.arange(self._length), self._dataset.fps)
        frames = self._frames(chosen, stamp_ns)
        yield from batches(self.path, stamp_ns, [(chosen, frames)])
        next(frames, None)  # it raises ValueError if the files have more frames than stamps

    def _frames(self, chosen, stamp_ns):
        """Yields the messages of each frame, in the order of `chosen`."""
        features = [self._topics.features[at] for at in chosen]
        names, first = [feature.name for feature in features], 0
        for block in self._dataset.blocks(self._episode, names):
            for name, values in block.items():
                _expect_count(self, name, len(values), len(next(iter(block.values()))))
            stop = first + len(block[names[0]])
            if stop > self._length:
                raise ValueError(f"{self.path}: expected {self._length} frames, found more")
            of_block = stamp_ns[first:stop]
            stamps = [stamp.tobytes() for stamp in _ros_messages.stamps(of_block)]
            columns = [
                self._messages(each, block[each.name], of_block, stamps) for each in features
            ]
            yield from (list(messages) for messages in zip(*columns, strict=True))
            first = stop

    def _messages(self, feature, values, stamp_ns, stamps):
        """Messages of a feature in consecutive frames, one by one."""
        if feature.kind == "image":
            for stamp, picture in zip(stamps, values, strict=True):
                yield picture_messages(
                    self.path, [(feature, picture)], stamp, self._dataset.source
                )[0]
            return
        expected = (*feature.shape, 3) if feature.kind == "pixels" else feature.shape
        is_so = values.shape[1:] == expected and values.dtype.kind in "biuf"
        if not is_so or (feature.kind == "pixels" and values.dtype != np.uint8):
            dtype = "uint8" if feature.kind == "pixels" else "numbers"
            raise ValueError(
                f"{self.path}: {self._dataset.field(feature.name)}: expected {dtype} of the shape {list(expected)} in "
                f"each frame as in {self._dataset.source}, found {values.dtype} of {list(values.shape[1:])}"
            )
        if feature.kind == "vector":
            flat = values.reshape(len(values), -1)
            yield from _ros_messages.joint_states(joint_names(feature), flat, stamp_ns)
            return
        images = _ros_messages.Images(*feature.shape)
        for stamp, pixels in zip(stamps, values, strict=True):
            yield images.message(stamp, np.ascontiguousarray(pixels))


def found_of(shape, dtype):
    """What an array is of one frame: a `Found`, or a text: why it is left out.

    Args:
        shape: without the frames.
        dtype: of NumPy.
    """
    shape, dtype = tuple(map(int, shape)), np.dtype(dtype)
    if dtype.kind not in "biuf":
        return f"elements of {dtype}"
    if any(side < 1 for side in shape):
        return f"an array of {list(shape)}"
    if dtype == np.uint8 and len(shape) == 3:
        if shape[2] == 3 and max(shape) <= MAX_SIDE:
            return Found("pixels", "uint8", shape[:2])
        return f"an image of {list(shape)}, expected [height, width, 3] of at most {MAX_SIDE}"
    if math.prod(shape) > MAX_JOINTS:
        return f"{math.prod(shape)} numbers, at most {MAX_JOINTS}"
    return Found("vector", str(dtype), shape)


def _feature(dataset, stream, field, found):
    """The feature of a stream."""
    where = f"{dataset.mapping.path}: streams.{stream}"
    is_there = found.get(field.name)
    if is_there is None:
        raise ValueError(
            f"{where}.field: expected one of {', '.join(found)} of {dataset.source}, found {field.name!r}"
        )
    if isinstance(is_there, str):
        raise ValueError(f"{where}.field: expected numbers or an image, found {is_there}")
    if is_there.kind != "vector":
        if field.names is not None:
            raise ValueError(f"{where}.names: expected none, because {field.name} is an image")
        return Feature(stream, is_there.kind, "uint8", is_there.shape, ())
    count = math.prod(is_there.shape)
    if field.names is not None and len(field.names) != count:
        raise ValueError(
            f"{where}.names: expected {count} names, because {field.name} has the shape {list(is_there.shape)}, "
            f"found {len(field.names)}"
        )
    plain = (stream,) if count == 1 else tuple(map(str, range(count)))
    return Feature(stream, "vector", is_there.dtype, is_there.shape, field.names or plain)


def _expect_count(recording, name, found, expected):
    if found != expected:
        field = recording._dataset.field(name)
        raise ValueError(f"{recording.path}: {field}: expected {expected} frames, found {found}")


def _stream_name(field, taken):
    """The name of a field's stream: its last word, or as many as it takes to differ."""
    words = [re.sub(r"[^a-z0-9_]", "_", word.lower()) for word in field.split("/") if word]
    for count in range(1, len(words) + 1):
        name = "_".join(words[-count:])
        name = name if name[:1].isalpha() else f"f{name}"
        if name not in taken:
            return name
    while name in taken:
        name += "_"
    return name


def named(text):
    """A text as a part of the name of an episode."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)
