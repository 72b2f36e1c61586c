"""Episodes of a store of tensors (docs/stores.md), in blocks of ticks."""

import bisect

import numpy as np

#: Ticks that are read at once.
BLOCK = 64


#: Of the stores that `robocache replay` writes (docs/stores.md).
FORMAT_VERSION = 5


class Tensors:
    """A store `tensors.zarr`.

    Attributes:
        path: where it is.
        about: what the store says of itself (`robocache` of its attributes).
        segments: dict of name to what `FusedTensorInfo` says of a segment.
        period_ns: the time between two ticks; None if the store has no tick.
    """

    def __init__(self, path):
        import zarr

        self.path = path
        root = zarr.open_group(str(path), mode="r")
        self.about = root.attrs["robocache"]
        if self.about["format_version"] != FORMAT_VERSION:
            found = self.about["format_version"]
            raise ValueError(
                f"{path}: expected format {FORMAT_VERSION} of the store, found {found}: "
                "replay it again"
            )
        self._data = {name: root[f"data/{name}"] for name in root["data"].array_keys()}
        self._ends = root["meta/episode_ends"][:].tolist()
        infos = {name: array.attrs.get("segment") for name, array in self._data.items()}
        # Those of the configuration come in its order.
        self.segments = {name: info for name, info in infos.items() if info is not None}
        self.period_ns = self._period_ns()
        self._first_ticks = [first for _, runs in self._all_runs() for first, _ in runs[:1]]

    def has(self, name):
        """Whether there is an array of this name."""
        return name in self._data

    def read(self, name, first, end, step=None):
        """The values of ticks `first..end` as an array; of a segment at this step."""
        array = self._data[name]
        return np.asarray(array[first:end] if step is None else array[first:end, step])

    def runs(self):
        """Yields (episode, runs). A run is a pair `first, end` of ticks without a gap."""
        for episode, runs in self._all_runs():
            yield episode, [(first, end) for first, end in runs if end > first]

    def episode_of(self, tick):
        """The number of the episode that has the tick with this number in the store."""
        return bisect.bisect_right(self._first_ticks, tick) - 1

    def _all_runs(self):
        first, ends = 0, iter(self._ends)
        for episode in self.about["episodes"]:
            runs = []
            for _ in range(len(episode["breaks"]) + 1):
                end = next(ends)
                runs.append((first, end))
                first = end
            yield episode, runs

    def _period_ns(self):
        """Tick `k` is at `k * period`."""
        ticks, stamps = self._data["tick"][:], self._data["stamp_ns"][:]
        at = np.flatnonzero(ticks)[:1].tolist()
        return int(stamps[at[0]]) // int(ticks[at[0]]) if at else None


def present_step(info):
    """The step of a segment that is at the tick, less the lag: the last one of its history."""
    offsets = np.asarray(info["target_offsets_ns"])
    return int(np.argmin(np.abs(offsets + info["lag_ns"])))
