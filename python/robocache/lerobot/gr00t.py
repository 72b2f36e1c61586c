"""The layout that the loader of Isaac-GR00T reads: a LeRobot dataset v2.1 with `meta/modality.json`.

Each episode has a table and videos of its own. `meta/modality.json` says which elements of a column are which part of the
robot; here each stream is a part. docs/lerobot.md says which loaders were read.
"""

import json

from ..node.whole import write
from .files import CHUNK_FILES, INFO, DatasetWriter

MODALITY = "meta/modality.json"
#: The statistics that the loader knows. It takes the elements of a part from each of them, so `count` must not be there.
_STATISTICS = ("mean", "std", "min", "max", "q01", "q99")
#: The statistics of an episode, as LeRobot 0.3 has them.
_OF_EPISODES = ("min", "max", "mean", "std", "count")
_ACTION, _IMAGE = "action", "observation.images."


class _EachEpisode:
    """Each episode begins a file."""

    def __init__(self):
        self._number = -1

    def begins(self, frames, size, more, must=False):
        self._number += 1
        return True

    @property
    def place(self):
        """The chunk, and the number of the episode."""
        return self._number // CHUNK_FILES, self._number


class Gr00tWriter(DatasetWriter):
    """Writes a dataset in this layout. `write_modality` adds the rest."""

    DATA = "data/chunk-{chunk_index:03d}/episode_{file_index:06d}.parquet"
    VIDEO = "videos/chunk-{chunk_index:03d}/{video_key}/episode_{file_index:06d}.mp4"
    #: The name of `datasets` up to 3.6, which LeRobot of v2.1 and openpi have. Later ones read it, too.
    LIST = "Sequence"
    info = {
        "codebase_version": "v2.1",
        "chunks_size": CHUNK_FILES,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }

    def rolling(self, limit_mb):
        return _EachEpisode()

    def episode_files(self, root, features):
        return _EpisodeLines(root)

    def write_tasks(self, root, tasks):
        lines = [{"task_index": number, "task": text} for text, number in tasks.items()]
        _write_lines(root / "meta/tasks.jsonl", lines)

    def statistics_of(self, statistics):
        videos = set(self.video_keys)
        return {
            key: {name: of[name] for name in _STATISTICS}
            for key, of in statistics.items()
            if key not in videos
        }

    def _about(self):
        about = super()._about()
        chunks = -(-about["total_episodes"] // CHUNK_FILES)
        videos = about["total_episodes"] * len(self.video_keys)
        return {**about, "total_chunks": chunks, "total_videos": videos}


class _EpisodeLines:
    """The files `meta/episodes.jsonl` and `meta/episodes_stats.jsonl`: a line for each episode."""

    def __init__(self, root):
        self._episodes = (root / "meta/episodes.jsonl").open("w", encoding="utf-8")
        self._statistics = (root / "meta/episodes_stats.jsonl").open("w", encoding="utf-8")

    def add(self, episode, statistics):
        number = episode["episode_index"]
        line = {name: episode[name] for name in ("episode_index", "tasks", "length")}
        self._episodes.write(json.dumps(line, ensure_ascii=False) + "\n")
        of_episode = {
            key: {name: of[name].tolist() for name in _OF_EPISODES}
            for key, of in statistics.items()
        }
        line = {"episode_index": number, "stats": of_episode}
        self._statistics.write(json.dumps(line) + "\n")

    def close(self):
        self._episodes.close()
        self._statistics.close()


def _write_lines(path, lines):
    path.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8"
    )


def write_modality(root, columns):
    """Writes `meta/modality.json` of a dataset.

    Args:
        root: its folder.
        columns: by column the steps of its streams and the names of its elements, as in `meta/robocache.json`.

    Raises ValueError if the dataset has not what the loader needs.
    """
    features = json.loads((root / INFO).read_text())["features"]
    write(root / MODALITY, json.dumps(modality(columns, features), indent=4) + "\n")


def modality(columns, features):
    """What `meta/modality.json` has.

    Raises ValueError if there is no state, no action or no video.
    """
    found = {"state": {}, "action": {}, "video": {}}
    for key, column in columns.items():
        feature = features[key]
        if feature["dtype"] == "video":
            found["video"][key.removeprefix(_IMAGE)] = {"original_key": key}
        elif feature["dtype"] == "float32" and len(feature["shape"]) == 1:
            found["action" if key == _ACTION else "state"] |= _parts(key, column, feature)
    for kind, option in (
        ("state", "--state"),
        ("action", "--action"),
        ("video", "an image stream"),
    ):
        if not found[kind]:
            raise ValueError(
                f"--layout gr00t: expected columns of state, action and video, found no {kind}: give {option}"
            )
    annotation = {"human.task_description": {"original_key": "task_index"}}
    return {**found, "annotation": annotation}


def _parts(key, column, feature):
    """The streams of a column: their elements, from `start` up to `end`."""
    streams, size = list(column["steps"]), feature["shape"][0]
    if len(streams) == 1:
        return {streams[0]: _part(key, 0, size)}
    found, at = {}, 0
    for stream in streams:
        count = sum(name.startswith(f"{stream}.") for name in column["names"])
        found[stream] = _part(key, at, at + count)
        at += count
    return found


def _part(key, start, end):
    return {"original_key": key, "start": start, "end": end, "dtype": "float32"}
