"""One LeRobot dataset of those of shares, by LeRobot's own functions."""

import numpy as np


def aggregate(datasets, name, out):
    """Writes the dataset of these folders, in their order, to `out`.

    LeRobot 0.4 joins data files by pandas, which cannot join columns of arrays. So the rows are copied
    here; LeRobot's functions join episodes, videos and statistics.
    """
    import pandas as pd
    from lerobot.datasets import aggregate
    from lerobot.datasets.lerobot_dataset import LeRobotDatasetMetadata

    sources = [LeRobotDatasetMetadata(f"local/{root.name}", root=root) for root in datasets]
    fps, robot_type, features = aggregate.validate_all_metadata(sources)
    video_keys = sources[0].video_keys
    joined = LeRobotDatasetMetadata.create(
        name, fps, features, robot_type=robot_type, root=out, use_videos=bool(video_keys)
    )
    tasks = pd.concat([source.tasks for source in sources]).index.unique()
    joined.tasks = pd.DataFrame({"task_index": range(len(tasks))}, index=tasks)
    episodes_at, rows_at = {"chunk": 0, "file": 0}, {"chunk": 0, "file": 0}
    videos_at = {
        key: {"chunk": 0, "file": 0, "latest_duration": 0, "episode_duration": 0}
        for key in video_keys
    }
    chunk_size, video_mb = (joined.info[of] for of in ("chunks_size", "video_files_size_in_mb"))
    for source in sources:
        aggregate.aggregate_videos(source, joined, videos_at, video_mb, chunk_size)
        _copy_rows(source, joined, rows_at, chunk_size)
        aggregate.aggregate_metadata(source, joined, episodes_at, rows_at, videos_at)
        joined.info["total_episodes"] += source.total_episodes
        joined.info["total_frames"] += source.total_frames
    aggregate.finalize_aggregation(joined, sources)


def _copy_rows(source, joined, place, chunk_size):
    """Copies the data files of a dataset, with the numbers that their rows have in the joined one.

    Args:
        source, joined: the metadata of the dataset, and of the joined one so far.
        place: chunk and file of the newest data file. It gets the new place of each file of the dataset too.
        chunk_size: the greatest number of files in a chunk.
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


def _task_statistics(numbers):
    """The statistics of the numbers of tasks, per episode, as LeRobot's writer makes them."""
    from lerobot.datasets.compute_stats import get_feature_stats

    episodes, tasks = (numbers[name].to_numpy() for name in ("episode_index", "task_index"))
    starts = np.flatnonzero(np.diff(episodes)) + 1
    return [
        {"task_index": get_feature_stats(of_episode, axis=0, keepdims=True)}
        for of_episode in np.split(tasks, starts)
    ]
