"""One LeRobot dataset of those of shares: the files are those that one process would have written."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .columns import valid_keys, with_marks
from .files import COUNTED, DATA, EPISODES, INFO, VIDEO, statistics_of_rows
from .stats import NAMES
from .video import episodes_of
from .writing import PIXELS


def aggregate(datasets, out, writer_of, columns):
    """Writes the dataset of these folders, in their order, to `out`, by a writer of the class `writer_of`. `columns` is what
    they say of them in `meta/robocache.json`. Returns the writer."""
    infos = [json.loads((root / INFO).read_text()) for root in datasets]
    # A mark may have been noted in some of them alone.
    of_all = [info["features"] for info in infos]
    for info in infos:
        info["features"] = with_marks(info["features"], of_all)
    info = infos[0]
    for root, other in zip(datasets, infos, strict=True):
        for name in ("fps", "robot_type", "features"):
            if other[name] != info[name]:
                raise ValueError(
                    f"{root}: expected {name} of {datasets[0]}, {info[name]}, found {other[name]}"
                )
    features = {key: of for key, of in info["features"].items() if key not in COUNTED}
    valid = {key: valid_keys(column["steps"]) for key, column in columns.items()}
    writer = writer_of(out, info["fps"], features, valid, info["robot_type"])
    for root in datasets:
        _append(writer, root, features)
        for key, counts in json.loads((root / PIXELS).read_text()).items():
            writer.pixels[key] += np.array(counts)
    writer.finish()
    return writer


def _append(writer, root, features):
    """Adds the episodes of a dataset."""
    episodes = [row for path in _paths(root, EPISODES) for row in pq.read_table(path).to_pylist()]
    row_groups = _row_groups(_paths(root, DATA))
    videos = {key: _videos(root, key, episodes) for key in writer.video_keys}
    for episode in episodes:
        counted = writer.begin(episode["length"], *episode["tasks"])
        for key, parts in videos.items():
            writer.add_video(key, *next(parts))
        start = 0
        while start < episode["length"]:
            rows = _with_columns(next(row_groups), writer.schema)
            stop = start + len(rows)
            for name, values in counted.items():
                at, values = rows.schema.get_field_index(name), pa.array(values[start:stop])
                rows = rows.set_column(at, rows.schema.field(at), values)
            writer.write(rows)
            start = stop
        writer.end({key: _statistics(episode, key) for key in features})


def _with_columns(rows, schema):
    """Rows with all columns of a schema. A mark that was not noted is 0 in each row."""
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field.name, pa.array(np.zeros(len(rows), np.float32)))
    # Where `datasets` is imported, arrays are of its type.
    return rows.select(schema.names).cast(schema)


def _statistics(episode, key):
    """The statistics of a column of an episode. A mark that was not noted has those of zeros."""
    if f"stats/{key}/min" not in episode:
        return statistics_of_rows(np.zeros((episode["length"], 1), np.float32))
    return {name: np.array(episode[f"stats/{key}/{name}"]) for name in NAMES}


def _paths(root, pattern):
    """The files of a kind, in their order."""
    folder, _, _ = pattern.partition("/chunk-")
    return sorted((root / folder).glob("*/*.parquet"), key=_place)


def _place(path):
    """The chunk and the file of a path."""
    return tuple(int(part.rpartition("-")[2]) for part in (path.parent.name, path.stem))


def _row_groups(paths):
    """Yields the row groups of files. Each row group is of one episode."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number)


def _videos(root, key, episodes):
    """Yields the stream and the packets of each episode's video."""
    place = [f"videos/{key}/{name}" for name in ("chunk_index", "file_index")]
    for (chunk, file), of_file in itertools.groupby(
        episodes, key=lambda episode: tuple(episode[name] for name in place)
    ):
        path = root / VIDEO.format(video_key=key, chunk_index=chunk, file_index=file)
        yield from episodes_of(path, [episode["length"] for episode in of_file])
