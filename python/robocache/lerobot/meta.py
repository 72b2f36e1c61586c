"""What LeRobot's policies ask of a dataset before they see an item: features, statistics, episodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Meta"]

#: A nested dict: by key of an item, by name of a statistic.
Stats = dict[str, dict[str, np.ndarray]]


class Meta:
    """Facts of a dataset, named as in LeRobot's metadata.

    Attributes:
        fps: frames per second.
        features: by key of an item a dict with `dtype`, `shape` (a tuple) and `names`.
        tasks: the text of each task by its number.
        episodes: a dict of lists, an entry for each episode: `episode_index`, `length`, `tasks`, `dataset_from_index` and
            `dataset_to_index`.
        robot_type: None if it is unknown.
        root: the folder or the store.
    """

    def __init__(
        self,
        root: Any,
        fps: float,
        features: Mapping[str, Mapping[str, Any]],
        tasks: Mapping[int, str],
        episodes: Mapping[str, list[Any]],
        stats: Callable[[], Stats],
        robot_type: str | None = None,
    ) -> None:
        self.root, self.fps, self.robot_type = root, fps, robot_type
        self.features = {key: {**of, "shape": tuple(of["shape"])} for key, of in features.items()}
        self.tasks, self.episodes = dict(tasks), dict(episodes)
        self._stats: Stats | Callable[[], Stats] = stats
        self._replaced: dict[str, Callable[[], dict[str, np.ndarray]]] = {}

    @property
    def stats(self) -> Stats:
        """By key of an item: `min`, `max`, `mean`, `std`, `count` and quantiles. Of a store they are computed when they are
        first asked for."""
        if callable(self._stats):
            self._stats = self._stats()
        for key in list(self._replaced):
            self._stats[key] = self._replaced.pop(key)()
        return self._stats

    @stats.setter
    def stats(self, stats: Stats) -> None:
        self._stats = stats

    def replace_stats(self, key: str, of_key: Callable[[], dict[str, np.ndarray]]) -> None:
        """Replaces the statistics of a key by others, which are computed when any are asked for."""
        self._replaced[key] = of_key

    def _of(self, *kinds: str) -> list[str]:
        return [key for key, of in self.features.items() if of["dtype"] in kinds]

    @property
    def video_keys(self) -> list[str]:
        """The cameras whose frames are in videos."""
        return self._of("video")

    @property
    def image_keys(self) -> list[str]:
        """The cameras whose frames are in tables, or in a store."""
        return self._of("image")

    @property
    def camera_keys(self) -> list[str]:
        """All cameras."""
        return self._of("video", "image")

    @property
    def depth_keys(self) -> list[str]:
        """Cameras of depth: none, because items have no depth."""
        return []

    @property
    def has_language_columns(self) -> bool:
        """False: items have the text of the task alone."""
        return False

    @property
    def names(self) -> dict[str, Any]:
        """By key the names of the elements."""
        return {key: of["names"] for key, of in self.features.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By key the shape."""
        return {key: of["shape"] for key, of in self.features.items()}

    @property
    def total_episodes(self) -> int:
        """How many episodes there are, also those that were not chosen."""
        return len(self.episodes["length"])

    @property
    def total_frames(self) -> int:
        """How many frames there are, also those of episodes that were not chosen."""
        return int(sum(self.episodes["length"]))

    @property
    def total_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)


def episodes_of(
    numbers: Sequence[int], lengths: Sequence[int], tasks: Sequence[Sequence[str]]
) -> dict[str, list[Any]]:
    """The table of episodes of `Meta`, which follow each other in this order."""
    ends = np.cumsum(lengths, dtype=np.int64)
    return {
        "episode_index": [int(number) for number in numbers],
        "length": [int(length) for length in lengths],
        "tasks": [list(of) for of in tasks],
        "dataset_from_index": (ends - np.asarray(lengths, np.int64)).tolist(),
        "dataset_to_index": ends.tolist(),
    }


def stats_of_file(path: Path) -> Stats:
    """The statistics of a `stats.json`, as arrays.

    Raises ValueError if the file is damaged.
    """
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        return {
            key: {name: np.array(value) for name, value in of.items()} for key, of in read.items()
        }
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path}: expected statistics by feature and name, found others ({error})"
        ) from None
