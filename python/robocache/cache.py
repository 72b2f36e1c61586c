"""Episodes as rows at their own stamps, and windows of them: what training reads.

    cache = robocache.EpisodeCache.load("data/rows.zarr")       # of `robocache replay --format rows`
    batch = cache.windows(episodes, instants_ns)                # what the node served at these instants
    batch["joints"].array                                       # [windows, steps, channels]
    batch["joints"].valid                                       # [windows, steps]

docs/training.md has the rules.
"""

import json
import os
from pathlib import Path

import numpy as np

from . import _native
from .tensor import NO_AGE

__all__ = ["NO_AGE", "EpisodeCache", "WindowSegment", "Windows"]

_DTYPES = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
    "i32": np.dtype("<i4"),
}
_ALIGNMENT = 64
#: What a stream of a configuration of windows may have, and what the compiled part calls it.
_NANOSECONDS = {"max_age_ms": "max_age_ns", "max_gap_ms": "max_gap_ns"}
_AS_THEY_ARE = {"strategy": "strategy", "fill": "fill", "dtype": "dtype", "rows": "view"}
_KEYS = {
    *("history", "horizon", "lag_ms", "offsets_ns", "required"),
    *_NANOSECONDS,
    *_AS_THEY_ARE,
}
_ROWS = ("as_served", "strict", "all")
_NEVER = np.iinfo(np.int64)


