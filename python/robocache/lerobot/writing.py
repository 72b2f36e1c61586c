"""A LeRobot dataset of a store of tensors: its files, and what it says of itself."""

import contextlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..contract import Contract
from .columns import valid_keys

#: The format of `meta/robocache.json`.
FORMAT = 1
#: The file of a dataset that says which episode is made of what.
ABOUT = Path("meta/robocache.json")
#: The file of a dataset with the counts of pixels that its statistics are of. A dataset of several is made with them.
PIXELS = Path("meta/robocache_pixels.json")


def about_of(tensors, columns, actions):
    """What a dataset says of its tensors. Its contract is that of the observations as the configuration has them: actions
    are what a policy gives, and `actions` says how long before its tick each was taken [ns]."""
    about = {key: tensors.about[key] for key in ("version", "configuration", "rate_hz")}
    # Who serves a policy of this dataset makes the same columns of live tensors.
    about["columns"] = {column.key: _column(column) for column in columns if column.steps}
    about["actions"] = {name: {"lag_ns": lag_ns} for name, lag_ns in actions.lags_ns.items()}
    if tensors.about.get("contract") is None:  # tensors of an older version
        return about
    contract = Contract(json.dumps(tensors.about["contract"]))
    observed = [name for name in contract.streams if name not in actions]
    if not observed:
        return about
    contract = contract.only(*observed)
    return {**about, "contract": contract.value, "contract_digest": contract.digest}


def write_dataset(root, frames, columns, made_of, pieces, *, task, robot_type, quality, layout):
    """Writes a dataset.

    Args:
        root: its folder. What is there is removed.
        frames: a `Frames`.
        columns: of the dataset.
        made_of: what it says of itself, besides its episodes.
        pieces: a list of (episode, first, end), as of `Pieces.kept`. Without any, nothing is written.
        task: of episodes that have none.
        robot_type: what the dataset says of the robot.
        quality: codec and crf of videos.
        layout: of `to_lerobot`.

    Returns what the dataset says of itself.
    """
    shutil.rmtree(root, ignore_errors=True)
    about = {"format": FORMAT, **made_of, "episodes": []}
    if not pieces:
        return about
    with _exporter(root, frames, columns, robot_type, quality, layout) as (writer, write):
        for episode, first, end in pieces:
            write(first, end, episode["task"] or task)
            ticks = frames.plain("tick", first, end)
            names = {key: episode[key] for key in ("name", "bag", "task")}
            names |= {"marks": episode["marks"]} if episode.get("marks") else {}
            about["episodes"].append({**names, "first_tick": int(ticks[0]), "ticks": len(ticks)})
    write_about(root, about, writer, layout)
    return about


def write_about(root, about, writer, layout):
    """Writes what a dataset says of itself, and what its layout adds. `writer` has written the rest."""
    pixels = {key: counts.tolist() for key, counts in writer.pixels.items()}
    (root / PIXELS).write_text(json.dumps(pixels) + "\n")
    (root / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    if layout == "gr00t":
        from .gr00t import write_modality

        write_modality(root, about["columns"])


def counts_of(about):
    """The numbers of episodes and of frames of a dataset, by what it says of itself."""
    return len(about["episodes"]), sum(episode["ticks"] for episode in about["episodes"])


def writer_of(layout):
    """The class that writes a layout."""
    if layout == "gr00t":
        from .gr00t import Gr00tWriter

        return Gr00tWriter
    from .files import DatasetWriter

    return DatasetWriter


def rate_hz(tensors):
    """The rate of the frames. LeRobot takes whole numbers alone."""
    if tensors.period_ns is None:
        return 1  # of no frames
    rate = 1e9 / tensors.period_ns
    if abs(rate - round(rate)) > 1e-6 * rate:
        raise ValueError(
            f"expected a whole number of ticks per second, found {rate:.6g}: give --rate-hz"
        )
    return round(rate)


@contextlib.contextmanager
def _exporter(root, frames, columns, robot_type, quality, layout):
    """Gives the writer of a dataset, and a function of (first, end, task) that writes these ticks as an episode. The dataset
    is complete at the end."""
    from .episode import Exporter
    from .video import Encoder, encoding

    fps = rate_hz(frames.tensors)
    features = {column.key: dict(column.feature) for column in columns}
    for feature in features.values():
        if feature["dtype"] == "video":
            feature["info"] = encoding(*quality, fps, feature["shape"])
    if layout == "gr00t":
        from .gr00t import modality

        # If something is missing, it is said before the episodes are encoded.
        modality({column.key: _column(column) for column in columns if column.steps}, features)
    valid = {column.key: valid_keys(column.steps) for column in columns if column.steps}
    writer = writer_of(layout)(root, fps, features, valid, robot_type)

    def encoder(path, shape):
        return Encoder(path, *quality, fps, shape)

    with ThreadPoolExecutor() as pool:
        yield writer, Exporter(writer, frames, columns, encoder, pool, root).write
    writer.finish()


def _column(column):
    return {"steps": column.steps, "names": column.feature["names"]}
