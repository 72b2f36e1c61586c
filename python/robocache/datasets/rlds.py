"""RLDS datasets, such as those of RT-X: TFRecord files that TensorFlow Datasets (tfds) wrote.

`features.json` says what an episode has, `dataset_info.json` how many episodes are in which file. A record is an episode:
a `tf.train.Example` with a feature for each field of `steps`, in which the values of all steps are one after the other.
"""

import json
import math
import re
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import tfrecord
from .mapped import MAX_SIDE, Found, MappedDataset, found_of, named

#: Frames that become messages at once.
_BLOCK = 64
#: Records of a shard at most: each is an object in memory before the shard is opened.
_MAX_RECORDS = 10_000_000
_TASKS = (
    "language_instruction",
    "observation/natural_language_instruction",
    "natural_language_instruction",
)


def recognises(root):
    """Whether the files at a path are of this kind."""
    return (Path(root) / "features.json").is_file()


@dataclass(frozen=True)
class Episode:
    """An episode: a record of a shard, which must have `records` records."""

    number: int
    name: str
    shard: Path
    record: int
    records: int


class RldsDataset(MappedDataset):
    """A folder of a version of a dataset: `features.json`, `dataset_info.json` and shards."""

    KIND = "RLDS"
    source = "features.json"

    def __init__(self, root):
        super().__init__(root)
        tfrecord.expect_packages()
        self._lock, self._offsets = threading.Lock(), {}
        self._steps, self._others = _schema(self.root / "features.json")
        self._sizes = {}

    def open(self, mapping):
        """Finds the episodes: as many as `dataset_info.json` says. No shard is read."""
        for key in mapping.tasks:
            column = self._all().get(key)
            if column is None or not column.has_text:
                texts = [key for key, each in self._all().items() if each.kind == "text"]
                raise ValueError(
                    f"{mapping.path}: task: expected one of {', '.join(texts) or 'no text'} of {self.source}, found {key!r}"
                )
        self.episodes, self.splits = [], {}
        for split, shards in self._shards().items():
            self.splits[split] = []
            for shard, records in shards:
                for record in range(records):
                    number = len(self.episodes)
                    name = f"{named(split)}_{number:06d}"
                    self.episodes.append(Episode(number, name, shard, record, records))
                    self.splits[split].append(name)

    def fields(self):
        """As of `MappedDataset`. If an image has no size in `features.json`, it is that of the first episode."""
        return {key: self._found(key, column) for key, column in self._steps.items()}

    def flags(self):
        """Those of a step and those of an episode."""
        return {key: column.found for key, column in self._all().items()}

    def first_rate(self):
        return None, "expected: the frames per second that the dataset's documentation says"

    def first_task(self):
        texts = [key for key, column in self._steps.items() if column.kind == "text"]
        return next((key for key in _TASKS if key in texts), None)

    def files(self, episode):
        return [episode.shard]

    def length(self, episode):
        """The number of steps: that of the smallest field, usually `is_first`."""
        return self._count(episode, self._read(episode, [self._smallest()]))

    def _smallest(self):
        return min(self._steps, key=lambda key: self._steps[key].cost)

    def _count(self, episode, features):
        """The number of steps, by the smallest field of a record."""
        return len(self._steps[self._smallest()].frames(self._where(episode), features))

    def task(self, episode):
        """The text of the first step."""
        return self.tasks(episode)[0][1]

    def tasks(self, episode):
        """A pair for each run of steps that have one task: the first step, and its text or None. One or more.

        Of the places that the mapping has, the first whose text is not empty counts.
        """
        keys = self.mapping.tasks
        texts = self._texts(episode, self._read(episode, [*keys, self._smallest()])) if keys else []
        of_steps = [next(filter(None, several), None) for several in zip(*texts, strict=True)]
        of_steps = of_steps or [None]
        firsts = [at for at, text in enumerate(of_steps) if at == 0 or text != of_steps[at - 1]]
        return [(at, of_steps[at]) for at in firsts]

    def _texts(self, episode, features):
        """For each place of the task the text of each step, or None. A place that the record lacks has no text.

        Raises ValueError if a place has another number of texts than one or one for each step: it is unknown whose they are.
        """
        steps, found = self._count(episode, features), []
        for key in self.mapping.tasks:
            column = self._all()[key]
            own = column.texts(features.get(column.name)) or [None]
            if len(own) not in (1, steps):
                raise ValueError(
                    f"{self._where(episode)}: {column.name}: expected one text or one for each of {steps} steps, found "
                    f"{len(own)}"
                )
            # A text of the episode is that of all its steps.
            found.append(own * steps if len(own) == 1 else own)
        return found

    def blocks(self, episode, names):
        columns = {name: self._all()[self.field(name)] for name in names}
        where = self._where(episode)
        data = tfrecord.record(episode.shard, *self._span(episode))
        wanted = {column.name for column in columns.values()}
        text = {self._all()[key].name for key in self.mapping.tasks}
        smallest = {self._steps[self._smallest()].name} if text else set()
        features = tfrecord.features(where, data, wanted | text | smallest)
        del data
        for name in text - set(features):
            raise ValueError(f"{where}: {name}: expected the text of the task, found none")
        if text:
            self._texts(episode, features)
        frames = {name: column.frames(where, features) for name, column in columns.items()}
        for name in names:
            if self.field(name) in self._others:  # one value for all steps
                frames[name] = np.repeat(frames[name][:1], len(frames[names[0]]), axis=0)
        lengths = {name: len(values) for name, values in frames.items()}
        for name, length in lengths.items():
            if length != lengths[names[0]]:
                raise ValueError(
                    f"{where}: {self.field(name)}: expected {lengths[names[0]]} steps as in {self.field(names[0])}, found "
                    f"{length}"
                )
        for first in range(0, lengths[names[0]], _BLOCK):
            yield {name: values[first : first + _BLOCK] for name, values in frames.items()}

    def _all(self):
        return {**self._others, **self._steps}

    def _found(self, key, column):
        if column.kind != "image" or None not in column.shape:
            return column.found
        if key not in self._sizes:
            self._sizes[key] = self._first_size(column)
        return self._sizes[key]

    def _first_size(self, column):
        """The size of an image in the first episode."""
        from .dataset import picture_size

        shards = [each for shards in self._shards().values() for each in shards]
        try:
            shard, records = next(each for each in shards if each[1])
            span = tfrecord.Offsets(shard, records).of(0)
            pictures = tfrecord.some_features(shard, *span, {column.name}).get(column.name, [])
        except (StopIteration, ValueError, OSError) as error:
            return f"an image without a size in {self.source}, and no first episode ({error})"
        size = picture_size(pictures[0]) if pictures else None
        if size is None:
            return f"an image without a size in {self.source}, and none in the first episode"
        return Found("image", "uint8", size)

    def _where(self, episode):
        return f"{episode.shard}: record {episode.record}"

    def _read(self, episode, keys):
        """Features of an episode, without the rest and without the checksum."""
        names = {self._all()[key].name for key in keys}
        return tfrecord.some_features(episode.shard, *self._span(episode), names)

    def _span(self, episode):
        """Where the record is: the shard is indexed once."""
        with self._lock:
            if episode.shard not in self._offsets:
                self._offsets[episode.shard] = tfrecord.Offsets(episode.shard, episode.records)
            offsets = self._offsets[episode.shard]
        return offsets.of(episode.record)

    def _shards(self):
        """By split the shards, each with the number of its records."""
        path = self.root / "dataset_info.json"
        info = _json(path)
        kind = info.get("fileFormat", info.get("file_format", "tfrecord"))
        if kind != "tfrecord":
            raise ValueError(f"{path}: fileFormat: expected tfrecord, found {kind!r}")
        try:
            name, found = info["name"], {}
            for split in info["splits"]:
                if not isinstance(split["name"], str):
                    raise ValueError(f"the name {split['name']!r}")
                lengths = [int(length) for length in split["shardLengths"]]
                template = split.get("filepathTemplate") or (
                    "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
                )
                paths = [
                    self.root / _file(template, name, split["name"], at, len(lengths))
                    for at in range(len(lengths))
                ]
                for file, length in zip(paths, lengths, strict=True):
                    if file.parent != self.root:
                        raise ValueError(f"the shard {file}, expected in this folder")
                    if not 0 <= length <= _MAX_RECORDS:
                        raise ValueError(f"{length} records in {file.name}")
                found[split["name"]] = list(zip(paths, lengths, strict=True))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"{path}: expected name, and splits with name and shardLengths, found {type(error).__name__} {error}"
            ) from None
        return found