class EpisodeCache:
    """Rows of many episodes. Make one with `load`, `from_arrays` or `from_lerobot`.

    Attributes:
        episodes: a list of dicts: `name`, `task`, `bag`, and `spans`, a list of `(epoch, begin_ns, end_ns)`: when the
            first and the last row of each epoch of the clock came.
        streams: a dict by name of what rows mean: `row_shape`, `dtype`, `channels`, `target_offsets_ns` and others.
        configuration: the text of the configuration that the rows were made with.
    """

    def __init__(self, native, source=None):
        self._native = native
        self._source = source
        self._plans = {}
        described = json.loads(native.described())
        self.configuration = described["configuration"]
        self.streams = {means["name"]: means for means in described["streams"]}
        self.episodes = [{**about, "spans": []} for about in described["episodes"]]
        for span in described["spans"]:
            place = self.episodes[span["episode"]]["spans"]
            place.append((span["epoch"], span["begin_ns"], span["end_ns"]))

    @classmethod
    def load(cls, path, streams=None, *, verify=False, threads=None):
        """Loads a store of `robocache replay --format rows` into memory, or opens a folder that `save` wrote.

        Args:
            path: of `rows.zarr`, or of the folder.
            streams: names of the streams to read from the store; all by default. A folder has them mapped, so there
                is nothing to choose.
            verify: whether the checksums of all files of the folder are checked, also those of rows. A store's are
                checked always.
            threads: how many read the store at once; all cores by default.

        Raises:
            ValueError: it is of another format, damaged, or lacks a stream.
            OSError: it cannot be read.
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(
                f"expected a store of rows or a saved cache, found nothing at {path}"
            )
        if (path / "index.json").exists():
            if streams is not None:
                raise ValueError(
                    "streams: expected None for a saved cache, whose rows stay on disk"
                )
            native = _native.Episodes.open(path, verify)
        else:
            native = _native.Episodes.of_store(path, streams, threads)
        return cls(native, (os.fspath(path.resolve()), streams))

    @classmethod
    def from_arrays(cls, streams, lengths, *, episodes=None, configuration=""):
        """Makes a cache of arrays, which it keeps without a copy; do not write to them later.

        Args:
            streams: by name a dict with `rows` `[rows, row...]` (float32, float16, uint8 or int32), `stamp_ns` `[rows]`
                (int64, increasing in every episode), and, if you like: `received_ns`, when the row came (without it, windows
                see all rows), `channels`, names of the elements of a vector, `lanes`, per element `linear`, `angular` or
                `quaternion`, `strategy` (`linear` for vectors of floats, otherwise `hold`), `max_age_ms` (100),
                `max_gap_ms` (100), `fill` (`zero`), `history`, `horizon`, `lag_ms` as in `windows`.
            lengths: by name the number of rows of each episode; or one list for all streams.
            episodes: names of the episodes, or dicts with `name` and `task`.
            configuration: a text that `save` keeps.
        """
        described, columns = [], []
        count = None
        for name, stream in streams.items():
            of_stream = lengths[name] if isinstance(lengths, dict) else lengths
            if count is not None and len(of_stream) != count:
                raise ValueError(
                    f"lengths of '{name}': expected {count} episodes, found {len(of_stream)}"
                )
            count = len(of_stream)
            means, ring = _of_arrays(name, dict(stream), of_stream)
            described.append(means)
            columns.append([ring])
        named = episodes if episodes is not None else [f"{at:06d}" for at in range(count or 0)]
        if len(named) != (count or 0):
            raise ValueError(f"episodes: expected {count or 0}, found {len(named)}")
        about = [each if isinstance(each, dict) else {"name": str(each)} for each in named]
        text = {"configuration": configuration, "episodes": about, "streams": described}
        return cls(_native.Episodes.of_columns(json.dumps(text), columns))

    @classmethod
    def from_lerobot(cls, dataset, *, max_gap_ms=None):
        """Makes a cache of the numbers of a `LeRobotDataset`: every float column of `features` is a stream with one row
        per frame at its `timestamp`, linear between frames. Videos and images are left out.

        Args:
            dataset: a LeRobotDataset; its `hf_dataset` and `meta` are read.
            max_gap_ms: greatest distance of two frames; one and a half frames by default.
        """
        table = dataset.hf_dataset.with_format("numpy")
        numbers = np.asarray(table["episode_index"], np.int64)
        found, lengths = np.unique(numbers, return_counts=True)
        if (np.diff(numbers) < 0).any():
            raise ValueError("episode_index: expected frames in the order of their episodes")
        seconds = np.asarray(table["timestamp"], np.float64)
        stamp_ns = np.rint(seconds * 1e9).astype(np.int64)
        gap = 1500 / dataset.meta.fps if max_gap_ms is None else max_gap_ms
        streams = {}
        for name, feature in dataset.meta.features.items():
            if feature["dtype"] not in ("float32", "float64") or name == "timestamp":
                continue
            rows = np.asarray(table[name], np.float32)
            streams[name] = {
                "rows": np.ascontiguousarray(rows.reshape(len(rows), -1)),
                "stamp_ns": stamp_ns,
                "max_age_ms": gap,
                "max_gap_ms": gap,
            }
        tasks = np.asarray(table["task_index"]) if "task_index" in table.column_names else None
        names = {} if tasks is None else _task_names(dataset.meta.tasks)
        firsts = np.cumsum(lengths) - lengths
        about = [
            {
                "name": f"{number:06d}",
                "task": None if tasks is None else names.get(int(tasks[first])),
            }
            for number, first in zip(found, firsts, strict=True)
        ]
        return cls.from_arrays(streams, lengths.tolist(), episodes=about)

    def save(self, path):
        """Writes the cache into a new folder, from which `load` maps it into memory. The folder appears when it is complete.

        Raises:
            OSError: it is there already, or cannot be written.
        """
        self._native.save(path)

    def size(self, stream):
        """The rows and the bytes of a stream."""
        return self._native.size(stream)

    def statistics(self, streams=None):
        """Normalisation statistics of vectors: by stream a dict of float64 arrays `[channels]`: `count`, `mean`, `std` (divisor: the
        number of rows), `min`, `max`, `q01` and `q99`. They are over all rows of all episodes that no later message replaced.

        Args:
            streams: names; all vectors by default.

        Raises:
            ValueError: a stream that is named is no vector.
        """
        if streams is None:
            streams = [name for name, means in self.streams.items() if means["vector"]]
        names = ("count", "mean", "std", "min", "max", "q01", "q99")
        told = {}
        for stream in streams:
            columns = list(zip(*self._native.statistics(stream), strict=True))[1:]
            told[stream] = {n: np.array(c) for n, c in zip(names, columns, strict=True)}
        return told

    def windows(
        self,
        episodes,
        target_ns,
        config=None,
        *,
        rows=None,
        epochs=None,
        jitter_ns=0,
        latency_ns=None,
        seed=None,
        out=None,
        threads=None,
    ):
        """Every stream around an instant of an episode, for a batch of them.

        Args:
            episodes: `[windows]` numbers of episodes.
            target_ns: `[windows]` instants [ns] on the clock of the node, as a tick's.
            config: the streams and their windows, a dict by name; None: all streams, as the node's configuration has
                them. A value may have `history` and `horizon` (`{"steps": ..., "step_ms": ...}`, as in the node's
                configuration), `lag_ms`, or instead of these `offsets_ns`; `strategy`, `max_age_ms`, `max_gap_ms`,
                `fill`, `dtype`, `rows`, and `required`. What it does not have is as in the node's configuration.
            rows: which rows steps see. `as_served`: those that the node had at the instant, and for targets after the instant
                all; `strict`: never another than the node had; `all`: all that were not replaced. By default
                `as_served`, `strict` for plans, and `all` for arrays without arrivals.
            epochs: `[windows]` numbers of the clock's epochs; by default the latest that had begun.
            jitter_ns: each instant is moved by up to this much, either way [ns].
            latency_ns: by stream how much earlier than at the instant it is taken [ns]: a number, or a pair
                (least, greatest) from which each window draws its own.
            seed: of what is drawn: a number, or a `numpy.random.Generator`, which is used on.
            out: a writable array of bytes for the result, aligned to 8 bytes; by default a new one.
            threads: how many work at once; all cores by default.

        Returns:
            Windows.

        Raises:
            ValueError, TypeError: an argument is not what it must be; there is no such stream, episode or epoch; an
                episode lacks a stream that is `required`.
        """
        plan, streams = self._plan(config, rows)
        episodes = np.ascontiguousarray(episodes, np.int64)
        instants = np.array(target_ns, np.int64, ndmin=1, order="C")
        random = np.random.default_rng(seed) if jitter_ns or latency_ns else None
        if jitter_ns:
            instants += random.integers(-jitter_ns, jitter_ns, instants.shape, endpoint=True)
        late = _latency(latency_ns, streams, len(instants), random)
        size, parts = plan.layout(len(instants))
        buffer = _aligned(size) if out is None else np.frombuffer(out, np.uint8)[:size]
        epochs = None if epochs is None else np.ascontiguousarray(epochs, np.int64)
        plan.run(episodes.reshape(-1), instants, buffer, epochs, late, threads)
        return Windows(buffer, streams, parts, instants, late)

    def _plan(self, config, rows):
        if rows is not None and rows not in _ROWS:
            raise ValueError(f"rows: expected one of {', '.join(_ROWS)}, found {rows!r}")
        key = (None if config is None else json.dumps(config, default=_plain), rows)
        if key not in self._plans:
            if config is None and rows is not None:
                config = {name: {} for name in self.streams}
            text = config and json.dumps(
                [self._choice(n, c, rows) for n, c in config.items()], default=_plain
            )
            plan = self._native.plan(text)
            streams = [_Stream(*stream) for stream in plan.streams()]
            # A program has a few plans; one that makes another for each batch must not fill memory with them.
            if len(self._plans) > 64:
                self._plans.clear()
            self._plans[key] = plan, streams
        return self._plans[key]

    def _choice(self, name, config, rows):
        """What is asked of a stream, as the compiled part reads it."""
        unknown = set(config) - _KEYS
        if unknown:
            expected = ", ".join(sorted(_KEYS))
            raise ValueError(
                f"'{name}': expected {expected}, found {', '.join(sorted(map(str, unknown)))}"
            )
        choice = {"stream": name, "required": bool(config.get("required", False))}
        for key, native in _AS_THEY_ARE.items():
            if key in config:
                choice[native] = config[key]
        for key, native in _NANOSECONDS.items():
            if key in config:
                choice[native] = _nanoseconds(config[key], f"{key} of '{name}'")
        choice.setdefault("view", rows)
        if "offsets_ns" in config:
            choice["offsets_ns"] = [int(at) for at in config["offsets_ns"]]
        elif {"history", "horizon", "lag_ms"} & set(config):
            choice["offsets_ns"] = _offsets(config, name, self.streams.get(name))
        return choice

    def __reduce__(self):
        if self._source is None:
            raise TypeError(
                "expected a cache of a file to send it to another process: save it, and load that"
            )
        path, streams = self._source
        return _load_again, (path, streams)

    def __repr__(self):
        return f"EpisodeCache({len(self.episodes)} episodes of {', '.join(self.streams)})"


class _Stream:
    """What a plan says of a stream."""

    def __init__(self, name, dtype, row_shape, coordinates_shape, offsets_ns):
        self.name, self.dtype = name, dtype
        self.row_shape, self.coordinates_shape = row_shape, coordinates_shape
        self.offsets_ns = np.array(offsets_ns, np.int64)


class Windows:
    """A batch of windows in one buffer. `windows["joints"]` is the segment of a stream.

    Attributes:
        buffer: all bytes. The buffer of every segment begins at a multiple of 64 bytes.
        instants_ns: `[windows]` the instants, with their jitter.
    """

    def __init__(self, buffer, streams, parts, instants_ns, latency_ns):
        self.buffer, self.instants_ns = buffer, instants_ns
        self._streams = {stream.name: at for at, stream in enumerate(streams)}
        self._about, self._latency_ns = streams, latency_ns
        self._parts = {(stream, kind): offset for stream, kind, offset in parts}

    def __len__(self):
        return len(self.instants_ns)

    def __iter__(self):
        return iter(self._streams)

    def keys(self):
        """The names of the streams."""
        return self._streams.keys()

    def __getitem__(self, name):
        if name not in self._streams:
            raise KeyError(f"expected one of {', '.join(self._streams)}, found {name!r}")
        return WindowSegment(self, self._streams[name])

    def torch(self):
        """By stream the values as torch tensors, and `STREAM.valid` (bool); they share the buffer's memory."""
        tensors = {}
        for name in self:
            segment = self[name]
            tensors[name] = segment.torch()
            tensors[f"{name}.valid"] = _torch_of(segment.valid, "bool")
        return tensors

    def __repr__(self):
        return f"Windows({len(self)} of {', '.join(self)})"


