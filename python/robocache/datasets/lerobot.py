"""A reader of LeRobot datasets, formats v2.0, v2.1 and v3.0, by their own files and without LeRobot.

dataset = Dataset("path/to/dataset")
dataset.features["observation.state"].names
dataset.episodes[0].videos["observation.images.top"].path

It needs pyarrow: `pip install 'dist/WHEEL.whl[import]'`, with the wheel of `make wheel`.
"""

import json
import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from . import lerobot_rows, lerobot_tables
from .dataset import Feature
from .frame_stamps import STAMPS
from .guess import guess, some_of

#: Columns that say where a frame belongs.
PLACES = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Video:
    """Where the video of an episode is: the file, and the instant of its first frame there [s].

    If the dataset does not say the instant, `damage` says so: without it, the video would be that of another episode.
    """

    path: Path
    begin_s: float
    damage: str | None = None


@dataclass(frozen=True)
class Episode:
    """An episode, and the files that have it."""

    number: int
    length: int
    tasks: tuple[str, ...]
    table: Path
    videos: dict[str, Video] = field(default_factory=dict)

    @property
    def name(self):
        return f"episode_{self.number:06d}"


def recognises(root):
    """Whether the files at a path are a LeRobot dataset."""
    return (Path(root) / "meta/info.json").is_file()


