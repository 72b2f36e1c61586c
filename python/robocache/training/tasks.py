"""The tasks of episodes by instants."""

import numpy as np

from ..datasets.asked_episodes import integers


class Tasks:
    """Finds the task of an episode at an instant.

    Args:
        episodes: dicts with `task` and, if it changes, `tasks`, as of `EpisodeCache.episodes`.
        texts: all tasks.
    """

    def __init__(self, episodes, texts):
        numbers = {text: number for number, text in enumerate(texts)}
        self._first = np.array([numbers.get(about["task"], -1) for about in episodes], np.int64)
        self._parts = {
            episode: (
                np.array([part["begin_ns"] for part in about["tasks"]], np.int64),
                np.array([numbers.get(part["task"], -1) for part in about["tasks"]], np.int64),
            )
            for episode, about in enumerate(episodes)
            if about.get("tasks")
        }

    def at(self, episodes, instants_ns):
        """As `EpisodeCache.task_index`."""
        episodes = integers(episodes, "episodes").reshape(-1)
        instants_ns = integers(instants_ns, "instants_ns").reshape(-1)
        if len(episodes) != len(instants_ns):
            raise ValueError(
                f"instants_ns: expected one for each of {len(episodes)} episodes, found {len(instants_ns)}"
            )
        if len(episodes) and not 0 <= episodes.min() <= episodes.max() < len(self._first):
            wrong = episodes[(episodes < 0) | (episodes >= len(self._first))][0]
            raise ValueError(
                f"episodes: expected numbers from 0 to {len(self._first) - 1}, found {wrong}"
            )
        found = self._first[episodes]
        several = self._parts.keys() & set(episodes.tolist())
        for episode in several:
            begin_ns, numbers = self._parts[episode]
            own = episodes == episode
            part = np.searchsorted(begin_ns, instants_ns[own], side="right") - 1
            found[own] = numbers[np.maximum(part, 0)]
        return found