class WindowSegment:
    """The windows of one stream. Arrays are views of the buffer, made when they are asked for.

    Attributes:
        name, dtype: of the stream; the type is "f32", "f16", "bf16", "u8" or "i32".
    """

    def __init__(self, windows, number):
        self._windows, self._number = windows, number
        self._stream = windows._about[number]
        self.name, self.dtype = self._stream.name, self._stream.dtype

    def _view(self, kind, dtype, shape):
        offset = self._windows._parts.get((self._number, kind))
        if offset is None:
            return None
        shape = (len(self._windows), len(self._stream.offsets_ns), *shape)
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return self._windows.buffer[offset : offset + size].view(dtype).reshape(shape)

    @property
    def array(self):
        """`[windows, steps, row...]`: the values; for bf16 their bits as uint16 (see `float32`)."""
        return self._view("values", _DTYPES[self.dtype], self._stream.row_shape)

    @property
    def valid(self):
        """`[windows, steps]` bool: whether a step may be used."""
        return self._view("valid", np.bool_, ())

    @property
    def age_ns(self):
        """`[windows, steps]` int64: the target minus the stamp of the newest row used; NO_AGE if there is none."""
        return self._view("age_ns", np.int64, ())

    @property
    def target_ns(self):
        """`[windows, steps]` int64: the instants of the steps."""
        late = self._windows._latency_ns
        instants = self._windows.instants_ns
        instants = instants if late is None else instants - late[self._number]
        return instants[:, None] + self._stream.offsets_ns

    @property
    def count(self):
        """`[windows, steps]` uint32: voxels in use of a sparse grid; None for others."""
        return self._view("count", np.uint32, ())

    @property
    def coordinates(self):
        """`[windows, steps, voxels, 3]` int32: where the voxels of a sparse grid are; None for others."""
        return self._view("coordinates", np.int32, self._stream.coordinates_shape or ())

    def float32(self):
        """The values as float32."""
        if self.dtype != "bf16":
            return self.array.astype(np.float32)
        return (self.array.astype(np.uint32) << 16).view(np.float32)

    def torch(self):
        """The values as a torch.Tensor (bf16 as torch.bfloat16) that shares the buffer's memory."""
        return _torch_of(self.array, self.dtype)

    def __repr__(self):
        shape = (len(self._windows), len(self._stream.offsets_ns), *self._stream.row_shape)
        return f"WindowSegment({self.name}: {self.dtype} {list(shape)})"