class Dataset:
    """What `meta/` says of a dataset.

    Attributes:
        root: its folder.
        version: such as "v3.0".
        fps: frames per second.
        features: a dict by name of `Feature`, without `PLACES`, `STAMPS` and `gates`. The dtype and the names are those
            of `meta/info.json`.
        gates: a dict by feature of the columns that say which of its frames are valid.
        left_out: a dict by name of features that are neither numbers nor images, of gates, and of splits that are no range:
            why.
        misnamed: a dict by name of vectors whose elements have too few or too many names: how many.
        episodes: a list of `Episode`, in the order of their numbers.

    Raises:
        ValueError: it is no dataset of a known format.
        OSError: it cannot be read.
        ImportError: pyarrow is missing.
    """

    def __init__(self, root):
        self.root = Path(root)
        lerobot_tables.expect_pyarrow()
        info = self._info()
        self.version = str(info.get("codebase_version"))
        if self.version not in ("v2.0", "v2.1", "v3.0"):
            raise ValueError(
                f"{self.root}: expected a LeRobot dataset v2.0, v2.1 or v3.0, found {self.version}"
            )
        self.fps = info["fps"]
        if not isinstance(self.fps, (int, float)) or not 0 < self.fps < 1e6:
            raise ValueError(f"{self.root}: expected frames per second, found fps {self.fps!r}")
        self.features, self.left_out, self.misnamed = {}, {}, {}
        self.gates = lerobot_rows.gates(self.root, info["features"])
        for name, about in info["features"].items():
            if name in PLACES or name == STAMPS:
                continue
            if gated := [feature for feature, names in self.gates.items() if name in names]:
                self.left_out[name] = f"it says which frames of {', '.join(gated)} are valid"
                continue
            found = _feature(name, about, self.misnamed)
            if isinstance(found, Feature):
                self.features[name] = found
            else:
                self.left_out[name] = found
        # Of the columns, those of the table. A dataset may lack the column of tasks.
        self.columns = [n for n, about in info["features"].items() if about["dtype"] != "video"]
        self._tables = lerobot_tables.Tables()
        is_v3 = self.version == "v3.0"
        self.episodes = self._episodes_v3(info) if is_v3 else self._episodes_v2(info)
        self.splits = self._find_splits(info.get("splits") or {})

    @classmethod
    def opened(cls, root, mapping):
        """A dataset. It needs no mapping: `meta/info.json` says what its features are."""
        if mapping is not None:
            raise ValueError(
                f"{root}: expected no --mapping, because a LeRobot dataset says itself what it has, found {mapping}"
            )
        return cls(root)

    @classmethod
    def draft(cls, root):
        """Raises ValueError: there is no mapping."""
        raise ValueError(
            f"{root}: expected a dataset that needs a mapping, found a LeRobot dataset: --write-config writes a configuration"
        )

    @property
    def has_stamps(self):
        """True if the frames have stamps of their own, rather than those of evenly spaced frames."""
        return STAMPS in self.columns

    @property
    def stamps(self):
        """A sentence: which stamps the frames get."""
        if self.has_stamps:
            lags = lerobot_rows.lags_ms(self.root).items()
            told = ", ".join(f"{name} {lag_ms:g} ms" for name, lag_ms in lags if lag_ms > 0)
            taken = (
                f"; observations have the lag of the export already ({told}), so write no lag_ms"
            )
            return f"stamps: the column {STAMPS}" + (taken if told else "")
        return (
            f"stamps: frame k is at tick k + 1 of {self.fps:g} Hz, as the dataset has no column {STAMPS}; if an "
            "episode's frames are uneven, one period after its timestamps"
        )

    def _find_splits(self, ranges):
        """The names of the episodes of each split that is a range of numbers, such as `0:50`. Others are left out."""
        found = {}
        for name, text in ranges.items():
            first, _, end = str(text).partition(":")
            if first.isdecimal() and end.isdecimal():
                numbers = range(int(first), int(end))
                found[str(name)] = [each.name for each in self.episodes if each.number in numbers]
            else:
                self.left_out[f"split {name}"] = (
                    f"expected a range of episodes such as 0:50, found {text!r}"
                )
        return found

    @cached_property
    def guessed(self):
        """By feature a guess of what its elements are, by their names, by some episodes and by the statistics of the dataset."""
        vectors = [
            each
            for each in self.features.values()
            if each.kind == "vector" and each.dtype.startswith("float")
        ]
        if not vectors:
            return {}
        values = self._values_of([each.name for each in vectors])
        bounds = lerobot_tables.bounds(self.root)
        found = {}
        for each in vectors:
            of_all = bounds.get(each.name)
            if of_all is not None and of_all.shape != (2, len(each.names)):
                of_all = None
            found[each.name] = guess(each.name, each.names, values[each.name], of_all)
        return {name: each for name, each in found.items() if each is not None}

    def _values_of(self, names):
        """By feature the valid rows of some episodes that can be read: a list of [frames, elements]."""
        found = {name: [] for name in names}
        for episode in some_of(self.episodes):
            try:
                columns = self.numbers(episode, names)
                valid = {name: lerobot_rows.valid(self, episode, name) for name in names}
            except (ValueError, OSError):
                continue
            for name, own in found.items():
                rows = columns[name].reshape(len(columns[name]), -1)
                own.append(rows if valid[name] is None else rows[valid[name]])
        return found

    def expect_packages(self):
        """Raises ImportError if there are videos and no PyAV."""
        if not self._videos():
            return
        try:
            import av  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "expected PyAV: pip install 'dist/WHEEL.whl[import]', with the wheel of `make wheel` "
                f"({error})"
            ) from error

    def recording(self, topics, episode, *, tolerance_s, threads):
        """An episode as a recording. `lerobot_recording.Recording` has the arguments."""
        from .lerobot_recording import Recording

        return Recording(self, topics, episode, tolerance_s=tolerance_s, threads=threads)

    def _info(self):
        path = self.root / "meta/info.json"
        if not path.is_file():
            raise ValueError(
                f"{self.root}: expected a folder of a LeRobot dataset, found no meta/info.json. If it is on "
                "the Hugging Face Hub, download it first: "
                "hf download --repo-type dataset REPOSITORY --local-dir FOLDER"
            )
        try:
            info = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: expected the JSON of a LeRobot dataset, found {error}"
            ) from None
        _check_info(path, info)
        return info

    def _path(self, info, key, **place):
        """A file of the dataset, by the pattern that `meta/info.json` has for it."""
        pattern = info.get(key)
        try:
            if not _is_pattern(pattern, place):
                raise ValueError
            path = Path(pattern.format(**place))
        except ValueError:
            raise ValueError(
                f"{self.root}/meta/info.json: expected in {key!r} a pattern with {', '.join(place)}, found "
                f"{pattern!r}"
            ) from None
        # A dataset of someone else must not name a file elsewhere.
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"{self.root}/meta/info.json: expected in {key!r} a file of the dataset, found {str(path)!r}"
            )
        return self.root / path

    def _videos(self):
        return [name for name, each in self.features.items() if each.kind == "video"]

    def _episodes_v2(self, info):
        path = self.root / "meta/episodes.jsonl"
        found = []
        for line in _lines(path, "episode_index", "length"):
            number, length, tasks = _episode(path, line)
            place = {
                "episode_chunk": number // info.get("chunks_size", 1000),
                "episode_index": number,
            }
            videos = {
                key: Video(self._path(info, "video_path", video_key=key, **place), 0.0)
                for key in self._videos()
            }
            table = self._path(info, "data_path", **place)
            found.append(Episode(number, length, tasks, table, videos))
        return sorted(found, key=lambda episode: episode.number)

    def _episodes_v3(self, info):
        from pyarrow import parquet

        videos = self._videos()
        of_video = ("chunk_index", "file_index", "from_timestamp")
        wanted = ["episode_index", "length", "tasks", "data/chunk_index", "data/file_index"]
        wanted += [f"videos/{key}/{each}" for key in videos for each in of_video]
        found = []
        for path in sorted((self.root / "meta/episodes").rglob("*.parquet")):
            with lerobot_tables.Damage(path), parquet.ParquetFile(path) as file:
                known = file.schema_arrow.names
                if missing := [name for name in wanted[:3] if name not in known]:
                    raise ValueError(f"{path}: expected a column {missing[0]!r}, found none")
                # An episode without a camera says so when it is read.
                table = file.read(columns=[name for name in wanted if name in known])
            for row in table.to_pylist():
                found.append(self._episode_v3(info, path, row, videos))
        return sorted(found, key=lambda episode: episode.number)

    def _episode_v3(self, info, path, row, videos):
        def file(pattern, key, **more):
            """The file in the columns `key/...`; None if they have no value."""
            chunk, number = row.get(f"{key}/chunk_index"), row.get(f"{key}/file_index")
            if chunk is None or number is None:
                return None
            place = {"chunk_index": int(chunk), "file_index": int(number), **more}
            return self._path(info, pattern, **place)

        number, length, tasks = _episode(path, row)
        of_videos = {}
        for key in videos:
            video = file("video_path", f"videos/{key}", video_key=key)
            if video is not None:
                of_videos[key] = _video(video, path, key, number, row)
        table = file("data_path", "data")
        if table is None:
            raise ValueError(f"{self.root}: expected the table of episode {number}, found none")
        return Episode(number, length, tasks, table, of_videos)

    @cached_property
    def tasks(self):
        """The names of tasks by their numbers; empty if the dataset has no table of them.

        Raises ValueError if the table is damaged.
        """
        is_v3 = self.version == "v3.0"
        path = self.root / ("meta/tasks.parquet" if is_v3 else "meta/tasks.jsonl")
        if not path.is_file():
            return {}
        lines = lerobot_tables.tasks(path) if is_v3 else _lines(path, "task_index", "task")
        try:
            return {int(line["task_index"]): str(line["task"]) for line in lines}
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path}: expected numbers of tasks, found others ({error})") from None

    @cached_property
    def task_numbers(self):
        """The numbers of tasks by their names. Raises as `tasks`."""
        return {task: number for number, task in self.tasks.items()}

    def numbers(self, episode, columns):
        """Columns of numbers of an episode, by name: a value for each frame, of vectors [frames, elements].

        Raises:
            ValueError: the table is damaged, lacks a column or frames, or a value has another shape.
            OSError: it cannot be read.
        """
        shapes = {name: self._shape(name) for name in columns}
        return self._tables.numbers(episode, shapes)

    def pictures(self, episode, names):
        """Yields for each frame of an episode the bytes of its pictures, in the order of `names`."""
        return lerobot_tables.pictures(episode, names)

    def _shape(self, name):
        """Of a vector; None of a column of plain numbers."""
        return self.features[name].shape if name in self.features else None


