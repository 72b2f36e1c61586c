"""Recorded bags as a LeRobot dataset: `robocache to-lerobot`.

    from robocache.lerobot import to_lerobot
    to_lerobot(["recordings/"], "robot.yaml", "dataset/", action=["command"])

It needs pyarrow, PyAV and zarr, but no LeRobot: `pip install 'dist/WHEEL.whl[lerobot]'`, with the wheel of `make wheel`.
docs/lerobot.md explains the columns.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from . import _command, _whole
from ._episodes import Tensors, present_step
from ._lerobot_columns import columns, state_and_action
from .contract import Contract

#: What `layout` may be.
LAYOUTS = ("lerobot", "gr00t")
#: The format of `meta/robocache.json`.
FORMAT = 1
#: The options of the replay whose tensors become a dataset. Tensors that are there are of an older run, which made no
#: dataset of them.
_REPLAY = ("--format=zarr", "--bf16=f32", "--replace")
#: The file of a dataset that says which episode is made of what.
ABOUT = Path("meta/robocache.json")


def to_lerobot(
    bags: Any,
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    state: Sequence[str] | None = None,
    action: Sequence[str] | None = None,
    task: str | None = None,
    images: bool = False,
    codec: str = "libsvtav1",
    crf: int = 30,
    drop_invalid: bool = False,
    robot_type: str | None = None,
    layout: str = "lerobot",
    replay_options: Iterable[str] = (),
) -> tuple[int, int]:
    """Replays bags and writes a LeRobot dataset of their ticks, a frame for each tick.

    A run that was interrupted goes on with the episodes that it had replayed. The dataset has its
    name only when it is complete. If an episode fails, the dataset has the others; the tensors of
    these stay in `OUT.replayed`. If you remove the dataset and run again, only the failed ones are replayed.

    Args:
        bags: bags, or folders of bags.
        config: the path of the configuration.
        out: the folder of the dataset, which must not exist.
        state, action: streams of vectors that become `observation.state` and `action`. By default
            the action is the stream `action` or `actions`, or else all plans; the state is the
            stream `state`, or else all other vectors.
        task: the task of the episodes that have none.
        images: keep images as PNG, without loss, rather than as videos.
        codec, crf: the codec of videos, and its quality (less is better).
        drop_invalid: end an episode before a tick at which a stream is not valid, and leave the
            tick out; otherwise the tick is kept and its column `valid.STREAM` is false.
        robot_type: what the dataset says of the robot.
        layout: "lerobot" for v3.0, or "gr00t" for what Isaac-GR00T reads: v2.1 with `meta/modality.json`.
        replay_options: further arguments of `robocache replay`, such as `["--rate-hz=30"]`.

    Returns the number of episodes and of frames. If there is no frame, there is no dataset.

    Raises EpisodesFailed when the dataset is complete, if an episode could not be replayed;
    ValueError if a stream does not fit or `out` exists, ImportError without pyarrow, PyAV or zarr,
    and RuntimeError if the replay was stopped.
    """
    _import_needed()
    from ._lerobot_video import check

    check(codec, crf)
    check_layout(layout, images)
    out = Path(out)
    expect_new(out)
    replayed = _replayed(out)
    partial = out.with_name(f"{out.name}.partial")
    replayed.mkdir(parents=True, exist_ok=True)
    with _held(replayed):
        code, outcomes = _command.replay(bags, config, replayed, *_REPLAY, *replay_options)
        failures = _command.failures(outcomes)
        about: dict[str, Any] = {"episodes": []}
        tensors = _tensors(replayed, code, outcomes)
        if tensors is not None:
            order = _streams(tensors.about["configuration"])
            found, streams = columns(tensors, order, state=state, action=action, images=images)
            episodes = list(_episodes(tensors, streams if drop_invalid else []))
            quality = codec, crf
            made_of = _about(tensors, found, state, action)
            made_of["images"] = {"codec": "png"} if images else {"codec": codec, "crf": crf}
            given = (episodes, task or "", robot_type, quality, layout)
            about = _dataset(partial, tensors, found, given, made_of)
        if about["episodes"]:
            _whole.complete(partial, out)
        if not failures:
            shutil.rmtree(replayed)
    return counted(_counts(about), failures)


def made_of(
    bags: Any,
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    replay_options: Iterable[str] = (),
    **given: Any,
) -> str:
    """A text that differs if the dataset that `to_lerobot` makes with these arguments may differ. Nothing is replayed.

    Raises ValueError if an argument does not fit.
    """
    episodes = _command.made_of(bags, config, _replayed(out), *_REPLAY, *replay_options)
    return json.dumps([given, episodes], default=str)


class EpisodesFailed(RuntimeError):
    """Episodes could not be replayed. The dataset has the other episodes. If all failed, there is no dataset.

    Attributes:
        failures: a line for each of them.
        episodes, frames: the numbers of episodes and of frames of the dataset.
    """

    def __init__(self, failures: list[str], episodes: int, frames: int) -> None:
        left_out = "so the dataset has the others" if episodes else "so there is no dataset"
        lines = "\n".join(failures)
        super().__init__(f"expected every episode, {left_out}:\n{lines}")
        self.failures, self.episodes, self.frames = failures, episodes, frames

    def __reduce__(self):
        return EpisodesFailed, (self.failures, self.episodes, self.frames)


def counted(counts, failures):
    """The numbers of episodes and of frames of a dataset. Raises EpisodesFailed if an episode failed."""
    if failures:
        raise EpisodesFailed(failures, *counts)
    return counts


def _replayed(out):
    """The folder of the tensors of a dataset."""
    return out.with_name(f"{out.name}.replayed")


def expect_new(out):
    """Raises ValueError if there is something at the path of a dataset."""
    if out.exists():
        raise ValueError(f"{out}: expected a folder that does not exist yet")


def _tensors(replayed, code, outcomes):
    """The store of the tensors of the episodes that did not fail; None if all failed.

    Raises RuntimeError if the run was stopped, or the store is an older one.
    """
    good = [of[kind] for of in outcomes for kind in ("done", "kept") if kind in of]
    failed = [outcome for outcome in outcomes if "failed" in outcome]
    if len(good) + len(failed) < len(outcomes):
        lines = "\n".join(_command.failures(outcomes))
        raise RuntimeError(f"the replay was stopped, so there is no dataset:\n{lines}")
    if not good:
        if code and not failed:
            raise RuntimeError("the replay failed, so there is no dataset")
        return None  # a share may have no bag
    store, names = replayed / "tensors.zarr", [summary["name"] for summary in good]
    # When the store is complete, replay removes the parts that it was made of.
    waiting = any((replayed / "tensors.zarr.parts" / name).exists() for name in names)
    tensors = Tensors(store) if store.exists() and not waiting else None
    stored = [] if tensors is None else [of["name"] for of in tensors.about["episodes"]]
    if stored != names or (code and not failed):
        found = f"an older one of {stored}" if stored else "none"
        raise RuntimeError(f"{store}: expected a store of the tensors of {names}, found {found}")
    return tensors


def check_layout(layout, images):
    """Raises ValueError if there is no such layout, or it has no images."""
    if layout not in LAYOUTS:
        raise ValueError(f"--layout: expected {' or '.join(LAYOUTS)}, found {layout!r}")
    if layout == "gr00t" and images:
        raise ValueError(
            "--images: expected videos with --layout gr00t, because GR00T reads no images"
        )


def _writer_of(layout):
    """The class that writes a layout."""
    if layout == "gr00t":
        from ._lerobot_gr00t import Gr00tWriter

        return Gr00tWriter
    from ._lerobot_files import DatasetWriter

    return DatasetWriter


def join(datasets, out, layout="lerobot"):
    """Makes one dataset of those of shares, in their order. Those are of the layout "lerobot".

    A dataset that does not exist has no episode. Returns the number of episodes and of frames.
    """
    _import_needed()
    from ._lerobot_join import aggregate

    out = Path(out)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    datasets = [dataset for dataset in map(Path, datasets) if dataset.exists()]
    if not datasets:
        return 0, 0
    aggregate(datasets, partial, _writer_of(layout))
    abouts = [json.loads((dataset / ABOUT).read_text()) for dataset in datasets]
    episodes = [episode for about in abouts for episode in about["episodes"]]
    about = {**abouts[0], "episodes": episodes}
    _write_about(partial, about, layout)
    _whole.complete(partial, out)
    return _counts(about)


def _about(tensors, found, state, action):
    """What a dataset says of its tensors. Its contract is that of the observations as the configuration has them: actions
    are what a policy gives."""
    about = {key: tensors.about[key] for key in ("version", "configuration", "rate_hz")}
    # Who serves a policy of this dataset makes the same columns of live tensors.
    about["columns"] = {column.key: _column(column) for column in found if column.steps}
    if tensors.about.get("contract") is None:  # tensors of an older version
        return about
    contract = Contract(json.dumps(tensors.about["contract"]))
    _, action = state_and_action(tensors.segments, state, action)
    observed = [name for name in contract.streams if name not in action]
    if not observed:
        return about
    contract = contract.only(*observed)
    return {**about, "contract": contract.value, "contract_digest": contract.digest}


def _column(column):
    return {"steps": column.steps, "names": column.feature["names"]}


def _dataset(partial, tensors, found, given, made_of):
    """Writes a dataset at `partial`. Returns what it says of itself."""
    episodes, task, robot_type, quality, layout = given
    shutil.rmtree(partial, ignore_errors=True)
    listed = []
    if episodes:
        with _exporter(partial, tensors, found, robot_type, quality, layout) as write:
            for episode, first, end in episodes:
                write(first, end, episode["task"] or task)
                ticks = tensors.read("tick", first, end)
                names = {key: episode[key] for key in ("name", "bag", "task")}
                listed.append({**names, "first_tick": int(ticks[0]), "ticks": len(ticks)})
    about = {"format": FORMAT, **made_of, "episodes": listed}
    if listed:
        _write_about(partial, about, layout)
    return about


@contextlib.contextmanager
def _exporter(root, tensors, found, robot_type, quality, layout):
    """Gives a function of (first, end, task) that writes these ticks as an episode. The dataset is complete at the end."""
    from ._lerobot_episode import Exporter
    from ._lerobot_video import Encoder, encoding

    fps = _rate_hz(tensors)
    features = {column.key: dict(column.feature) for column in found}
    for feature in features.values():
        if feature["dtype"] == "video":
            feature["info"] = encoding(*quality, fps, feature["shape"])
    if layout == "gr00t":
        from ._lerobot_gr00t import modality

        # If something is missing, it is said before the episodes are encoded.
        modality({column.key: _column(column) for column in found if column.steps}, features)
    writer = _writer_of(layout)(root, fps, features, robot_type)

    def encoder(path, shape):
        return Encoder(path, *quality, fps, shape)

    with ThreadPoolExecutor() as pool:
        yield Exporter(writer, tensors, found, encoder, pool, root).write
    writer.finish()


def _write_about(root, about, layout):
    """Writes what a dataset says of itself, and what its layout adds."""
    (root / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    if layout == "gr00t":
        from ._lerobot_gr00t import write_modality

        write_modality(root, about["columns"])


def _counts(about):
    return len(about["episodes"]), sum(episode["ticks"] for episode in about["episodes"])


def _import_needed():
    os.environ.setdefault("SVT_LOG", "1")  # the encoder's errors alone
    try:
        import av  # noqa: F401
        import pyarrow  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "expected pyarrow, PyAV and zarr: pip install 'dist/WHEEL.whl[lerobot]', with the wheel of "
            f"`make wheel` ({error})"
        ) from error


@contextlib.contextmanager
def _held(folder):
    """Keeps other runs out of a folder."""
    with (folder / "to-lerobot.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder}: another run writes into it") from None
        yield


def _streams(configuration):
    """The names of the streams in the order of the configuration."""
    import yaml

    return [str(name) for name in yaml.safe_load(configuration)["streams"]]


def _rate_hz(tensors):
    """The rate of the frames. LeRobot takes whole numbers alone."""
    if tensors.period_ns is None:
        return 1  # of no frames
    rate = 1e9 / tensors.period_ns
    if abs(rate - round(rate)) > 1e-6 * rate:
        raise ValueError(
            f"expected a whole number of ticks per second, found {rate:.6g}: give --rate-hz"
        )
    return round(rate)


def _episodes(tensors, required):
    """Yields (episode, first, end): evenly spaced ticks at which the required streams are valid."""
    for episode, first, end in tensors.runs():
        use = np.ones(end - first, bool)
        for name in required:
            step = present_step(tensors.segments[name])
            use &= tensors.read(f"{name}.valid", first, end, step)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], use, [False]])))
        for start, stop in edges.reshape(-1, 2).tolist():
            yield episode, first + start, first + stop


def add_options(parser):
    """Adds what `to_lerobot` takes to a parser of argparse."""
    _command.add_places(parser, "the folder of the dataset; it must not exist")
    names = {"type": lambda text: text.split(","), "metavar": "STREAM,..."}
    parser.add_argument(
        "--state",
        help="streams of observation.state [default: state, or all vectors but the action]",
        **names,
    )
    parser.add_argument(
        "--action", help="streams of action [default: action or actions, or all plans]", **names
    )
    parser.add_argument("--task", help="the task of the episodes that have none")
    parser.add_argument("--images", action="store_true", help="keep images as PNG, without loss")
    parser.add_argument("--codec", default="libsvtav1", help="of videos [default: %(default)s]")
    parser.add_argument("--crf", type=int, default=30, help="quality of videos [default: 30]")
    parser.add_argument(
        "--drop-invalid",
        action="store_true",
        help="end an episode before a tick at which a stream is not valid",
    )
    parser.add_argument("--robot-type", help="what the dataset says of the robot")
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        default="lerobot",
        help="lerobot: v3.0; gr00t: what Isaac-GR00T reads, v2.1 with meta/modality.json [default: lerobot]",
    )
    _command.add_replay_options(parser)


def options(parser, parsed):
    """What `add_options` has parsed, as arguments of `to_lerobot` by name."""
    names = "state action task images codec crf drop_invalid robot_type layout".split()
    given = {name: getattr(parsed, name) for name in names}
    return {**given, "replay_options": _command.replay_options(parser, parsed)}


def main(arguments):
    """The command `robocache to-lerobot`. Returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="robocache to-lerobot",
        description="Replay bags and write their ticks as a LeRobot dataset (v3.0, or v2.1 for GR00T). A tick is a "
        "frame. Where ticks are missing, the episode ends and another one begins. "
        "docs/lerobot.md explains the columns.",
    )
    add_options(parser)
    parsed = parser.parse_args(arguments)
    given = options(parser, parsed)

    def write():
        return to_lerobot(parsed.bags, parsed.config, parsed.out, **given)

    return _command.exit_code(lambda: told(parsed.out, write))


def told(out, write):
    """Calls `write`, which writes a dataset, and says what it wrote. Returns the exit code."""
    failed = None
    try:
        episodes, frames = write()
    except EpisodesFailed as error:
        episodes, frames, failed = error.episodes, error.frames, error
    if failed is not None:
        print(failed, file=sys.stderr)
    if episodes:
        print(f"{out}: {episodes} episodes, {frames} frames")
    return 0 if episodes and failed is None else 1
