"""The files of a LeRobot dataset, format v3.0: rows in Parquet files, videos, and what `meta` says of them.

An episode's rows are a row group, or several if they are large. A file has whole episodes.
"""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .quantiles import of_counts, of_table
from .stats import NAMES, QUANTILES, Rows, Total
from .video import VideoFiles

_MIB = 1 << 20
#: The most files of a folder, and the sizes at which another file begins, in MiB. info.json says them too.
CHUNK_FILES, DATA_MB, VIDEO_MB = 1000, 100, 200
_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA = f"data/{_FILE}.parquet"
VIDEO = f"videos/{{video_key}}/{_FILE}.mp4"
EPISODES = f"meta/episodes/{_FILE}.parquet"
INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
#: The columns that every dataset has. The writer makes them.
COUNTED = {
    name: {"dtype": dtype, "shape": (1,), "names": None}
    for name, dtype in {
        "timestamp": "float32",
        "frame_index": "int64",
        "episode_index": "int64",
        "index": "int64",
        "task_index": "int64",
    }.items()
}
#: Rows of `meta/episodes` that are written at once.
_EPISODES_AT_ONCE = 64


class Rolling:
    """Says when another file begins: before it would be larger than a limit, if the next episode's frames are as large
    as those before. That depends on the episodes alone, so datasets of shares join to the files of one process."""

    def __init__(self, limit_mb):
        self._limit = limit_mb * _MIB
        self._number = -1

    def begins(self, frames, size, more, must=False):
        """Whether an episode of `more` frames begins a file. The newest file has `frames` frames and `size` bytes. If
        `must` is true, the episode does not fit into that file."""
        is_full = frames and size * (1 + more / frames) >= self._limit
        if self._number < 0 or is_full or must:
            self._number += 1
            return True
        return False

    @property
    def place(self):
        """The chunk and the file."""
        return divmod(self._number, CHUNK_FILES)


class RowFiles:
    """Parquet files, each with whole episodes.

    Attributes:
        paths: of the files.
    """

    def __init__(self, root, path, schema, rolling):
        self.paths = []
        self._root, self._path, self.schema = root, path, schema
        self._rolling = rolling
        self._file = self._writer = None
        self._frames = 0

    def begin(self, frames):
        """Begins an episode of `frames` frames. Returns its chunk and its file."""
        size = 0 if self._file is None else self._file.tell()
        if self._rolling.begins(self._frames, size, frames):
            self.close()
            chunk, file = self._rolling.place
            path = self._root / self._path.format(chunk_index=chunk, file_index=file)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.paths.append(path)
            self._file = path.open("wb")
            self._writer = pq.ParquetWriter(self._file, self.schema, compression="snappy")
        self._frames += frames
        return self._rolling.place

    def write(self, rows):
        """Writes a table as a row group."""
        self._writer.write_table(rows.combine_chunks())

    def close(self):
        """Completes the newest file."""
        if self._writer is not None:
            self._writer.close()
            self._file.close()
        self._file = self._writer = None
        self._frames = 0


