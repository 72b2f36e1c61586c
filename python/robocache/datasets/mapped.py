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

from . import frame_stamps, mapped_values, mapping_draft, mapping_file
from .dataset import MAX_JOINTS, Feature, batches, sized_pictures, stamp_of, vectors
from .guess import Guess

#: Of what arrays are made of. It changes if the same files give other arrays.
FORMAT = 2
#: Greatest height and width of an image.
MAX_SIDE = 1 << 14
#: Before the name of a feature: the name of its flags.
_FLAG = "valid: "
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
    - `fields()`: a dict by field of `Found`, or of a text: why it is left out; `flags()`: those that may say what is valid;
    - `first_rate()`: the rate of a first mapping: a pair of frames per second, or None, and its source;
    - `first_task()`: where a first mapping has the task, or None;
    - `open(mapping)`: finds `episodes` and `splits`;
    - `length(episode)`: its number of frames;
    - `task(episode)`: its text or None; `tasks(episode)` if it may change;
    - `files(episode)`: the paths of its files;
    - `blocks(episode, names)`: yields dicts by name, which `field` knows, of the values of consecutive frames: an array
      [frames, ...], or a list of bytes for the kind "image";
    - `source`: the file that says what shapes fields have.

    Those that read an episode raise ValueError or OSError if it is damaged.
    """

    #: A mapping says what elements are, so nothing is guessed.
    guessed: dict[str, Guess] = {}

    def __init__(self, root):
        self.root = Path(root)
        self.left_out, self.misnamed = {}, {}

    @classmethod
    def opened(cls, root, mapping):
        """A dataset with a mapping: the name of a known one, or a file. Raises ValueError if they do not fit."""
        if mapping is None:
            raise ValueError(
                f"{root}: expected --mapping, because files of {cls.KIND} do not say their rate: one of "
                f"{', '.join(mapping_file.known())}, or a file (--write-mapping writes a first one)"
            )
        dataset = cls(root)
        dataset.take(mapping_file.read(mapping))
        return dataset

    def take(self, mapping):
        """Finds features and episodes by a mapping. Raises ValueError if they do not fit."""
        self.mapping = mapping
        self.fps = mapping.rate_hz
        found, flags = self.fields(), self.flags()
        self.features = {
            stream: _feature(self, stream, field, found, flags)
            for stream, field in mapping.streams.items()
        }
        self.open(mapping)

    @classmethod
    def draft(cls, root):
        """The text of a first mapping."""
        return mapping_draft.draft(cls(root))

    def flags(self):
        """As `fields`: what may say whether a frame has a value."""
        return self.fields()

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

    def field(self, name):
        """The field of a feature, or of the flags of a feature: `flag_of`."""
        if name.startswith(_FLAG):
            return self.mapping.streams[name.removeprefix(_FLAG)].valid
        return self.mapping.streams[name].name

    def expect_packages(self):
        """Raises ImportError without PyAV if images of one colour are to be found; others were needed to open the files."""
        if not any(each.has_blanks for each in self.mapping.streams.values()):
            return
        try:
            import av  # noqa: F401
        except ImportError as error:
            raise mapping_file.missing("PyAV", error) from error

    def recording(self, topics, episode, *, tolerance_s, threads):
        """An episode as a recording. It has no video, so the arguments of videos change nothing."""
        return MappedRecording(self, topics, episode)


class MappedRecording:
    """An episode, as the native replay reads it.

    Each iteration of `arrays` opens the files for itself, so several threads may read at once.

    Attributes:
        name, task: of the episode.
        path: the dataset, `#` and the name: errors name it.
        made_of: a text that changes if the content may differ.
        decoded: empty: no topic is decoded of a video.
        spacing: None: the frames have the stamps of the rate.
    """

    decoded: ClassVar[dict[str, str]] = {}
    spacing = None

    def __init__(self, dataset, topics, episode):
        self._dataset, self._topics, self._episode = dataset, topics, episode
        self.name, self.path = episode.name, f"{dataset.root}#{episode.name}"
        features = [
            [*vars(feature).values(), *vars(dataset.mapping.streams[feature.name]).values()]
            for feature in topics.features
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
        """If the episode is damaged, `arrays` says so."""
        try:
            return self._dataset.tasks(self._episode)
        except (ValueError, OSError):
            return [(0, None)]

    def about(self):
        """What the frames say of the episode: `task`, and `tasks` if it changes."""
        said = {"task": self.task}
        if len(self._tasks) > 1:
            begin_ns = frame_stamps.at_ticks(
                np.array([frame for frame, _ in self._tasks]), self._dataset.fps
            )
            said["tasks"] = [
                {"begin_ns": at, "task": task or ""}
                for at, (_, task) in zip(begin_ns.tolist(), self._tasks, strict=True)
            ]
        return said

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
        """Those of `Topics.of_length`."""
        return self._topics.of_length(self._length)

    @property
    def span_ns(self):
        """The first and the last stamp."""
        ends = frame_stamps.at_ticks(np.array([0, self._length - 1]), self._dataset.fps)
        return int(ends[0]), int(ends[1])

    def arrays(self, wanted):
        """Yields the arrays of wanted topics in the order of their stamps: lists of (topic's index, stamp [ns], bytes).

        Args:
            wanted: for each topic whether it is read at all.

        Raises ValueError or OSError if the episode is damaged from there on.
        """
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        if not chosen:
            return
        stamp_ns = frame_stamps.at_ticks(np.arange(self._length), self._dataset.fps)
        frame_stamps.expect_range(stamp_ns)
        frames = self._frames(chosen)
        yield from batches(self.path, stamp_ns, [(chosen, frames)])
        next(frames, None)  # it raises ValueError if the files have more frames than stamps

    def _frames(self, chosen):
        """Yields the arrays of each frame, in the order of `chosen`."""
        features = [self._topics.features[at] for at in chosen]
        streams = self._dataset.mapping.streams
        flags = [_FLAG + each.name for each in features if streams[each.name].valid is not None]
        names, first = [*(each.name for each in features), *flags], 0
        grippers = {each.name: self._grippers(each) for each in features}
        for block in self._dataset.blocks(self._episode, names):
            for name, values in block.items():
                _expect_count(self, name, len(values), len(next(iter(block.values()))))
            stop = first + len(block[names[0]])
            if stop > self._length:
                raise ValueError(f"{self.path}: expected {self._length} frames, found more")
            for name, of_elements in grippers.items():
                if of_elements:
                    block[name] = np.array(block[name], np.float64)
                for at, values in of_elements.items():
                    block[name].reshape(stop - first, -1)[:, at] = values[first:stop]
            columns = [self._valid(each, block) for each in features]
            yield from (list(arrays) for arrays in zip(*columns, strict=True))
            first = stop

    def _grippers(self, feature):
        """By element of a feature the values of relative grippers in all frames, 0 closed and 1 open."""
        relative = self._dataset.mapping.streams[feature.name].relative_gripper
        if not relative:
            return {}
        blocks = self._dataset.blocks(self._episode, [feature.name])
        values = [block[feature.name].reshape(len(block[feature.name]), -1) for block in blocks]
        places = [feature.names.index(name) for name in relative]
        of_all = np.concatenate(values) if values else np.zeros((0, len(feature.names)))
        return {at: mapped_values.absolute_gripper(of_all[:, at]) for at in places}

    def _valid(self, feature, block):
        """Arrays of a feature in consecutive frames, one by one; None in place of one that is not valid."""
        flags = block.get(_FLAG + feature.name)
        arrays = self._arrays(feature, block[feature.name])
        if flags is None:
            return arrays
        is_valid = np.asarray(flags).reshape(len(flags), -1)[:, 0] != 0
        return (each if kept else None for each, kept in zip(arrays, is_valid, strict=True))

    def _arrays(self, feature, values):
        """Arrays of a feature in consecutive frames, one by one; None in place of an image of one colour."""
        of_mapping = self._dataset.mapping.streams[feature.name]
        if feature.kind == "image":
            for picture in values:
                (sized,) = sized_pictures(self.path, [(feature, picture)], self._dataset.source)
                blank = of_mapping.has_blanks and mapped_values.is_blank_picture(
                    picture, feature.shape
                )
                yield None if blank else sized
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
            yield from vectors(values)
            return
        for pixels in values:
            if of_mapping.has_blanks and mapped_values.is_blank(pixels):
                yield None
                continue
            yield mapped_values.oriented(pixels, of_mapping.orient).tobytes()


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


def _feature(dataset, stream, field, found, flags):
    """The feature of a stream."""
    where = f"{dataset.mapping.path}: streams.{stream}"
    is_there = found.get(field.name)
    if is_there is None:
        raise ValueError(
            f"{where}.field: expected one of {', '.join(found)} of {dataset.source}, found {field.name!r}"
        )
    if isinstance(is_there, str):
        raise ValueError(f"{where}.field: expected numbers or an image, found {is_there}")
    _check_flag(where, field, flags)
    if is_there.kind != "vector":
        _expect_only(
            where,
            field,
            ("names", "angular", "quaternions", "held", "relative_gripper"),
            "an image",
        )
        if field.orient is not None and is_there.kind == "image":
            raise ValueError(
                f"{where}.orient: expected no such key, because {field.name} is JPEG or PNG and stays as it is: turn the "
                "images where the policy reads them"
            )
        return Feature(stream, is_there.kind, "uint8", is_there.shape, ())
    _expect_only(where, field, ("has_blanks", "orient"), "numbers")
    count = math.prod(is_there.shape)
    if field.names is not None and len(field.names) != count:
        raise ValueError(
            f"{where}.names: expected {count} names, because {field.name} has the shape {list(is_there.shape)}, "
            f"found {len(field.names)}"
        )
    plain = (stream,) if count == 1 else tuple(map(str, range(count)))
    names = field.names or plain
    _check_elements(where, field, names)
    held = (*field.held, *(name for name in field.relative_gripper if name not in field.held))
    kinds = {"angular": field.angular, "quaternions": field.quaternions, "held": held}
    return Feature(stream, "vector", is_there.dtype, is_there.shape, names, **kinds)


def _expect_only(where, field, keys, kind):
    """Raises ValueError if a field has one of these keys, because it is of another kind."""
    for key in keys:
        if getattr(field, key):
            name = "blank" if key == "has_blanks" else key
            raise ValueError(
                f"{where}.{name}: expected no such key, because {field.name} is {kind}"
            )


def _check_flag(where, field, flags):
    """Raises ValueError if the field that says what is valid is no number of each frame or episode."""
    if field.valid is None:
        return
    found = flags.get(field.valid)
    if not isinstance(found, Found) or found.kind != "vector" or math.prod(found.shape) != 1:
        known = [
            name
            for name, of in flags.items()
            if isinstance(of, Found) and of.kind == "vector" and math.prod(of.shape) == 1
        ]
        raise ValueError(
            f"{where}.valid: expected one number of each frame, such as {', '.join(known[:8]) or 'none'}, found {field.valid!r}"
        )


def _check_elements(where, field, names):
    """Raises ValueError if a list names an element that is not there, or an element twice."""
    listed = {
        "angular": field.angular,
        "quaternions": [name for four in field.quaternions for name in four],
        "held": field.held,
        "relative_gripper": field.relative_gripper,
    }
    seen = {}
    for key, own in listed.items():
        for name in own:
            if name not in names:
                raise ValueError(
                    f"{where}.{key}: expected one of {', '.join(names)}, found {name!r}"
                )
            if name in seen:
                raise ValueError(
                    f"{where}.{key}: expected {name!r} in one list, found it in {seen[name]}, too"
                )
            seen[name] = key
    for four in field.quaternions:
        at = names.index(four[0])
        if names[at : at + 4] != four:
            raise ValueError(
                f"{where}.quaternions: expected elements that follow each other in this order, found {', '.join(four)}"
            )


def _expect_count(recording, name, found, expected):
    if found != expected:
        field = recording._dataset.field(name)
        raise ValueError(f"{recording.path}: {field}: expected {expected} frames, found {found}")


def named(text):
    """A text as a part of the name of an episode."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)
