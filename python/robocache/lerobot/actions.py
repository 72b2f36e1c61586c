"""The streams of actions of a dataset: what was commanded at the instant of a frame.

A node has an action when its message has arrived, after the lag. Training knows the whole recording: so a command between
two messages is interpolated between both, at the tick itself. A policy then learns what was commanded when it acted, and
not what was commanded when its observation was measured.
"""

import numpy as np

from ..message.tensor import NO_AGE
from .columns import is_plan

#: Episodes whose rows are in memory at once.
_EPISODES = 64


def lags_ns(streams, actions):
    """By stream of actions its lag [ns]: 0, or the `lag_ms` that the stream has itself.

    Args:
        streams: a dict of the streams of the configuration.
        actions: their names.
    """
    found = {}
    for name in actions:
        of_stream = streams.get(name)
        own = of_stream.get("lag_ms") if isinstance(of_stream, dict) else None
        found[name] = round(float(own or 0) * 1e6)
    return found


class Actions:
    """Values of streams at the ticks of a store of tensors, from all rows of their episodes.

    A plan is an exception: it counts as it was known at the tick.

    Attributes:
        lags_ns: by stream, how long before its tick it is taken [ns].
    """

    def __init__(self, tensors, lags_ns):
        """
        Args:
            tensors: a `Tensors` that has the rows of these streams.
            lags_ns: of `lags_ns`.
        """
        self._tensors, self.lags_ns = tensors, lags_ns
        self._config = {
            name: {
                "offsets_ns": [-lag_ns],
                "present": 0,
                "rows": "strict" if is_plan(tensors.segments[name]) else "all",
            }
            for name, lag_ns in lags_ns.items()
        }
        self._block = self._cache = None
        self._span = self._found = None

    def __contains__(self, name):
        return name in self.lags_ns

    def read(self, name, kind, first, end):
        """The values of ticks `first..end`, which are of one episode. `kind` is "values" or what is known of the step: "valid",
        "age_ns" or "target_ns"."""
        if self._span != (first, end):
            self._found, self._span = self._windows(first, end), (first, end)
        return self._found[name][kind]

    def _windows(self, first, end):
        """By stream and kind the values of ticks."""
        at, cache = self._rows(self._tensors.episode_of(first))
        epochs = self._tensors.read("epoch", first, end)
        stamps = self._tensors.read("stamp_ns", first, end)
        # An epoch without any row of an action is unknown there.
        known = np.isin(epochs, [epoch for epoch, _, _ in cache.episodes[at]["spans"]])
        plan = cache.plan(self._config)
        # The export counts invalid steps itself. The settings of a sampler, which the warning names, are not its.
        plan.looked_at = True
        windows = cache.windows(
            np.full(int(known.sum()), at), stamps[known], plan, epochs=epochs[known]
        )
        found = {}
        for name, lag_ns in self.lags_ns.items():
            segment, frames = windows[name], end - first
            parts = {"values": segment.float32(), "valid": segment.valid, "age_ns": segment.age_ns}
            of_stream = {"target_ns": stamps - lag_ns}
            for kind, part in parts.items():
                whole = np.full(
                    (frames, *part.shape[2:]), NO_AGE if kind == "age_ns" else 0, part.dtype
                )
                whole[known] = part[:, 0]
                of_stream[kind] = whole
            found[name] = of_stream
        return found

    def _rows(self, episode):
        """The number of an episode in a cache of some episodes, and the cache."""
        from ..training.cache import EpisodeCache

        block = episode // _EPISODES
        if block != self._block:
            count = len(self._tensors.about["episodes"])
            numbers = list(range(block * _EPISODES, min((block + 1) * _EPISODES, count)))
            self._cache = EpisodeCache.load(
                self._tensors.path, list(self.lags_ns), episodes=numbers
            )
            self._block = block
        return episode - block * _EPISODES, self._cache
