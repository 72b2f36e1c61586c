"""Where items of the dialect come from: the folder of a LeRobot dataset, or a store of rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import kinds, lerobot_rows
from ..datasets import lerobot as lerobot_files
from ..datasets.asked_episodes import share_among
from ..datasets.dataset import Topics
from ..datasets.frame_stamps import period_ns
from ..datasets.importing import chosen, import_rows
from ..datasets.lerobot_rows import column_key
from ..training.cache import EpisodeCache, split_options
from ..training.sampler import WindowSampler
from .columns import state_of
from .frame_columns import FrameColumns
from .meta import Meta, episodes_of, stats_of_file
from .store_stats import stats_of_cache

#: Columns that say where a frame belongs. An item has them, whatever its dataset has.
PLACES = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
#: Topics that `robocache import` gives to features of LeRobot.
_OF_FEATURE = re.compile(r"/(observation(/\w+)+|action|next(/\w+)+)")
#: Integers and booleans, which float32 may not hold.
_WHOLE = re.compile(r"bool|u?int\d+")


@dataclass(frozen=True)
class Source:
    """What items are made of.

    Attributes:
        cache: the rows.
        keys: by key of an item the streams that have its values, one after the other.
        sampler: has all frames in their order; a range is an episode.
        meta: what LeRobot calls metadata.
        columns: by key of an item its values in all chosen frames, exact: integers, booleans and places.
        episodes: the numbers of the chosen episodes; None for all.
        labels: the streams that are taken at the instant, without a lag.
    """

    cache: EpisodeCache
    keys: dict[str, tuple[str, ...]]
    sampler: WindowSampler
    meta: Meta
    columns: FrameColumns
    episodes: list[int] | None
    labels: frozenset[str]


def is_folder(source: Any) -> bool:
    """True for the folder of a LeRobot dataset."""
    return not isinstance(source, EpisodeCache) and lerobot_files.recognises(source)


# ----------------------------------------------------------------- a folder


def of_folder(
    root: Path, out: Path | None, episodes: Sequence[int] | None, load: Mapping[str, Any]
) -> Source:
    """The source of a LeRobot dataset. Its rows are imported to `ROOT.rows`, or `out`, or found there.

    Raises ValueError if frames are not evenly spaced, or there is no such episode; and as `EpisodeCache.from_dataset`.
    """
    files = kinds.opened(root, None)
    of_load, of_import = split_options(load)
    # All episodes are imported, whichever are chosen: the rows serve other choices, too.
    split, share = of_import.pop("split", None), of_load.get("share")
    asked = chosen(files, episodes, split)
    own = asked if share is None else share_among(asked, share)
    store = import_rows(root, f"{root}.rows" if out is None else out, **of_import)
    names = None if episodes is None and split is None else [episode.name for episode in asked]
    cache = EpisodeCache.load(store, episodes=names, **of_load)
    info = json.loads((root / "meta/info.json").read_text(encoding="utf-8"))
    keys = _streams_of_features(cache, files)
    features = _features(info["features"], keys, cache, files)
    spans, columns = _read(files, own, features, keys)
    sampler = WindowSampler(spans, period_ns=period_ns(files.fps), batch_size=1, shuffle=False)
    of_all = [(each.number, each.length, each.tasks) for each in files.episodes]
    table = episodes_of(*zip(*of_all, strict=True))
    stats = root / "meta/stats.json"
    make = (
        partial(stats_of_file, stats) if stats.is_file() else partial(stats_of_cache, cache, keys)
    )
    meta = Meta(root, files.fps, features, files.tasks, table, make, info.get("robot_type"))
    numbers = None if names is None and share is None else [episode.number for episode in own]
    return Source(
        cache, keys, sampler, meta, FrameColumns(columns), numbers, frozenset(cache.streams)
    )


def _read(
    files: Any,
    episodes: Sequence[Any],
    features: Mapping[str, Mapping[str, Any]],
    keys: Mapping[str, Any],
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The first and the last instant of each episode, and the columns of all."""
    whole = [key for key in files.columns if key in features and key not in keys]
    parts: dict[str, list[np.ndarray]] = {key: [] for key in whole}
    spans = []
    for episode in episodes:
        stamp_ns, _ = lerobot_rows.instants(files, episode)
        spans.append(_even(stamp_ns, files, episode))
        for key, values in files.numbers(episode, whole).items():
            parts[key].append(values)
    found = {key: _column(np.concatenate(of), features[key]) for key, of in parts.items()}
    return np.array(spans), found


