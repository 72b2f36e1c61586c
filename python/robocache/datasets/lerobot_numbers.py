"""The numbers of a LeRobot dataset as streams of arrays, without a replay.

Names, instants and rules are those of the configuration that `robocache import` generates, so that a dataset with images
and one without have the same.
"""

import numpy as np

from .. import contract
from ..node.summary import Findings
from . import frame_stamps, lerobot_rows
from .dataset import Topics, joint_names


def of_files(root, episodes=None, split=None):
    """What `EpisodeCache.from_arrays` takes: the streams, the lengths and the episodes, the configuration and
    the frames per second.

    Args:
        root: of the dataset.
        episodes, split: of `robocache.importing.import_dataset`.

    Warns of `robocache.importing.remarks`, of rows with NaN, and of stamps that contradict the frames per second.

    Raises ValueError if it is no dataset or an episode cannot be read, ImportError without pyarrow and PyYAML.
    """
    from . import importing

    dataset = importing.opened(root)
    chosen = importing.chosen(dataset, episodes, split)
    if not chosen:
        raise ValueError(f"{root}: expected an episode or more, found none")
    text = importing.generated(dataset)
    importing.warn_of(importing.remarks(dataset))
    streams = _streams(dataset, text)
    if not streams:
        raise ValueError(f"{root}: expected numbers, found images alone: from_dataset has these")
    parts, about = _read(dataset, chosen, {of.feature for of in streams.values()})
    found, lengths = {}, {}
    for name, stream in streams.items():
        of_stream = [part[stream.feature] for part in parts]
        rows = [rows[:, stream.elements] for _, rows in of_stream]
        found[name] = {
            "rows": np.concatenate(rows),
            "stamp_ns": np.concatenate([stamps for stamps, _ in of_stream]),
            **stream.rules,
        }
        lengths[name] = [len(stamps) for stamps, _ in of_stream]
    return found, lengths, about, text, dataset.fps


class _Stream:
    """A stream of a configuration: its feature, which elements of it, and the rules of `EpisodeCache.from_arrays`."""

    def __init__(self, feature, joints, meaning):
        place = {joint: at for at, joint in enumerate(joint_names(feature))}
        self.feature, self.elements = feature.name, [place[joint] for joint in joints]
        self.rules = {
            "channels": meaning["channels"],
            "lanes": meaning["encoder"]["lanes"],
            "strategy": meaning["strategy"],
            "max_age_ms": meaning["max_age_ns"] / 1e6,
            "max_gap_ms": meaning.get("max_gap_ns", 0) / 1e6,
            "fill": meaning["fill"],
        }


def _streams(dataset, text):
    """The streams of numbers of a generated configuration, by name."""
    import yaml

    topics = Topics(dataset)
    features = dict(zip(topics.names, topics.features, strict=True))
    meanings = contract.of(text).value["streams"]
    named = yaml.safe_load(text)["streams"].items()
    return {
        name: _Stream(features[stream["topic"]], stream["joints"], meanings[name])
        for name, stream in named
        if meanings[name]["kind"] == "vector"
    }


def _read(dataset, episodes, names):
    """For each episode a dict by feature of its valid frames (stamps, rows of float32), and what is said of it."""
    from . import importing

    parts, about, failures, dropped, spacings = [], [], [], 0, {}
    for episode in episodes:
        try:
            stamp_ns, _ = lerobot_rows.instants(dataset, episode)
            spacing = frame_stamps.other_spacing(stamp_ns, dataset.fps)
            columns = dataset.numbers(episode, sorted(names))
            part = {}
            for name, values in columns.items():
                rows = values.reshape(len(values), -1).astype(np.float32)
                finite = np.isfinite(rows).all(axis=1)
                dropped += len(rows) - int(finite.sum())
                valid = lerobot_rows.valid(dataset, episode, name)
                keep = finite if valid is None else finite & valid
                part[name] = stamp_ns[keep], rows[keep]
            tasks = lerobot_rows.tasks(dataset, episode, stamp_ns)
        except (ValueError, OSError) as error:
            failures.append((episode.number, error))
            continue
        parts.append(part)
        if spacing is not None:
            spacings[episode.name] = spacing
        task = tasks[0]["task"] if tasks else None
        several = {"tasks": tasks} if len(tasks) > 1 else {}
        about.append({"name": episode.name, "task": task, **several})
    if failures:
        failed = {number for number, _ in failures}
        others = [episode.number for episode in episodes if episode.number not in failed]
        few = ", ".join(map(str, others[:20])) + (", ..." if len(others) > 20 else "")
        way = f"; episodes=[{few}] takes the others" if others else ""
        raise ValueError(
            f"expected every episode, found {len(failures)} of {len(episodes)} that cannot be read{way}. The first: "
            f"{failures[0][1]}"
        )
    if dropped:
        text = f"{dataset.root}: {dropped} rows have NaN or infinity, and are left out"
        importing.warn_of([text])
    if spacings:
        told = frame_stamps.told_of_spacings(spacings, dataset.fps)
        importing.warn_of(Findings(told).lines())
    return parts, about
