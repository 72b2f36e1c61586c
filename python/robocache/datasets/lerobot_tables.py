"""The tables of a LeRobot dataset, read with pyarrow."""

import collections
import json
import math
import os
import re
import threading

import numpy as np

#: The names of element types of numbers.
NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
#: Frames whose pictures are in memory at once.
_BLOCK = 16
#: Files whose numbers are kept.
_FILES = 4


def expect_pyarrow():
    """Raises ImportError, which says what to install."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "expected pyarrow and PyAV: pip install 'dist/WHEEL.whl[import]', with the wheel of `make wheel` "
            f"({error})"
        ) from error


class Damage:
    """Says which file pyarrow could not read."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _traceback):
        from pyarrow import ArrowException

        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(
                f"{self._path}: expected a Parquet file, found no such file"
            ) from None
        if isinstance(error, (ArrowException, OSError)):
            raise ValueError(
                f"{self._path}: expected a Parquet file, found damage: {error}"
            ) from None


class _Table:
    """An open Parquet file, closed at the end."""

    def __init__(self, path):
        from pyarrow import parquet

        with Damage(path):
            self._file = parquet.ParquetFile(path)
        self._damage = Damage(path)

    def __enter__(self):
        return self._file

    def __exit__(self, *raised):
        self._file.close()
        self._damage.__exit__(*raised)


def _read(path, columns):
    """Columns of a file, and `episode_index`."""
    with _Table(path) as file:
        _expect_columns(file, path, columns)
        return file.read(columns=list(dict.fromkeys(["episode_index", *columns])))


def _expect_columns(file, path, columns):
    missing = [name for name in columns if name not in file.schema_arrow.names]
    if missing:
        raise ValueError(f"{path}: expected a column {missing[0]!r}, found none")


def _groups(file, episode):
    """The row groups that may have frames of an episode, by their statistics."""
    metadata = file.metadata
    found = []
    for group in range(metadata.num_row_groups):
        known = None
        for at in range(metadata.num_columns):
            column = metadata.row_group(group).column(at)
            if column.path_in_schema == "episode_index":
                known = column.statistics
                break
        if known is None or not known.has_min_max or known.min <= episode <= known.max:
            found.append(group)
    return found


class Tables:
    """Columns of numbers of the files that were read last. A file may have thousands of episodes in one row group, which
    would be read again for each. LeRobot's files have 100 MB."""

    def __init__(self):
        self._lock = threading.Lock()
        self._files = collections.OrderedDict()

    def numbers(self, episode, shapes):
        """Columns of an episode, as of `Dataset.numbers`: by name the shape of a vector, or None for plain numbers."""
        columns, rows = self._file(episode.table).of(episode.number, shapes)
        _expect(len(rows), episode)
        where = f"{episode.table}: episode {episode.number}"
        is_run = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        found = {}
        for name, shape in shapes.items():
            column = columns[name]
            own = column.slice(rows[0], len(rows)) if is_run else column.take(rows)
            found[name] = _array(where, name, own, shape)
        return found

    def _file(self, path):
        with Damage(path):
            about = os.stat(path)
        key = path, about.st_size, about.st_mtime_ns
        with self._lock:
            file = self._files.setdefault(key, _Columns(path))
            self._files.move_to_end(key)
            while len(self._files) > _FILES:
                self._files.popitem(last=False)
        return file


class _Columns:
    """Columns of a file, read when they are first asked for."""

    def __init__(self, path):
        self._path, self._lock = path, threading.Lock()
        self._columns, self._episodes = {}, None

    def of(self, episode, names):
        """The columns, and the rows of an episode."""
        with self._lock:
            missing = [name for name in names if name not in self._columns]
            if missing or self._episodes is None:
                table = _read(self._path, missing)
                self._columns |= {name: table[name] for name in missing}
                self._episodes = table["episode_index"].to_numpy()
            columns = {name: self._columns[name] for name in names}
        return columns, np.flatnonzero(self._episodes == episode)