def _even(stamp_ns: np.ndarray, files: Any, episode: Any) -> tuple[int, int]:
    """The first and the last instant of an episode, whose frames are a period apart."""
    period = period_ns(files.fps)
    between = np.diff(stamp_ns)
    if (between != period).any():
        at = int(np.argmax(between != period))
        raise ValueError(
            f"{files.root}#{episode.name}: expected frames each {period} ns, as fps {files.fps} says, found {between[at]} ns "
            f"after frame {at}: a step of LeRobot is a frame, and a step of a window is a time. Take windows of the import "
            "(docs/training.md), or correct the timestamps"
        )
    return int(stamp_ns[0]), int(stamp_ns[-1])


def _streams_of_features(cache: EpisodeCache, files: Any) -> dict[str, tuple[str, ...]]:
    """By feature the stream that has its topic; not of integers and booleans, which are columns."""
    import yaml

    topics = Topics(files)
    feature_of = dict(zip(topics.names, topics.features, strict=True))
    found: dict[str, tuple[str, ...]] = {}
    for name, stream in yaml.safe_load(cache.configuration)["streams"].items():
        feature = feature_of.get(stream.get("topic"))
        if feature is None or name not in cache.streams:
            continue
        if feature.kind == "vector" and _WHOLE.fullmatch(feature.dtype):
            continue
        if feature.name in found:
            raise ValueError(
                f"{files.root}: expected one stream of {feature.name!r} in the configuration of the rows, found "
                f"{found[feature.name][0]!r} and {name!r}"
            )
        found[feature.name] = (name,)
    return found


def _features(
    of_info: Mapping[str, Any], keys: Mapping[str, Sequence[str]], cache: EpisodeCache, files: Any
) -> dict[str, dict[str, Any]]:
    """The features of `meta/info.json` that items have. Images have the size of their rows."""
    found = {}
    for key, about in of_info.items():
        if key in keys:
            found[key] = {**about}
            if about["dtype"] in ("video", "image"):
                found[key] |= _image(cache.streams[keys[key][0]])
        elif key in files.columns and (key in PLACES or _WHOLE.fullmatch(about["dtype"])):
            found[key] = about
    return found


def _column(values: np.ndarray, feature: Mapping[str, Any]) -> np.ndarray:
    """Values of a column as LeRobot's items have them: float32, int64 and bool."""
    kind = values.dtype.kind
    values = values.astype({"f": np.float32, "b": np.bool_}.get(kind, np.int64))
    shape = tuple(feature["shape"])
    return values.reshape(len(values), *(() if shape == (1,) else shape))


# ------------------------------------------------------------------ a store


def of_store(
    cache: EpisodeCache, keys: Mapping[str, Any] | None, episodes: Sequence[int] | None
) -> Source:
    """The source of a store: of bags, or of a dataset of another kind. If the clock began again in an episode, it is several.

    Raises ValueError if there is no such stream or episode, or the store has no rate.
    """
    by_key = _named(cache, keys)
    bare = {name for name, means in cache.streams.items() if not means["arrivals"]}
    plans = {name for name, means in cache.streams.items() if means["plans"]}
    labels = (bare | set(by_key.get("action", ()))) - plans
    used = [name for streams in by_key.values() for name in streams]
    seen = [name for name in used if name not in labels | plans]
    sampler = WindowSampler.of(
        cache, batch_size=1, shuffle=False, valid_only=seen, episodes=episodes
    )
    fps = 1e9 / sampler.period_ns
    fps = round(fps) if abs(fps - round(fps)) < 1e-3 else fps
    columns, lengths = _columns(cache, sampler, fps)
    tasks = dict(enumerate(cache.tasks))
    of_episodes = np.split(columns["task_index"], np.cumsum(lengths)[:-1])
    told = [[tasks[n] for n in np.unique(part).tolist() if n >= 0] for part in of_episodes]
    features = {key: _feature(cache, streams) for key, streams in by_key.items()}
    features |= {key: {"dtype": kind, "shape": (1,), "names": None} for key, kind in PLACES.items()}
    table = episodes_of(range(len(lengths)), lengths, told)
    meta = Meta(None, fps, features, tasks, table, partial(stats_of_cache, cache, by_key))
    return Source(cache, by_key, sampler, meta, FrameColumns(columns), None, frozenset(labels))


