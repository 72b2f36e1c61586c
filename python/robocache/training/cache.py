"""Episodes as rows at their own stamps, and windows of them: what training reads.

    cache = robocache.EpisodeCache.load("data/rows.zarr")       # of `robocache replay --format rows`
    batch = cache.windows(episodes, instants_ns)                # what a replay gives at these instants
    batch["joints"].float32()                                   # [windows, steps, channels]
    batch["joints"].valid                                       # [windows, steps]

docs/training.md has the rules.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import _native
from ..contract import Contract
from ..datasets.asked_episodes import integers, numbers_of, share_of
from ..datasets.frame_stamps import period_ns as period_of_rate
from ..message.tensor import NO_AGE
from .action_rows import with_statistics
from .cache_input import is_own_label, of_arrays, own_labels
from .choices import choices, latencies, rows_of
from .gpu import Gpu, is_on_gpu, number_of
from .selection import selected
from .statistics import Statistics, of_windows
from .tasks import Tasks
from .valid_shares import look_at
from .windows import Answered, WindowPlan, Windows, WindowSegment, aligned, host_out

__all__ = ["NO_AGE", "EpisodeCache", "WindowPlan", "WindowSegment", "Windows"]

#: The path that a cache was loaded from, and the arguments of `load` that say what of it.
_Source = tuple[str, dict[str, Any]]
#: Rows that are loaded again by each process without a word.
_HELD_BYTES = 1 << 28
#: What is known of an episode: the keys of `EpisodeCache.episodes`.
_OF_EPISODE = {"name", "task", "tasks", "colours", "bag", "begins_ns", "marks", "spans"}


class EpisodeCache:
    """Rows of many episodes. Make one with `load`, `from_arrays`, `from_dataset` or `from_lerobot`.

    Attributes:
        episodes: a list of dicts: `name`, `task`, `bag`, and `spans`, a list of `(epoch, begin_ns, end_ns)`: when the
            first and the last row of each epoch of the clock came. If the task changes, `tasks` has all: a list of dicts
            with `begin_ns` and `task`. If something was noted in the recording, `marks` has it: `at_ns`, `name`, `value`.
        tasks: a list of the texts of all tasks of the store, each once; `task_index` gives numbers in it.
        streams: a dict by name of what rows mean: `row_shape`, `dtype`, `channels`, `target_offsets_ns` and others.
        configuration: the text of the configuration that the rows were made with.
        device: the number of the GPU that makes the windows; None for the host.
        memory: a dict by stream of where its rows are: `host`, or `compressed` in the files of a store (see `load`); or, if
            there is a device, `device`, `pinned` or `mapped` (see `to`).
        share: the pair (rank, world) that it was loaded with; None for others.
        period_ns: from a tick of the node to the next, or from a frame of a dataset to the next [ns]; None if unknown.
    """

    def __init__(
        self,
        native: _native.Episodes,
        source: _Source | None = None,
        gpu: Gpu | None = None,
        share: tuple[int, int] | None = None,
    ) -> None:
        self._native = native
        # The rows of which windows are made.
        self._rows = native if gpu is None else gpu.native
        self._source = source
        self._gpu = gpu
        self.share = share
        self.device = None if gpu is None else gpu.number
        self._plans: dict[bytes | None, WindowPlan] = {}
        described = json.loads(self._native.described())
        self.configuration = described["configuration"]
        self.period_ns: int | None = described["period_ns"]
        self.streams = {means["name"]: means for means in described["streams"]}
        # Of arrays, which no node serves, steps ahead are a label.
        self._labels = frozenset(own_labels(self.streams) if not self.configuration else ())
        if gpu is None:
            packed = dict.fromkeys(self._native.packed(), "compressed")
            self.memory = dict.fromkeys(self.streams, "host") | packed
        else:
            self.memory = gpu.memory
        self.episodes = [{**about, "spans": []} for about in described["episodes"]]
        self.tasks: list[str] = described["tasks"]
        self._tasks = Tasks(self.episodes, self.tasks)
        for span in described["spans"]:
            place = self.episodes[span["episode"]]["spans"]
            place.append((span["epoch"], span["begin_ns"], span["end_ns"]))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        streams: Sequence[str] | None = None,
        *,
        episodes: Any = None,
        split: str | None = None,
        share: tuple[int, int] | None = None,
        compressed: bool = False,
        verify: bool = False,
        threads: int | None = None,
        device: Any = None,
        memory: str | dict[str, str] | None = None,
        device_bytes: int | None = None,
        pinned_bytes: int | None = None,
    ) -> EpisodeCache:
        """Loads a store of `robocache replay --format rows` into memory, or opens a folder that `save` wrote.

        Args:
            path: of `rows.zarr`, or of the folder.
            streams: names of the streams to read from the store; all by default. A folder has them mapped, so there
                is nothing to choose.
            episodes: which episodes: increasing numbers, names, or a slice. Of a store, only their rows are read and held. All
                by default.
            split: in place of `episodes`, those of a split by its name, as `splits.json` beside the store says.
            share: a pair (rank, world): of these episodes every `world`-th, from `rank` on.
            compressed: leave large rows (images, grids) of a store compressed in its files. A window unpacks its own, and
                checks them then: a damaged row is an error of the batch that needs it. So a store may be larger than
                memory, and loads at once.
            verify: whether the checksums of all files of the folder are checked, also those of rows. A store's are
                checked always.
            threads: how many read the store at once; all cores by default.
            device: the GPU that makes the windows, as for `to`; None for the host.
            memory, device_bytes, pinned_bytes: of `to`; only with a device.

        Raises:
            ValueError: it is of another format, damaged, or lacks a stream or an episode; or its rows need more memory
                than there is.
            OSError: it cannot be read.
        """
        room: dict[str, Any] = {
            "memory": memory,
            "device_bytes": device_bytes,
            "pinned_bytes": pinned_bytes,
        }
        room = {name: value for name, value in room.items() if value is not None}
        if device is None and room:
            raise TypeError(f"device: expected one for {', '.join(room)}, found None")
        path = Path(path)
        saved = _is_saved(path)
        asked = {"episodes": episodes, "split": split, "share": share}
        numbers, of = numbers_of(lambda: _native.Episodes.names(path, saved), path=path, **asked)
        if saved:
            if streams is not None:
                raise ValueError(
                    "streams: expected None for a saved cache, whose rows stay on disk"
                )
            if compressed:
                raise ValueError(
                    "compressed: expected a store of `robocache replay --format rows`, found a saved cache, whose rows "
                    "are not compressed"
                )
            native = _native.Episodes.open(path, verify, numbers, of)
        else:
            native = _native.Episodes.of_store(path, streams, threads, numbers, of, compressed)
        source = os.fspath(path.resolve()), {**asked, "streams": streams, "compressed": compressed}
        cache = cls(native, source, share=None if share is None else share_of(share))
        return cache if device is None else cache.to(device, **room)

    @classmethod
    def convert(
        cls,
        store: str | os.PathLike[str],
        path: str | os.PathLike[str],
        streams: Sequence[str] | None = None,
        *,
        episodes: Any = None,
        split: str | None = None,
        share: tuple[int, int] | None = None,
        threads: int | None = None,
    ) -> EpisodeCache:
        """Writes a store of `robocache replay --format rows` into a new folder, as `save` does, and opens it. Its rows and
        coordinates go there block by block, so that a store may be larger than memory; the other columns, about 41 bytes
        per row, are in memory once.

        Args:
            store: path of `rows.zarr`.
            path: of the new folder, which must not exist.
            streams, episodes, split, share, threads: of `load`.

        Raises:
            ValueError: the store is of another format, damaged, or lacks a stream or an episode.
            OSError: the folder is there already, or cannot be written.
        """
        store = Path(store)
        asked = {"episodes": episodes, "split": split, "share": share}
        numbers, of = numbers_of(lambda: _native.Episodes.names(store, False), path=store, **asked)
        native = _native.Episodes.convert(store, path, streams, threads, numbers, of)
        source: _Source = (os.fspath(Path(path).resolve()), {})
        return cls(native, source, share=None if share is None else share_of(share))

    def to(
        self,
        device: Any,
        *,
        memory: str | dict[str, str] = "auto",
        device_bytes: int | None = None,
        pinned_bytes: int | None = None,
    ) -> EpisodeCache:
        """The same cache with windows that a GPU makes, in its memory, on the current stream of torch (on the default stream,
        and waited for, if the program has not imported torch).

        Args:
            device: `"cuda:0"`, a number, or a `torch.device`.
            memory: where rows are; one word for all streams, or a dict by stream (`auto` for those it lacks).
                `device`: in memory of the GPU. The host keeps its copy, for `statistics` and `save`.
                `pinned`: in pinned memory of the host, where the GPU reads them over its bus.
                `mapped`: where they are, in memory of the host or in mapped files; the host's cores make these windows, and
                copy them. `auto`: the smallest streams first in `device`, then in `pinned`, the rest in `mapped`. What
                finds the rows of a stream in `device` or `pinned` (about 41 bytes per row) is always on the GPU.
            device_bytes: room on the GPU. Other streams and stamps come first, and `auto` has the rest; by default half
                of the GPU's free memory.
            pinned_bytes: room for `auto` in pinned memory; by default half of what the host has
                available: the machine, or its control group if that has less, divided by `LOCAL_WORLD_SIZE` of torchrun.

        Raises:
            ValueError: there is no such stream or memory.
            RuntimeError: there is no such GPU, no build with CUDA, or not so much memory.
        """
        names = list(self.streams)
        gpu = Gpu(self._native, number_of(device), names, memory, device_bytes, pinned_bytes)
        moved = EpisodeCache(gpu.native.episodes(), self._source, gpu, self.share)
        moved._labels = self._labels
        return moved

    @classmethod
    def from_arrays(
        cls,
        streams: Mapping[str, Mapping[str, Any]],
        lengths: Any,
        *,
        episodes: Sequence[Any] | None = None,
        configuration: str = "",
        rate_hz: float | None = None,
    ) -> EpisodeCache:
        """Makes a cache of arrays, which it keeps without a copy; do not write to them later.

        Args:
            streams: by name a dict with `rows` `[rows, row...]` (float32, float16, uint8 or int32), `stamp_ns` `[rows]`
                (int64, increasing in every episode), and, if you like: `received_ns`, when the row came (without it, windows
                see all rows), `channels`, names of the elements of a vector, `lanes`, per element `linear`,
                `angular`, `quaternion` or `held`, `strategy` (`linear` for vectors of floats, otherwise `hold`), `max_age_ms` and
                `max_gap_ms` (these two: 100, or a frame if that is more), `fill` (`zero`, `last` or `first`), `history`, `horizon`, `lag_ms` as in
                `windows`: a `horizon` without `history` is a label.
            lengths: by name the number of rows of each episode; or one list for all streams.
            episodes: names of the episodes, or dicts with `name` and `task`, and `tasks` if the task changes.
            configuration: a text that `save` keeps.
            rate_hz: frames per second. Frame k is then at `k * cache.period_ns`, and `period_ns` is round(1e9 / rate_hz).
        """
        if rate_hz is not None and not 0 < rate_hz <= 1e9:
            raise ValueError(f"rate_hz: expected more than 0 Hz, found {rate_hz!r}")
        period_ns = None if rate_hz is None else int(period_of_rate(rate_hz))
        described, columns = [], []
        count = None
        for name, stream in streams.items():
            of_stream = lengths[name] if isinstance(lengths, dict) else lengths
            if count is not None and len(of_stream) != count:
                raise ValueError(
                    f"lengths of '{name}': expected {count} episodes, found {len(of_stream)}"
                )
            count = len(of_stream)
            means, ring = of_arrays(name, dict(stream), of_stream, period_ns, rate_hz)
            described.append(means)
            columns.append([ring])
        named = episodes if episodes is not None else [f"{at:06d}" for at in range(count or 0)]
        if len(named) != (count or 0):
            raise ValueError(f"episodes: expected {count or 0}, found {len(named)}")
        about = [each if isinstance(each, dict) else {"name": str(each)} for each in named]
        for at, each in enumerate(about):
            unknown = sorted(map(str, set(each) - _OF_EPISODE))
            if unknown or "name" not in each:
                found = f"the key {unknown[0]!r}" if unknown else "no name"
                raise ValueError(
                    f"episodes: expected name, and of {', '.join(sorted(_OF_EPISODE))} what is known, found {found} in the "
                    f"dict of episode {at}"
                )
        text = {
            "configuration": configuration,
            "period_ns": period_ns,
            "episodes": about,
            "streams": described,
        }
        made = cls(_native.Episodes.of_columns(json.dumps(text), columns))
        made._labels = frozenset(name for name, each in streams.items() if is_own_label(each))
        return made

    @classmethod
    def from_lerobot(
        cls,
        dataset: Any,
        *,
        episodes: Any = None,
        split: str | None = None,
    ) -> EpisodeCache:
        """Makes a cache of the numbers of a LeRobot dataset, in memory. A path is read without LeRobot, and needs pyarrow.

        Streams, instants and rules are those of `from_dataset`, which also has the images. docs/import.md has them.

        Args:
            dataset: the path of a dataset, or a LeRobotDataset: of this one the files at its `root` and its `episodes`.
            episodes, split: of `robocache.importing.import_dataset`.

        Raises ValueError if it is no dataset, an argument does not fit, or an episode could not be read.
        """
        from ..datasets.lerobot_numbers import of_files

        if not isinstance(dataset, (str, os.PathLike)):
            chosen = getattr(dataset, "episodes", None)
            episodes = list(chosen) if episodes is None and chosen is not None else episodes
            dataset = dataset.root
        streams, lengths, about, text, fps = of_files(dataset, episodes, split)
        return cls.from_arrays(streams, lengths, episodes=about, configuration=text, rate_hz=fps)

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        out: str | os.PathLike[str],
        config: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> EpisodeCache:
        """Makes a cache of a dataset of any kind that `robocache import` reads: docs/import.md has them.

        Its episodes are first written to `OUT/rows.zarr`, images too, or found there.

        Args:
            dataset: the path of the dataset.
            out: the folder of the rows.
            config: the path of a configuration; None for one with a stream for each feature.
            options: of `robocache.importing.import_dataset`, such as `mapping="bridge"` and `split="train"`; and of `load`:
                `streams`, `share`, `compressed`, `threads`, `memory`, `device_bytes`, `pinned_bytes`, and the device as
                `cache_device`. Images stay compressed by default.

        Raises:
            ValueError: it is no dataset, or an argument does not fit.
            RuntimeError: an episode could not be read; `load` of OUT/rows.zarr has the others.
        """
        from ..datasets.importing import import_rows

        load, options = split_options(options)
        return cls.load(import_rows(dataset, out, config, **options), **load)

    def task_index(self, episodes: Any, instants_ns: Any) -> np.ndarray:
        """The tasks of windows, as numbers in `tasks`: an int64 array [windows]. A window has the task of the frame at or
        before its instant; before the first frame the first one. -1 if there is none.

        Args:
            episodes: numbers of the episodes [windows].
            instants_ns: the instants of the windows [ns].

        Raises ValueError if there is no such episode.
        """
        return self._tasks.at(episodes, instants_ns)

    def select(
        self,
        *,
        tasks: str | Sequence[str] | None = None,
        marks: Mapping[str, Any] | None = None,
        last: Mapping[str, float] | None = None,
        where: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> list[str]:
        """The names of the episodes that fit all of these, for `WindowSampler.of` and `load`.

        Args:
            tasks: a task, or several: an episode has one of them.
            marks: by name the number of the newest mark: `{"success": True}`. An episode without the mark does not fit.
            last: by stream its first number at the end of the episode, however old it is: `{"success": 1}`. If the clock
                began again, that of the last epoch with rows.
            where: a function of a dict of `episodes`.

        Raises ValueError if there is no such task, mark or stream.
        """
        return selected(self, tasks, marks, last, where)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the cache into a new folder, from which `load` maps it into memory. The folder appears when it is complete.

        Raises:
            OSError: it is there already, or cannot be written.
        """
        self._native.save(path)

    def size(self, stream: str) -> tuple[int, int]:
        """The rows and the bytes of a stream."""
        return self._native.size(stream)

    def reach(self, stream: str) -> list[list[tuple[int, int]]]:
        """By episode and epoch of the clock the first and the last instant at which a stream has a row at the step of its
        lag [ns]; the last before the first if it has no row there.

        Raises ValueError if there is no such stream.
        """
        pairs = iter(self._native.reach(stream))
        return [[next(pairs) for _ in episode["spans"]] for episode in self.episodes]

    def statistics(
        self, streams: Sequence[str] | None = None, *, episodes: Any = None
    ) -> Statistics:
        """Normalisation statistics of vectors: by stream a dict of float64 arrays `[channels]`: `count`, `mean`, `std` (divisor: the
        number of rows), `min`, `max`, `q01` and `q99`. They are over all rows that no later message replaced.

        Args:
            streams: names; all vectors by default.
            episodes: which episodes of the cache: numbers, names or a slice; all by default. Leave out those that only test.

        Warns if the cache is a share. `json.dumps(statistics.json())` writes them, and so do `save_norm_stats` and `save_stats`.

        Raises:
            ValueError: a stream that is named is no vector; there is no such episode, or none is left.
        """
        if streams is None:
            streams = [name for name, means in self.streams.items() if means["vector"]]
        names = ("count", "mean", "std", "min", "max", "q01", "q99")
        numbers, _ = numbers_of(
            lambda: [episode["name"] for episode in self.episodes], episodes=episodes
        )
        told = Statistics()
        for stream in streams:
            columns = list(zip(*self._native.statistics(stream, numbers), strict=True))[1:]
            told[stream] = {n: np.array(c) for n, c in zip(names, columns, strict=True)}
        if self.share is not None:
            rank, world = self.share
            warnings.warn(
                f"statistics of a share: these are of rank {rank} of {world} alone, and all ranks must normalise by the same: "
                "give those of a cache without `share`, or save them in the model",
                RuntimeWarning,
                stacklevel=2,
            )
        if empty := [name for name, each in told.items() if not each["count"].all()]:
            warnings.warn(
                f"statistics: expected rows, found none of {', '.join(empty)}: its numbers are NaN",
                RuntimeWarning,
                stacklevel=2,
            )
        return told

    def window_statistics(
        self,
        config: WindowPlan | Mapping[str, Any],
        sampler: Any,
        *,
        streams: Sequence[str] | None = None,
        per_step: bool = False,
        padded: bool = False,
    ) -> Statistics:
        """Statistics of what comes out of windows: of relative actions, for example. As `statistics`, with q10, q50 and q90.

        Args:
            config: of `windows`. Give it without `normalize`, which is to take these numbers.
            sampler: a WindowSampler, all of whose items count once.
            streams: names of vectors; all of the windows by default.
            per_step: whether each step of a window has its own: arrays `[steps, channels]`.
            padded: whether steps count that are not valid, such as those beyond the episode, which openpi counts.

        Raises:
            ValueError: a stream is no vector of these windows, or has no value.
        """
        return of_windows(self, config, sampler, streams, per_step, padded)

    def windows(
        self,
        episodes: Any,
        target_ns: Any,
        config: WindowPlan | Mapping[str, Any] | None = None,
        *,
        rows: str | None = None,
        epochs: Any = None,
        jitter_ns: int = 0,
        latency_ns: Mapping[str, Any] | None = None,
        seed: Any = None,
        out: Any = None,
        threads: int | None = None,
    ) -> Windows:
        """Every stream around an instant of an episode, for a batch of them.

        Args:
            episodes: `[windows]` numbers of episodes.
            target_ns: `[windows]` instants [ns] on the clock of the node, as a tick's. If the cache has a device, episodes and
                instants may be int64 arrays on it. Then all steps of an unknown episode are invalid.
            config: a WindowPlan; or the streams and their windows, a dict by name; None: all streams, as the node's configuration has
                them. A value may have `history` and `horizon` (`{"steps": ...}`, a frame each, or with `step_ms` or `rate_hz`),
                `lag_ms`, or instead of these `offsets_ns` (with `present`, the number of the step whose angles
                stay, if angles go on from step to step); `strategy`, `max_age_ms`, `max_gap_ms`,
                `fill` (`zero`, `last` or `first`), `dtype`, `rows`, `label` and `required`. What it does not have is as in the
                node's configuration. With `scale`, bytes are divided by 255, and become f32 or another `dtype` of floats.
                Of actions also what is made of them: `relative` (channels, or True for all) and
                `reference` (the stream whose newest step they are relative to, as the node serves it), `poses` (lists of
                channels: a position and a quaternion, or roll, pitch and yaw), `rotation_6d` (the order of their six numbers),
                and `normalize` (`mode`, `stats`, `key`, `eps`). These values are in no buffer of the caller.
                A stream with a `horizon` and no `history` is a label, unless it says `label: False`, or `rows` other than all:
                it has no lag unless it says one, sees all rows, is filled with the first or the last row of the episode, and
                its steps beyond the episode are invalid.
            rows: which rows steps see that are no labels. `as_served`: those that a replay of the bag had at the instant,
                and for targets after the instant all; `strict`: never another than the replay had; `all`: all that were
                not replaced. By default `as_served`, `strict` for plans, and `all` for datasets and for arrays without
                arrivals.
            epochs: `[windows]` numbers of the clock's epochs; by default the latest that had begun.
            jitter_ns: each instant is moved by up to this much, either way [ns].
            latency_ns: by stream how much earlier than at the instant it is taken [ns]: a number, or a pair
                (least, greatest) from which each window draws its own.
            seed: of what is drawn: a number, or a `numpy.random.Generator`, which is used on.
            out: where the result goes, for example `buffer` of an earlier result; by default a new array. A uint8 array or
                tensor of one dimension, or a bytearray: contiguous, aligned to 8 bytes. If the cache has a device: a uint8
                tensor there, aligned to 64 bytes.
            threads: how many work at once; all cores by default.

        Returns:
            Windows.

        Raises:
            ValueError, TypeError: an argument is not what it must be; there is no such stream, episode or epoch; an
                episode lacks a stream that is `required`; the ring of the node does not hold a history.

        Warns, once for each configuration, if most steps of a stream inside the episodes are invalid. Of a GPU's
        windows, only a WindowDataset looks at the first ones.
        """
        plan = self.plan(config, rows=rows)
        on_gpu = self._gpu is not None and is_on_gpu(target_ns)
        if on_gpu:
            if jitter_ns:
                raise ValueError("jitter_ns: expected 0 for instants on a GPU")
            instants = target_ns
        else:
            instants = np.array(integers(target_ns, "target_ns"), ndmin=1, order="C")
            episodes = integers(episodes, "episodes")
            if instants.ndim != 1:
                raise ValueError(
                    f"target_ns: expected one dimension, found the shape {list(instants.shape)}"
                )
            if epochs is not None:
                epochs = integers(epochs, "epochs")
        random = np.random.default_rng(seed) if jitter_ns or latency_ns else None
        if jitter_ns and random is not None:
            instants += random.integers(-jitter_ns, jitter_ns, instants.shape, endpoint=True)
        late = latencies(latency_ns, plan.streams, len(instants), random) if latency_ns else None
        size, parts = plan.layout(len(instants))
        of_late = None if late is None else late.tobytes()
        items: Sequence[Any] = episodes, instants, epochs
        if not on_gpu:
            items = [None if each is None else each.tobytes() for each in items]
        if self._gpu is not None:
            buffer = self._gpu.write(plan, size, items, of_late, out, threads)
            return Windows(buffer, plan, parts, instants, late)
        buffer = aligned(size) if out is None else host_out(out, size)
        of_episodes, when, epochs = items
        plan._run(of_episodes, when, buffer, epochs, of_late, threads)
        windows = Windows(buffer, plan, parts, instants, late)
        if not plan.looked_at:
            look_at(windows, episodes, self)
        return windows

    def plan(
        self, config: WindowPlan | Mapping[str, Any] | None = None, *, rows: str | None = None
    ) -> WindowPlan:
        """Prepares windows. A program that makes many batches may give the result to `windows` as `config`; otherwise
        `windows` keeps what it has prepared, and looks for it by the content of `config`.

        Args:
            config, rows: of `windows`.

        Returns:
            WindowPlan.
        """
        if isinstance(config, WindowPlan):
            if config._episodes is not self._rows:
                raise ValueError("config: expected a plan of this cache, found one of another")
            return config
        # A file may have other numbers than when it was read before.
        asked: Mapping[str, Any] | None = with_statistics(config)
        try:
            key = pickle.dumps((asked, rows))
        except (pickle.PicklingError, TypeError, AttributeError):
            key = None
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(asked, rows)
            # A program has a few plans; one that makes another for each batch must not fill memory with them.
            if len(self._plans) > 64:
                self._plans.clear()
            if key is not None:
                self._plans[key] = plan
        return plan

    def contract(
        self,
        config: WindowPlan | Mapping[str, Any] | None = None,
        *,
        rows: str | None = None,
        actions: Answered = None,
    ) -> Contract:
        """What a policy relies on that is trained on these windows: a `robocache.Contract` of their streams.

        Args:
            config, rows: of `windows`. Give those by which the policy gets what it sees, and those of its actions.
            actions: the streams that the policy answers: a name, names, or a dict by name of dicts with `relative`, the channels
                (or joints) whose rows the training made differences to the newest step of the stream `reference`. Their windows
                are a label, or state their lag, and their rows are evenly spaced. The contract has the rows, and these
                streams are not among what the policy sees.

        Raises ValueError if the store is of an older version, or the cache is of arrays: then give the contract of the
        configuration, `robocache.contract.of`; or if no commands can follow from such actions.
        """
        return self.plan(config, rows=rows).contract(actions=actions)

    def _planned(self, config: Mapping[str, Any] | None, rows: str | None) -> WindowPlan:
        asked = choices(config, rows, self.streams, self.period_ns, self._labels)
        return WindowPlan(self._rows, asked, self.streams, rows_of(config, self.streams))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._gpu is not None:
            raise TypeError(
                "expected a cache of the host to send it to another process: a GPU's is of one process"
            )
        if self._source is None:
            raise TypeError(
                "expected a cache of a file to send it to another process: save it, and load that"
            )
        path, of = self._source
        held = sum(self.size(name)[1] for name, kind in self.memory.items() if kind == "host")
        if not (Path(path) / "index.json").exists() and held > _HELD_BYTES:
            warnings.warn(
                f"each process that this cache is sent to loads its {held / 1e9:.1f} GB again: load it with "
                "compressed=True, save it and load that, or give the DataLoader multiprocessing_context='fork'",
                RuntimeWarning,
                stacklevel=2,
            )
        return _load_again, (path, of)

    def __repr__(self) -> str:
        where = "" if self._gpu is None else f" on {self._gpu}"
        return f"EpisodeCache({len(self.episodes)} episodes of {', '.join(self.streams)}{where})"


def _load_again(path: str, of: dict[str, Any]) -> EpisodeCache:
    return EpisodeCache.load(path, **of)


#: The arguments of `load` that the functions that import take, too.
_OF_LOAD = ("streams", "share", "compressed", "threads", "memory", "device_bytes", "pinned_bytes")


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of `load`, and those of the import. An import has a `device`, too, so that of `load` is `cache_device`."""
    load = {name: value for name, value in options.items() if name in _OF_LOAD}
    if "cache_device" in options:
        load["device"] = options["cache_device"]
    load.setdefault("compressed", True)
    others = {n: v for n, v in options.items() if n not in _OF_LOAD and n != "cache_device"}
    return load, others


def _is_saved(path: Path) -> bool:
    """Whether there is a saved cache at a path, rather than a store."""
    if not path.exists():
        raise FileNotFoundError(
            f"expected a store of rows or a saved cache, found nothing at {path}"
        )
    is_saved = (path / "index.json").exists()
    if not is_saved and (path / "rows.zarr").exists():
        raise ValueError(
            f"expected a store of rows or a saved cache, found the folder of a store: load {path / 'rows.zarr'}"
        )
    return is_saved