def _torch_of(array, dtype):
    import torch

    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _load_again(path, streams):
    return EpisodeCache.load(path, streams)


def _aligned(size):
    """So many bytes, aligned as segments are."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size]


def _plain(value):
    """NumPy's numbers and arrays for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"expected numbers, words and lists, found {type(value).__name__}")


def _nanoseconds(ms, what):
    ns = round(ms * 1e6)
    if abs(ms * 1e6 - ns) > 1e-3:
        raise ValueError(f"{what}: expected whole nanoseconds, found {ms} ms")
    return ns


def _offsets(config, name, means):
    """The targets of `history`, `horizon` and `lag_ms`, as a configuration of the node has them."""

    def steps(key):
        part = config.get(key, {"steps": 1})
        unknown = set(part) - {"steps", "step_ms"}
        count = part.get("steps")
        if (
            unknown
            or not isinstance(count, int)
            or count < 1
            or (count > 1 and "step_ms" not in part)
        ):
            raise ValueError(
                f"{key} of '{name}': expected steps (at least 1) and step_ms, found {part}"
            )
        return count, _nanoseconds(part.get("step_ms", 0), f"step_ms of '{name}'")

    (back, back_ns), (ahead, ahead_ns) = steps("history"), steps("horizon")
    if "lag_ms" in config:
        lag = _nanoseconds(config["lag_ms"], f"lag_ms of '{name}'")
    else:
        lag = -means["target_offsets_ns"][means["present"]] if means else 0
    past = [-(back - 1 - at) * back_ns - lag for at in range(back)]
    return past + [at * ahead_ns - lag for at in range(1, ahead)]