def _columns(
    cache: EpisodeCache, sampler: WindowSampler, fps: float
) -> tuple[dict[str, np.ndarray], list[int]]:
    """The places of all frames, and the lengths of the episodes."""
    spans = sampler.spans()
    counts = spans.counts[spans.counts > 0]
    frames = np.concatenate([np.arange(count) for count in counts])
    episodes, instants, _ = sampler.at(0, np.arange(sampler.items))
    columns = {
        "timestamp": (frames / fps).astype(np.float32),
        "frame_index": frames,
        "episode_index": np.repeat(np.arange(len(counts)), counts),
        "index": np.arange(len(frames)),
        "task_index": cache.task_index(episodes, instants),
    }
    return columns, counts.tolist()


def _named(cache: EpisodeCache, keys: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """By key of an item the streams whose values it has, one after the other: as `robocache to-lerobot` names its columns."""
    found = {
        key: (names,) if isinstance(names, str) else tuple(names)
        for key, names in (keys or {}).items()
    }
    given = [name for names in found.values() for name in names]
    if unknown := [name for name in given if name not in cache.streams]:
        known = ", ".join(cache.streams)
        raise ValueError(f"keys: expected streams of {known}, found {unknown[0]!r}")
    if twice := [name for name in given if given.count(name) > 1]:
        raise ValueError(f"keys: expected each stream once, found {twice[0]!r} twice")
    if clash := [key for key in found if key in PLACES or key == "task"]:
        raise ValueError(f"keys: expected another key than {clash[0]!r}, which all items have")
    topics = _topics(cache.configuration)
    # LeRobot has no sparse grids.
    free = {
        name: means
        for name, means in cache.streams.items()
        if name not in given and means["coordinates_shape"] is None
    }
    for name in [name for name in free if _OF_FEATURE.fullmatch(topics.get(name, ""))]:
        found.setdefault(topics[name][1:].replace("/", "."), (name,))
        del free[name]
    vectors = {name: {"encoder": "vector"} for name, means in free.items() if means["vector"]}
    actions = [name for name in ("action", "actions") if name in vectors]
    actions = actions or [name for name in vectors if free[name]["plans"]]
    if actions and "action" not in found:
        found["action"] = tuple(actions)
    if "observation.state" not in found:
        # Streams that `keys` names are taken already.
        state = state_of(vectors, None, [of for of in found.get("action", ()) if of in vectors])
        found |= {"observation.state": tuple(state)} if state else {}
    taken = {name for names in found.values() for name in names}
    for name, means in free.items():
        if name not in taken:
            image = f"observation.images.{name}"
            found[image if is_image(means) else column_key("observation", name)] = (name,)
    for key, names in found.items():
        if len(names) > 1 and (
            odd := [name for name in names if not cache.streams[name]["vector"]]
        ):
            raise ValueError(f"keys: expected vectors for {key!r}, found {odd[0]!r} among several")
    return found


def _topics(configuration: str) -> dict[str, str]:
    """By stream its topic, if it has one."""
    if not configuration:
        return {}
    import yaml

    streams = (yaml.safe_load(configuration) or {}).get("streams") or {}
    return {
        name: of["topic"]
        for name, of in streams.items()
        if isinstance(of, dict) and isinstance(of.get("topic"), str)
    }


def is_image(means: Mapping[str, Any]) -> bool:
    """True if a row is an image of three colours, or of one: its channels are first or last."""
    shape, channels = means["row_shape"], len(means["channels"])
    return (
        means["vector"] is None
        and len(shape) == 3
        and channels in (1, 3)
        and (channels in (shape[0], shape[2]))
    )


def _image(means: Mapping[str, Any]) -> dict[str, Any]:
    shape = means["row_shape"]
    height, width = shape[1:] if shape[0] == len(means["channels"]) else shape[:2]
    return {"shape": (height, width, 3), "names": ["height", "width", "channels"]}


def _feature(cache: EpisodeCache, streams: Sequence[str]) -> dict[str, Any]:
    first = cache.streams[streams[0]]
    if is_image(first):
        return {"dtype": "image", **_image(first)}
    if not first["vector"]:
        return {"dtype": "float32", "shape": tuple(first["row_shape"]), "names": None}
    several = len(streams) > 1
    names = [
        f"{name}.{channel}" if several else channel
        for name in streams
        for channel in cache.streams[name]["channels"]
    ]
    return {"dtype": "float32", "shape": (len(names),), "names": names}