class DatasetWriter:
    """Writes a dataset, episode by episode: `begin`, `write`, `add_video` for each video, `end`. At last `finish`.

    A subclass has another layout: other paths, and other files in `meta`.

    Attributes:
        schema: of the rows. `table_of` makes them.
        video_keys: the columns that are videos.
        pixels: by column of images how many of the pixels that its statistics are of have each of the values 0..255
            [channel, value].
        info: what info.json says of the layout: its version and the patterns of paths.
    """

    #: Paths of files, with the fields `chunk_index`, `file_index` and, for videos, `video_key`.
    DATA, VIDEO = DATA, VIDEO
    #: What the library `datasets` calls a list of numbers.
    LIST = "List"
    info = {
        "codebase_version": "v3.0",
        "chunks_size": CHUNK_FILES,
        "data_files_size_in_mb": DATA_MB,
        "video_files_size_in_mb": VIDEO_MB,
        "data_path": DATA,
        "video_path": VIDEO,
    }

    def __init__(self, root, fps, features, valid, robot_type=None):
        """
        Args:
            root: the folder, which must not exist.
            fps: frames per second.
            features: a dict of column to dtype, shape and names, and of a video also info, as in info.json.
            valid: a dict of column to the names of the columns that say which of its values are valid.
            robot_type: what info.json says of the robot.
        """
        self._root, self._fps, self._robot_type = root, fps, robot_type
        self._features, self._valid = {**features, **COUNTED}, valid
        self.video_keys = [key for key, of in features.items() if of["dtype"] == "video"]
        self.schema = schema_of(self._features, self.LIST)
        (root / "meta").mkdir(parents=True)
        self._rows = RowFiles(root, self.DATA, self.schema, self.rolling(DATA_MB))
        self._videos = {key: self._video_files(key) for key in self.video_keys}
        self._episodes = self.episode_files(root, self._features)
        self._tasks, self._total = {}, Total()
        self.pixels = {
            key: np.zeros((3, 256), np.int64)
            for key, of in features.items()
            if of["dtype"] in ("image", "video")
        }
        self._number = self._frames = 0
        self._episode = self._counted = None

    def begin(self, frames, task):
        """Begins an episode. Returns the columns of `COUNTED` of it, as arrays."""
        chunk, file = self._rows.begin(frames)
        numbers = np.arange(frames)
        self._counted = {
            "timestamp": (numbers / self._fps).astype(np.float32),
            "frame_index": numbers,
            "episode_index": np.full(frames, self._number),
            "index": self._frames + numbers,
            "task_index": np.full(frames, self._tasks.setdefault(task, len(self._tasks))),
        }
        self._episode = {
            "episode_index": self._number,
            "tasks": [task],
            "length": frames,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + frames,
        }
        return self._counted

    def write(self, rows):
        """Writes rows of the episode, a table of the schema."""
        self._rows.write(rows)

    def add_video(self, key, stream, packets):
        """Adds the episode's packets of a video."""
        place = self._videos[key].append(stream, packets, self._episode["length"])
        self._episode.update({f"videos/{key}/{name}": value for name, value in place.items()})

    def end(self, statistics, pixels=None):
        """Ends the episode: a dict of column to statistics, of all columns but those of `COUNTED`; and what the episode adds
        to `pixels`."""
        counted = {key: statistics_of_rows(values) for key, values in self._counted.items()}
        statistics = {
            **{key: statistics[key] for key in self._features if key in statistics},
            **counted,
        }
        for key, counts in (pixels or {}).items():
            self.pixels[key] += counts
        self._total.add(statistics)
        self._episodes.add(self._episode, statistics)
        self._number += 1
        self._frames += self._episode["length"]

    def finish(self):
        """Completes all files."""
        self._rows.close()
        for files in self._videos.values():
            files.close()
        self._episodes.close()
        self.write_tasks(self._root, self._tasks)
        statistics = self._total.result(self._quantiles())
        contents = {STATS: self.statistics_of(statistics), INFO: self._about()}
        for name, content in contents.items():
            (self._root / name).write_text(json.dumps(content, indent=4) + "\n")

    def _quantiles(self):
        """By column the quantiles of all its valid values; of images, those of the pixels that count."""
        shares = list(QUANTILES.values())
        numbers = {key: of for key, of in self._features.items() if key not in self.pixels}
        found = of_table(self._rows.paths, numbers, self._valid, shares)
        for key, counts in self.pixels.items():
            of_channels = [of_counts(channel, shares) for channel in counts]
            found[key] = np.stack(of_channels, axis=1).reshape(-1, 3, 1, 1) / 255
        return found

    def rolling(self, limit_mb):
        """What says when another file begins."""
        return Rolling(limit_mb)

    def episode_files(self, root, features):
        """What writes the files about episodes: `add(episode, statistics)` and `close()`."""
        return _EpisodeFiles(root, features)

    def write_tasks(self, root, tasks):
        """Writes the file of the tasks: a dict by text of numbers."""
        pq.write_table(_tasks(tasks), root / TASKS)

    def statistics_of(self, statistics):
        """What `meta/stats.json` has of the statistics by column."""
        return statistics

    def _about(self):
        """What info.json says."""
        return {
            **self.info,
            "robot_type": self._robot_type,
            "total_episodes": self._number,
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "fps": self._fps,
            "splits": {"train": f"0:{self._number}"},
            "video_path": self.info["video_path"] if self.video_keys else None,
            "features": self._features,
        }

    def _video_files(self, key):
        def path_of(chunk, file):
            return self._root / self.VIDEO.format(video_key=key, chunk_index=chunk, file_index=file)

        return VideoFiles(path_of, self._fps, self.rolling(VIDEO_MB))


class _EpisodeFiles:
    """The files of `meta/episodes`: a row for each episode, with its statistics."""

    def __init__(self, root, features):
        schema = _schema_of_episodes(features)
        self._files = RowFiles(root, EPISODES, schema, Rolling(DATA_MB))
        self._waiting = []

    def add(self, episode, statistics):
        if not self._waiting:
            self._place = self._files.begin(_EPISODES_AT_ONCE)
        row = dict(episode)
        for key, stats in statistics.items():
            row |= {f"stats/{key}/{name}": np.asarray(stats[name]).tolist() for name in NAMES}
        row["meta/episodes/chunk_index"], row["meta/episodes/file_index"] = self._place
        self._waiting.append(row)
        if len(self._waiting) == _EPISODES_AT_ONCE:
            self._write()

    def close(self):
        if self._waiting:
            self._write()
        self._files.close()

    def _write(self):
        self._files.write(pa.Table.from_pylist(self._waiting, self._files.schema))
        self._waiting = []