def _check_info(path, info):
    """Raises ValueError if `meta/info.json` has not the form that this module relies on."""

    def expect(place, found, what, fits):
        if not fits(found):
            raise ValueError(f"{path}: expected in {place} {what}, found {found!r:.100}")

    def is_shape(found):
        return found is None or (
            isinstance(found, list)
            and all(type(side) is int and 0 <= side < 1 << 31 for side in found)
        )

    def is_mapping(found):
        return isinstance(found, dict)

    expect("it", info, "a dataset", is_mapping)
    for key in ("codebase_version", "fps", "features"):
        if key not in info:
            raise ValueError(f"{path}: expected {key!r}, found none")
    expect("'features'", info["features"], "their names", is_mapping)
    for name, about in info["features"].items():
        expect(repr(name), about, "dtype and shape", is_mapping)
        expect(repr(name), about.get("dtype"), "a dtype", lambda found: isinstance(found, str))
        expect(repr(name), about.get("shape"), "a shape", is_shape)
        for key in ("info", "video_info"):
            expect(repr(name), about.get(key) or {}, f"{key} by names", is_mapping)
    chunk = info.get("chunks_size", 1000)
    expect("'chunks_size'", chunk, "a number", lambda found: type(found) is int and found > 0)
    expect("'splits'", info.get("splits") or {}, "ranges by names", is_mapping)


def _is_pattern(pattern, place):
    """Whether a pattern names only known fields, each with a width of one or two digits."""
    if not isinstance(pattern, str):
        return False
    fields = [field[1:] for field in string.Formatter().parse(pattern) if field[1] is not None]
    return all(
        name in place and not conversion and re.fullmatch(r"(0?\d{1,2})?d?", spec)
        for name, spec, conversion in fields
    )


