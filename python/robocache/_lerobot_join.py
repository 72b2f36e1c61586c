"""One LeRobot dataset of those of shares, by LeRobot's own function."""

from unittest import mock

import numpy as np


def aggregate(datasets, name, out):
    """Writes the dataset of these folders, in their order, to `out`.

    LeRobot 0.4 joins data files by pandas, which cannot join columns of arrays. So the rows are copied
    here; episodes, tasks, videos and statistics are joined by LeRobot.
    """
    from lerobot.datasets import aggregate

    names = [f"local/{dataset.name}" for dataset in datasets]
    with mock.patch.object(aggregate, "aggregate_data", _copy_rows):
        aggregate.aggregate_datasets(names, name, roots=datasets, aggr_root=out)


def _copy_rows(source, joined, place, _size, chunk_size):
    """Copies the data files of a dataset, with the numbers that their rows have in the joined one.

    Args:
        source, joined: the metadata of the dataset, and of the joined one so far.
        place: chunk and file of the newest data file.
        chunk_size: the greatest number of files in a chunk.

    Returns `place`, also with the new place of each file of the dataset.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from lerobot.datasets.compute_stats import aggregate_stats
    from lerobot.datasets.utils import DEFAULT_DATA_PATH, update_chunk_file_indices

    def path(root, chunk, file):
        return root / DEFAULT_DATA_PATH.format(chunk_index=chunk, file_index=file)

    tasks = source.tasks.sort_values("task_index").index
    task_numbers = pa.array(joined.tasks.loc[tasks, "task_index"].tolist(), pa.int64())
    columns = (source.episodes["data/chunk_index"], source.episodes["data/file_index"])
    places, of_episodes = {}, []
    for chunk, file in sorted(set(zip(*columns, strict=True))):
        rows = pq.read_table(path(source.root, chunk, file))
        numbers = {
            "episode_index": pc.add(rows["episode_index"], joined.info["total_episodes"]),
            "index": pc.add(rows["index"], joined.info["total_frames"]),
            "task_index": pc.take(task_numbers, rows["task_index"].combine_chunks()),
        }
        for name, column in numbers.items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), column)
        if path(joined.root, place["chunk"], place["file"]).exists():
            newest = (place["chunk"], place["file"], chunk_size)
            place["chunk"], place["file"] = update_chunk_file_indices(*newest)
        to = path(joined.root, place["chunk"], place["file"])
        to.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, to)
        places[chunk, file] = place["chunk"], place["file"]
        of_episodes += _task_statistics(numbers)
    # LeRobot joins these statistics afterwards, as if the numbers had not changed.
    for name, before in (("episode_index", "total_episodes"), ("index", "total_frames")):
        stats = source.stats[name]
        moved = {key: stats[key] + joined.info[before] for key in stats.keys() - {"std", "count"}}
        stats.update(moved)
    source.stats.update(aggregate_stats(of_episodes))
    place["src_to_dst"] = places
    return place


def _task_statistics(numbers):
    """The statistics of the numbers of tasks, per episode, as LeRobot's writer makes them."""
    from lerobot.datasets.compute_stats import get_feature_stats

    episodes, tasks = (numbers[name].to_numpy() for name in ("episode_index", "task_index"))
    starts = np.flatnonzero(np.diff(episodes)) + 1
    return [
        {"task_index": get_feature_stats(of_episode, axis=0, keepdims=True)}
        for of_episode in np.split(tasks, starts)
    ]