def schema_of(features, list_type="List"):
    """The schema of the rows, which the library `datasets` understands. It calls a list of numbers `list_type`."""
    stored = {key: of for key, of in features.items() if of["dtype"] != "video"}
    fields = [pa.field(key, _type(of), metadata=_extension(of)) for key, of in stored.items()]
    said = {"info": {"features": {key: _hugging_face(of, list_type) for key, of in stored.items()}}}
    return pa.schema(fields, {"huggingface": json.dumps(said)})


def table_of(schema, features, values):
    """A table of rows.

    Args:
        schema: of `schema_of`.
        features: as of `DatasetWriter`.
        values: a dict of column to an array [row, ...]; of an image to the pair of its names and its PNG files.
    """
    columns = []
    for field in schema:
        feature = features.get(field.name) or COUNTED[field.name]
        columns.append(_column(field.type, feature, values[field.name]))
    return pa.Table.from_arrays(columns, schema=schema)


def _column(kind, feature, values):
    if feature["dtype"] == "image":
        names, files = values
        return pa.StructArray.from_arrays([pa.array(files), pa.array(names)], fields=list(kind))
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    shape = tuple(feature["shape"])
    if shape == (1,):
        return flat
    if len(shape) == 1:
        return pa.FixedSizeListArray.from_arrays(flat, shape[0])
    rows = len(values)
    for axis in reversed(range(len(shape))):
        lists = rows * math.prod(shape[:axis])
        flat = pa.ListArray.from_arrays(np.arange(lists + 1, dtype=np.int32) * shape[axis], flat)
    return flat


def _type(feature):
    if feature["dtype"] == "image":
        return pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    kind, shape = pa.from_numpy_dtype(np.dtype(feature["dtype"])), tuple(feature["shape"])
    if shape == (1,):
        return kind
    if len(shape) == 1:
        return pa.list_(kind, shape[0])
    for _ in shape:
        kind = pa.list_(kind)
    return kind


def _hugging_face(feature, list_type):
    """What the library `datasets` calls a column."""
    dtype, shape = feature["dtype"], tuple(feature["shape"])
    if dtype == "image":
        return {"_type": "Image"}
    value = {"dtype": dtype, "_type": "Value"}
    if shape == (1,):
        return value
    if len(shape) == 1:
        return {"feature": value, "length": shape[0], "_type": list_type}
    return {"shape": list(shape), "dtype": dtype, "_type": f"Array{len(shape)}D"}


def _extension(feature):
    """What marks a column of arrays in a Parquet file, so that `datasets` reads arrays of one shape."""
    if feature["dtype"] == "image" or len(feature["shape"]) == 1:
        return None
    kind = f"datasets.features.features.Array{len(feature['shape'])}DExtensionType"
    about = json.dumps([list(feature["shape"]), feature["dtype"]])
    return {"ARROW:extension:name": kind, "ARROW:extension:metadata": about}


def _schema_of_episodes(features):
    number, seconds = pa.int64(), pa.float64()
    fields = {"episode_index": number, "tasks": pa.list_(pa.string()), "length": number}
    names = ("data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index")
    fields |= dict.fromkeys(names, number)
    for key in (key for key, of in features.items() if of["dtype"] == "video"):
        fields |= {f"videos/{key}/{name}": number for name in ("chunk_index", "file_index")}
        fields |= {f"videos/{key}/{name}": seconds for name in ("from_timestamp", "to_timestamp")}
    for key, feature in features.items():
        kind = pa.list_(seconds)
        if feature["dtype"] in ("image", "video"):
            kind = pa.list_(pa.list_(kind))
        fields |= {
            f"stats/{key}/{name}": pa.list_(number) if name == "count" else kind for name in NAMES
        }
    fields |= dict.fromkeys(("meta/episodes/chunk_index", "meta/episodes/file_index"), number)
    return pa.schema(list(fields.items()))


def _tasks(tasks):
    """The table of the tasks, whose index pandas finds in their names."""
    table = pa.table({"task_index": pa.array(tasks.values(), pa.int64()), "task": list(tasks)})
    columns = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": stored,
            "metadata": None,
        }
        for name, kind, stored in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    index = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}
    said = {
        "index_columns": ["task"],
        "column_indexes": [{**index, "metadata": {"encoding": "UTF-8"}}],
        "columns": columns,
        "creator": {"library": "pyarrow", "version": pa.__version__},
    }
    return table.replace_schema_metadata({"pandas": json.dumps(said)})


def statistics_of_rows(values):
    """The statistics of the numbers of an episode by name."""
    rows = Rows()
    rows.measure(values)
    rows.count(values)
    return rows.result()