def _latency(latency_ns, streams, windows, random):
    if not latency_ns:
        return None
    names = [stream.name for stream in streams]
    unknown = set(latency_ns) - set(names)
    if unknown:
        raise ValueError(
            f"latency_ns: expected streams of {', '.join(names)}, found {', '.join(sorted(unknown))}"
        )
    late = np.zeros((len(names), windows), np.int64)
    # In the order of the plan, so that what is drawn does not depend on the order of the dict.
    for at, name in enumerate(names):
        if name in latency_ns:
            least, most = np.broadcast_to(np.asarray(latency_ns[name], np.int64), (2,))
            late[at] = random.integers(least, most, windows, endpoint=True)
    return late


def _of_arrays(name, stream, lengths):
    """What a stream of arrays means, and its columns."""
    rows, stamp_ns = np.asarray(stream.pop("rows")), np.asarray(stream.pop("stamp_ns"))
    dtypes = {"float32": "f32", "float16": "f16", "uint8": "u8", "int32": "i32", "bfloat16": "bf16"}
    dtype = dtypes.get(str(rows.dtype))
    if dtype is None or rows.ndim < 2:
        raise TypeError(
            f"rows of '{name}': expected [rows, row...] of {', '.join(dtypes)}, found {rows.dtype}"
        )
    arrivals = "received_ns" in stream
    received_ns = np.asarray(stream.pop("received_ns", stamp_ns))
    vector = rows.ndim == 2 and dtype not in ("u8", "i32")
    default = [f"{at}" for at in range(rows.shape[1])] if rows.ndim == 2 else []
    channels = list(stream.pop("channels", default))
    lanes = list(stream.pop("lanes", ["linear"] * len(channels)))
    if rows.ndim == 2 and not len(channels) == len(lanes) == rows.shape[1]:
        raise ValueError(
            f"channels and lanes of '{name}': expected {rows.shape[1]}, found {len(channels)}"
        )
    pairs = zip(channels, lanes, strict=True)
    config = {key: stream.pop(key) for key in ("history", "horizon", "lag_ms") if key in stream}
    offsets = _offsets({"lag_ms": 0, **config}, name, None)
    means = {
        "name": name,
        "row_shape": list(rows.shape[1:]),
        "coordinates_shape": None,
        "dtype": dtype,
        "row_dtypes": [dtype],
        "vector": {
            "channels": [{"name": channel, "lane": lane} for channel, lane in pairs],
            "groups": [{"channels": list(range(len(channels)))}],
        }
        if vector
        else None,
        "channels": channels,
        "target_offsets_ns": offsets,
        "present": config.get("history", {"steps": 1})["steps"] - 1,
        "strategy": stream.pop("strategy", "linear" if vector else "hold"),
        "max_age_ns": _nanoseconds(stream.pop("max_age_ms", 100), f"max_age_ms of '{name}'"),
        "max_gap_ns": _nanoseconds(stream.pop("max_gap_ms", 100), f"max_gap_ms of '{name}'"),
        "fill": stream.pop("fill", "zero"),
        "plans": False,
        "arrivals": arrivals,
        "max_age_ns_of_inputs": None,
        "valid_when": None,
    }
    if stream:
        raise ValueError(
            f"'{name}': found {', '.join(map(str, stream))}, which a stream of arrays does not have"
        )
    columns = {
        "rows": np.ascontiguousarray(rows),
        "stamp_ns": np.ascontiguousarray(stamp_ns),
        "received_ns": np.ascontiguousarray(received_ns),
        "left_ns": np.full(len(stamp_ns), _NEVER.max, np.int64),
        "replaced": np.zeros(len(stamp_ns), np.bool_),
        "episode_ends": np.cumsum(np.asarray(lengths, np.int64)),
    }
    return means, columns


def _task_names(tasks):
    """The names of tasks by their numbers: of a data frame whose index has the names, or of a dict."""
    if isinstance(tasks, dict):
        return {int(number): str(name) for number, name in tasks.items()}
    return {int(number): str(name) for name, number in tasks["task_index"].items()}
