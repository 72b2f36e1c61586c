"""What every kind of dataset has: features that become topics, and frames that become batches of arrays.

`kinds` has the kinds. A dataset of any kind has these attributes:

- `root`: its path; `fps`: frames per second; `features`: a dict by name of `Feature`;
- `left_out`: a dict by name of what is no topic: why;
- `guessed`: a dict by name of `guess.Guess`: what elements of a vector seem to be;
- `misnamed`: a dict by name of vectors whose elements have too few or too many names: how many;
- `stamps`: a sentence that says which stamps the frames get;
- `episodes`: a list of objects with `number` and `name`, in the order of their numbers;
- `splits`: a dict by name of lists of names of episodes;
- `expect_packages()`: raises ImportError if a package is missing that the frames need;
- `recording(topics, episode, tolerance_s=, threads=)`: the episode as a recording.

A recording is what `crates/python/src/recordings.rs` says. When it was read, its `spacing` is that of
`frame_stamps.other_spacing`.
"""

import json
import os
import re
from dataclasses import dataclass

import numpy as np

#: Arrays and bytes of a batch.
_ARRAYS, _BYTES = 64, 2_000_000
#: The ROS types of topics: a configuration names them.
_TYPES = {
    "vector": "sensor_msgs/msg/JointState",
    "video": "sensor_msgs/msg/Image",
    "pixels": "sensor_msgs/msg/Image",
    "image": "sensor_msgs/msg/CompressedImage",
}
#: Endings of names that say what every channel of a JointState says.
_ENDINGS = (".position", ".pos")
#: What a JointState may have, as in `crates/core/src/input/joints.rs`.
MAX_JOINTS = 4096


@dataclass(frozen=True)
class Feature:
    """Numbers or an image of each frame.

    Attributes:
        name: its name.
        kind: "vector"; "image" for the bytes of a PNG or a JPEG, "pixels" for an array, "video" for frames of a video.
        dtype: the element type of a vector.
        shape: of a vector; of an image (height, width).
        names: of the elements of a vector, flattened.
        angular, quaternions, held: names of elements that are no plain numbers: as in a configuration.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    angular: tuple[str, ...] = ()
    quaternions: tuple[tuple[str, ...], ...] = ()
    held: tuple[str, ...] = ()


class Topics:
    """The topics of a dataset.

    Attributes:
        features: the features that are topics, in their order.
        names: their topics.
        renamed: the names of features that are not those of their topics, by topic.
        left_out: a dict by name of other features: why.
    """

    def __init__(self, dataset):
        self.features, self.names, self.renamed = [], [], {}
        self.left_out = dict(dataset.left_out)
        for feature in dataset.features.values():
            if len(feature.names) > MAX_JOINTS:
                self.left_out[feature.name] = f"{len(feature.names)} numbers, at most {MAX_JOINTS}"
            else:
                self.features.append(feature)
        for feature in self.features:
            plain = "/" + feature.name.replace(".", "/")
            name = _allowed(plain)
            while name in self.names:
                name += "_"
            self.names.append(name)
            if name != plain:
                self.renamed[name] = feature.name
        self._arrays = [_array_of(feature) for feature in self.features]

    def types(self):
        return [_TYPES[feature.kind] for feature in self.features]

    def of_length(self, length):
        """The topics of a recording with this number of frames. All recordings share the lists of names."""
        of_topics = zip(self.names, self.types(), self._arrays, strict=True)
        return [(name, kind, length, array) for name, kind, array in of_topics]


def _array_of(feature):
    """What a frame has of a feature: names of joints, the height and width of pixels, or None for a file."""
    if feature.kind == "vector":
        return joint_names(feature)
    return None if feature.kind == "image" else tuple(feature.shape)


def joint_names(feature):
    """The joints of a vector. The channel of a joint is `NAME.position`, so an ending that says so is left out."""
    names = feature.names
    for ending in _ENDINGS:
        if all(name.endswith(ending) and len(name) > len(ending) for name in names):
            return [name.removesuffix(ending) for name in names]
    return list(names)


def batches(path, stamp_ns, sources):
    """Yields the arrays of an episode in the order of their stamps: lists of (topic's index, stamp [ns], bytes).

    Args:
        path: what errors name.
        stamp_ns: the stamps of the frames.
        sources: pairs of topics' indices and an iterator, which has for each frame an array of each of them, or None if it
            is not valid.

    Raises ValueError or OSError of a source, when the arrays before it were yielded.
    """
    batch, size, damage = [], 0, None
    for at, received in enumerate(stamp_ns.tolist()):
        try:
            for topics, source in sources:
                found = next(source, None)
                if found is None:
                    raise ValueError(f"{path}: expected {len(stamp_ns)} frames, found {at}")
                for topic, array in zip(topics, found, strict=True):
                    if array is not None:
                        batch.append((topic, received, array))
                        size += len(array)
        except (ValueError, OSError) as error:
            damage = error
            break
        if len(batch) >= _ARRAYS or size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
    if damage is not None:
        raise damage


def stamp_of(paths):
    """A text that changes if one of these files is written again: names, sizes and times of writing."""
    told = []
    for path in paths:
        try:
            about = os.stat(path)
            told.append([path.name, about.st_size, about.st_mtime_ns])
        except OSError:
            told.append([path.name, None, None])
    return json.dumps(told)


def picture_size(picture):
    """Height and width of the bytes of a PNG or a JPEG; None of others.

    PNG: W3C PNG specification 11.2.2 (IHDR). JPEG: ITU-T T.81, B.2.2 (frame header).
    """
    if picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) >= 24:
        return int.from_bytes(picture[20:24], "big"), int.from_bytes(picture[16:20], "big")
    at = 2
    while picture[:2] == b"\xff\xd8" and at + 9 <= len(picture) and picture[at] == 0xFF:
        if picture[at + 1] == 0xFF:  # a fill byte (T.81, B.1.1.2)
            at += 1
            continue
        marker, length = picture[at + 1], int.from_bytes(picture[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = picture[at + 5 : at + 7], picture[at + 7 : at + 9]
            return int.from_bytes(height, "big"), int.from_bytes(width, "big")
        at += 2 + length
    return None


def vectors(values):
    """Vectors [frames, ...] as bytes, one by one: float64, little-endian."""
    values = np.ascontiguousarray(values, "<f8")
    return [vector.tobytes() for vector in values]


def sized_pictures(path, pictures, source):
    """The pictures of a frame.

    Args:
        path: what errors name.
        pictures: pairs of a feature and the bytes of its picture.
        source: the file that says what size the pictures have.

    Raises ValueError if a picture has another size than its feature.
    """
    for feature, picture in pictures:
        size = picture_size(picture)
        if size != feature.shape:
            raise ValueError(
                f"{path}: expected pictures of {by(feature.shape)} in {feature.name!r} as in {source}, found "
                f"{'neither PNG nor JPEG' if size is None else by(size)}"
            )
    return [bytes(picture) for _, picture in pictures]


def by(size):
    """A size as text."""
    return f"{size[0]} x {size[1]}"


def _allowed(topic):
    """A topic with only what ROS allows: words of letters, digits and _, which begin with no digit."""
    words = [re.sub(r"[^A-Za-z0-9_]", "_", word) for word in topic.split("/") if word]
    return "".join(f"/{'_' if word[0].isdigit() else ''}{word}" for word in words) or "/_"