def _file(template, name, split, shard, of):
    """A file's name, as tfds has it."""
    values = {
        "DATASET": name,
        "SPLIT": split,
        "FILEFORMAT": "tfrecord",
        "SHARD_INDEX": f"{shard:05d}",
        "NUM_SHARDS": f"{of:05d}",
        "SHARD_X_OF_Y": f"{shard:05d}-of-{of:05d}",
    }
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], template)


class _Column:
    """A field of the steps.

    Attributes:
        name: of the feature in the Example.
        kind: "image", "text", "array" or "other".
        shape: of a step; None for an unknown size.
        dtype: of NumPy.
        encoding: "none", or how an array is one text of bytes: "bytes" or "zlib".
        found: a `Found`, or why the field is left out.
        cost: how much is read to count the steps.
    """

    def __init__(self, name, node):
        self.name, self.kind, self.shape, self.dtype, self.encoding = (
            name,
            "other",
            (),
            None,
            "none",
        )
        self.found = (
            f"a feature of {str(node.get('pythonClassName', 'unknown')).rpartition('.')[2]}"
        )
        if "image" in node:
            self._image(node["image"])
        elif "text" in node:
            self.kind, self.found = "text", "text"
        elif "tensor" in node:
            self._tensor(node["tensor"])
        elif "classLabel" in node:
            self._array((), "int64", "none")
        sizes = {"array": math.prod(side or 1 for side in self.shape), "text": 64, "image": 1 << 20}
        self.cost = sizes.get(self.kind, math.inf)

    def _image(self, node):
        self.shape = _dimensions(node)
        dtype, encoding = node.get("dtype", "uint8"), node.get("encodingFormat", "png")
        if dtype != "uint8" or len(self.shape) != 3 or self.shape[2] not in (1, 3, 4):
            self.found = (
                f"an image of {dtype} {list(self.shape)}, expected uint8 [height, width, 3]"
            )
        elif encoding not in ("jpeg", "png", ""):
            self.found = f"an image as {encoding}, expected jpeg or png"
        elif any(side is not None and not 0 < side <= MAX_SIDE for side in self.shape):
            self.found = f"an image of {list(self.shape)}"
        else:
            self.kind, self.found = "image", Found("image", "uint8", self.shape[:2])

    def _tensor(self, node):
        dtype, encoding = str(node.get("dtype")), node.get("encoding") or "none"
        if dtype in ("string", "object"):
            self.kind, self.found = "text", "text"
            return
        self._array(_dimensions(node), dtype, encoding)

    def _array(self, shape, dtype, encoding):
        self.shape = shape
        if None in shape:
            self.found = f"an array of an unknown size, {list(shape)}"
            return
        try:
            self.dtype = np.dtype(dtype)
        except TypeError:
            self.found = f"elements of {dtype}"
            return
        self.found = found_of(shape, self.dtype)
        if isinstance(self.found, Found) and encoding in ("none", "bytes", "zlib"):
            self.kind, self.encoding = "array", encoding
        elif isinstance(self.found, Found):
            self.found = f"an array as {encoding}"

    @property
    def has_text(self):
        """Whether it is a text, or the codes of one: integers, as in Language-Table."""
        is_array = self.kind == "array" and len(self.shape) == 1 and self.encoding == "none"
        return self.kind == "text" or (is_array and self.dtype.kind in "iu")

    def texts(self, values):
        """The text of each step; None for an empty one."""
        if self.kind == "text":
            of_steps = values if isinstance(values, list) else []
        else:
            size = math.prod(self.shape)
            is_whole = isinstance(values, np.ndarray) and len(values) % size == 0
            # Zeros fill up the array.
            rows = values.reshape(-1, size) if is_whole else []
            of_steps = [(row[row != 0] & 0xFF).astype(np.uint8).tobytes() for row in rows]
        return [each.decode(errors="replace").strip() or None for each in of_steps]

    def frames(self, where, features):
        """The values of all steps, from the features of a record: an array [steps, ...], or a list of bytes.

        Raises ValueError if the record has not what `features.json` says.
        """
        where = f"{where}: {self.name}"
        values = features.get(self.name)
        if values is None:
            raise ValueError(f"{where}: expected this feature, found none")
        is_bytes = isinstance(values, list)
        if is_bytes and not values and self.kind == "array":
            return np.zeros((0, *self.shape), self.dtype)  # no step
        if is_bytes != (self.kind in ("image", "text") or self.encoding != "none"):
            expected, found = ("numbers", "bytes") if is_bytes else ("bytes", "numbers")
            raise ValueError(f"{where}: expected {expected}, found {found}")
        if self.kind != "array":
            return values
        if is_bytes:
            values = np.concatenate([self._decoded(where, each) for each in values])
        elements = math.prod(self.shape)
        if len(values) % elements:
            raise ValueError(
                f"{where}: expected {elements} numbers in each step, found {len(values)} in all"
            )
        if values.dtype != self.dtype:
            as_told = values.astype(self.dtype)
            is_float = values.dtype.kind == "f"
            if is_float != (self.dtype.kind == "f") or not (is_float or np.all(as_told == values)):
                raise ValueError(
                    f"{where}: expected {self.dtype} as in features.json, found others"
                )
            values = as_told
        return values.reshape(-1, *self.shape)

    def _decoded(self, where, data):
        size = math.prod(self.shape) * self.dtype.itemsize
        if self.encoding == "zlib":
            try:
                data = zlib.decompressobj().decompress(data, size + 1)
            except zlib.error as error:
                raise ValueError(f"{where}: expected zlib, found damage: {error}") from None
        if len(data) != size:
            raise ValueError(f"{where}: expected {size} bytes in each step, found {len(data)}")
        return np.frombuffer(data, self.dtype)


def _schema(path):
    """The columns by field: those of the steps, and those of the episode."""
    content = _json(path)
    try:
        features = content["featuresDict"]["features"]
        steps = features["steps"]["sequence"]["feature"]
        others = {name: node for name, node in features.items() if name != "steps"}
        return dict(_columns("", "steps/", steps)), dict(
            pair for name, node in others.items() for pair in _columns(name, "", node)
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(
            f"{path}: expected the features of an RLDS dataset with 'steps', found none"
        ) from None


def _columns(key, prefix, node):
    """Yields the fields below a node of `features.json`, and their columns."""
    if isinstance(node, dict) and "featuresDict" in node:
        for name, inner in node["featuresDict"].get("features", {}).items():
            yield from _columns(f"{key}/{name}" if key else name, prefix, inner)
    elif isinstance(node, dict):
        yield key, _Column(f"{prefix}{key}", node)


def _dimensions(node):
    """The sides of a shape; None for an unknown one."""
    sides = [int(side) for side in (node.get("shape") or {}).get("dimensions", [])]
    return tuple(None if side < 0 else side for side in sides)


def _json(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: expected a file of an RLDS dataset, found none") from None
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, found {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object of JSON, found {type(content).__name__}")
    return content