def _episode(path, row):
    """The number, the length and the tasks of an episode."""
    number, length, tasks = row["episode_index"], row["length"], row.get("tasks") or []
    try:
        numbers = int(number), int(length)
    except (TypeError, ValueError, OverflowError):
        numbers = (-1, -1)
    if min(numbers) < 0 or not isinstance(tasks, list):
        raise ValueError(
            f"{path}: expected the number, the length and the tasks of an episode, found {number!r:.50}, "
            f"{length!r:.50} and {tasks!r:.50}"
        )
    return *numbers, tuple(map(str, tasks))


def _video(video, path, key, number, row):
    """The `Video` of an episode that shares its file with others."""
    begin_s = row.get(f"videos/{key}/from_timestamp")
    if isinstance(begin_s, (int, float)) and 0 <= begin_s < 1e9:
        return Video(video, float(begin_s))
    damage = (
        f"{path}: expected in 'videos/{key}/from_timestamp' the begin of episode {number} in its video [s], found "
        f"{begin_s!r}"
    )
    return Video(video, 0.0, damage)


def _lines(path, *keys):
    """The objects of a file of JSON lines, which must have these keys."""
    if not path.is_file():
        raise ValueError(f"{path}: expected a file of JSON lines, found none")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        missing = [
            key for key in keys for each in found if not isinstance(each, dict) or key not in each
        ]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected JSON lines, found {error}") from None
    if missing:
        raise ValueError(f"{path}: expected {missing[0]!r} in each line, found a line without")
    return found


def _feature(name, about, misnamed):
    """A feature as a `Feature`, or why it is left out. If its names do not fit, `misnamed` gets a line."""
    dtype, shape = str(about.get("dtype")), tuple(about.get("shape") or (1,))
    names = about.get("names")
    if dtype in ("video", "image"):
        more = {**(about.get("video_info") or {}), **(about.get("info") or {})}
        if more.get("video.is_depth_map") or more.get("is_depth_map"):
            return "depth in a video"
        if len(shape) != 3:
            raise ValueError(f"{name}: expected the shape of an image, found {list(shape)}")
        return Feature(name, dtype, "uint8", _height_and_width(shape, names), ())
    if not lerobot_tables.NUMBERS.fullmatch(dtype):
        return f"elements of {dtype}"
    if math.prod(shape) == 0:
        return "no elements"
    words, problem = _element_names(name, names, shape)
    if problem:
        misnamed[name] = problem
    return Feature(name, "vector", dtype, shape, words)


def _height_and_width(shape, names):
    """Of an image; its channels are first or last."""
    if isinstance(names, Sequence) and not isinstance(names, str) and len(names) == 3:
        words = [str(word).lower() for word in names]
        if "height" in words and "width" in words:
            return shape[words.index("height")], shape[words.index("width")]
    return tuple(shape[1:] if shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4) else shape[:2])


def _element_names(feature, names, shape):
    """The names of a vector's elements, and what does not fit; "" if all fits.

    An element without a name has its number as name. A single element is called as its feature is.
    """
    count = math.prod(shape)
    words = _flat(names, count)
    if len(words) != count and len(words) == len(shape):
        words = []  # the names of the axes
    named = sum(map(bool, words))
    # If there are more names than elements, it is unknown which of them have one.
    found = words if named <= count and len(words) <= count else []
    found = found + [""] * (count - len(found))
    often = {word: times for word, times in Counter(found).items() if word and times > 1}
    found = ["" if word in often else word for word in found]
    if not all(found):
        # A number is the name of its own element only.
        found = ["" if _is_other_number(word, at) else word for at, word in enumerate(found)]
    if named not in (0, count):
        problem = f"{named} names for {count} element{'s' * (count > 1)}"
    else:
        problem = "".join(
            f"{word!r} is the name of {often[word]} elements" for word in [*often][:1]
        )
    plain = [feature.split(".")[-1]] if count == 1 else [str(at) for at in range(count)]
    return tuple(word or number for word, number in zip(found, plain, strict=True)), problem


def _flat(names, count):
    """The names in the order of the elements, "" for one that is missing. Lists may be in lists, or in a dict."""
    if names is None:
        return []
    if isinstance(names, dict):
        places = list(names.values())
        if not all(isinstance(place, int) for place in places):
            return [word for each in places for word in _flat(each, count)]  # {"motors": [...]}
        if len(set(places)) == len(places) and all(0 <= place < count for place in places):
            by_place = {place: str(word) for word, place in names.items()}  # {"delta_x": 0, ...}
            return [by_place.get(at, "") for at in range(count)]
        return [str(word) for word in sorted(names, key=names.get)]
    if isinstance(names, (list, tuple)):
        return [word for each in names for word in ([""] if each is None else _flat(each, count))]
    return [str(names)]


def _is_other_number(word, at):
    return word.isdecimal() and word != str(at)