def tasks(path):
    """The rows of a table of tasks, v3.0: dicts of `task_index` and `task`.

    Raises ValueError if it has not these columns.
    """
    with _Table(path) as file:
        names = file.schema_arrow.names
        # The table is that of a data frame whose index has the names.
        texts = [name for name in names if name != "task_index"][:1]
        if "task_index" not in names or not texts:
            raise ValueError(f"{path}: expected columns of tasks and their numbers, found {names}")
        table = file.read(columns=["task_index", *texts])
    pairs = zip(table["task_index"].to_pylist(), table[texts[0]].to_pylist(), strict=True)
    return [{"task_index": number, "task": task} for number, task in pairs]


def pictures(episode, names):
    """Yields for each frame of an episode the bytes of its pictures, in the order of `names`.

    The table is read block by block.
    """
    with _Table(episode.table) as file:
        _expect_columns(file, episode.table, names)
        groups = _groups(file, episode.number)
        columns = [f"{name}.{part}" for name in names for part in ("bytes", "path")]
        columns = ["episode_index", *columns]
        for batch in file.iter_batches(_BLOCK, row_groups=groups, columns=columns):
            numbers = batch["episode_index"].to_numpy(zero_copy_only=False)
            for at in np.flatnonzero(numbers == episode.number).tolist():
                yield [_picture(episode, name, batch[name][at]) for name in names]


def _picture(episode, name, value):
    found = value.as_py() or {}
    if found.get("bytes"):
        return found["bytes"]
    path = found.get("path")
    raise ValueError(
        f"{episode.table}: expected the bytes of a picture in {name!r} for every frame of episode {episode.number}, "
        f"found {f'only the path {path!r}' if path else 'none'}"
    )


def _expect(frames, episode):
    if frames != episode.length:
        raise ValueError(
            f"{episode.table}: expected {episode.length} frames of episode {episode.number}, found "
            f"{frames}"
        )


def _array(where, name, column, shape):
    """The values of a column; those of vectors flattened."""
    from pyarrow import compute, types

    where, frames = f"{where}: column {name!r}", len(column)
    values = column.combine_chunks()
    values = getattr(values, "storage", values)  # Array2D of the package `datasets`
    nulls = values.null_count
    while _is_list(types, values.type):
        values = compute.list_flatten(values)
        nulls += values.null_count
    if nulls:
        raise ValueError(f"{where}: expected a value for every frame, found {nulls} without")
    if not NUMBERS.fullmatch(_dtype(values.type)):
        raise ValueError(f"{where}: expected numbers, found {values.type}")
    array = values.to_numpy(zero_copy_only=False)
    elements = math.prod(shape or (1,))
    if len(array) != frames * elements:
        raise ValueError(
            f"{where}: expected the shape {list(shape or (1,))} of meta/info.json in every frame, found "
            f"{len(array)} numbers in {frames} frames"
        )
    return array if shape is None else array.reshape(frames, elements)


def _is_list(types, kind):
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _dtype(kind):
    """The name that NumPy has for an element type of Arrow."""
    names = {"halffloat": "float16", "float": "float32", "double": "float64"}
    return names.get(str(kind), str(kind))


def bounds(root):
    """By feature the least and the greatest value of each element in a dataset, [2, elements]: those of `meta/stats.json`
    or, in v2.1, of `meta/episodes_stats.jsonl`. Empty if neither can be read."""
    try:
        texts = [(root / "meta/stats.json").read_text(encoding="utf-8")]
    except (OSError, ValueError):
        texts = []
    found = {}
    try:
        if texts:
            parts = [json.loads(texts[0])]
        else:
            lines = (root / "meta/episodes_stats.jsonl").read_text(encoding="utf-8").splitlines()
            parts = [json.loads(line)["stats"] for line in lines if line.strip()]
        for part in parts:
            for name, of in part.items():
                if isinstance(of, dict) and {"min", "max"} <= of.keys():
                    found.setdefault(name, []).append(
                        [np.array(of[key], np.float64).reshape(-1) for key in ("min", "max")]
                    )
        return {
            name: np.array([np.fmin.reduce(low), np.fmax.reduce(high)])
            for name, of in found.items()
            for low, high in [zip(*of, strict=True)]
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
