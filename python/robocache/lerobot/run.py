"""A run of `robocache to-lerobot`: it replays bags, and makes one dataset of what came of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..node import replay_command, share_folders, whole
from ..node import replay_options as of_replay
from ..node.summary import Findings, complete
from .actions import Actions, lags_ns
from .columns import Frames, action_of, columns
from .pieces import Pieces
from .tensors import Tensors
from .writing import ABOUT, about_of, counts_of, rate_hz, write_about, write_dataset, writer_of

#: The options of the replay whose tensors become a dataset. Tensors that are there are of an older run, which made no
#: dataset of them.
_REPLAY = {"format": "zarr", "bf16": "f32", "replace": True}


class Export:
    """What became of an export.

    Attributes:
        episodes, frames: the numbers of episodes and of frames of the dataset. Without any, there is none.
        failures: a line for each episode that failed, or one line for many that failed for the same reason.
        findings: what the user must know of the others.
        actions: by stream of actions how long before its frame it is taken [ns].
    """

    def __init__(self, counts, failures, findings, actions):
        (self.episodes, self.frames), self.failures = counts, list(failures)
        self.findings, self.actions = findings, dict(actions)


def write(bags, config, out, given):
    """Replays bags, and writes the dataset `out`. `given` are all options of `to_lerobot`. Returns an `Export`."""
    out = Path(out)
    asked = options(config, given)
    replayed = _replayed(out)
    partial = out.with_name(f"{out.name}.partial")
    replayed.mkdir(parents=True, exist_ok=True)
    with share_folders.held(replayed):
        code, outcomes = replay_command.replay(bags, config, replayed, **asked)
        tensors = _tensors(replayed, code, outcomes)
        found = _exported(partial, tensors, complete(outcomes), given)
        found.failures = [*replay_command.failures(outcomes), *found.failures]
        if found.episodes:
            _complete(partial, out)
        if not found.failures:
            shutil.rmtree(replayed)
    return found


def _exported(partial, tensors, summaries, given):
    """Writes a dataset of tensors to a folder. Returns an `Export`."""
    findings = Findings.of(summaries, "bag", has_steps=False)
    if tensors is None:
        return Export((0, 0), [], findings, {})
    streams = _streams(tensors.about["configuration"])
    names = action_of(streams, given["state"], given["action"])
    actions = Actions(tensors, lags_ns(streams, names))
    frames = Frames(tensors, actions)
    found = columns(tensors, list(streams), names, state=given["state"], images=given["images"])
    pieces = Pieces(frames, found, {each["name"]: each for each in summaries}, findings)
    pieces.choose(given["keep_invalid"], given["min_frames"] or rate_hz(tensors))
    made_of = about_of(tensors, found, actions)
    quality = given["codec"], given["crf"]
    of_video = dict(zip(("codec", "crf"), quality, strict=True))
    made_of["images"] = {"codec": "png"} if given["images"] else of_video
    about = write_dataset(
        partial,
        frames,
        found,
        made_of,
        pieces.kept,
        task=given["task"] or "",
        robot_type=given["robot_type"],
        quality=quality,
        layout=given["layout"],
    )
    return Export(counts_of(about), pieces.failures, findings, actions.lags_ns)


def made_of(
    bags: Any,
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    replay_options: Mapping[str, Any] | Iterable[str] = (),
    **given: Any,
) -> str:
    """A text that differs if the dataset that `to_lerobot` makes with these arguments may differ. Nothing is replayed.

    Raises ValueError if an argument does not fit.
    """
    asked = options(config, {**given, "replay_options": replay_options})
    episodes = replay_command.made_of(bags, config, _replayed(Path(out)), **asked)
    return json.dumps([given, episodes], default=str)


def options(config, given):
    """The options of the replay: its store has the rows of the streams of actions, too. `given` are options of `to_lerobot`."""
    streams = _streams(Path(config).read_text(encoding="utf-8", errors="replace"))
    # If it is no configuration, the replay says why.
    rows = {"rows": action_of(streams, given.get("state"), given.get("action"))} if streams else {}
    return of_replay.given(given.get("replay_options", ()), **_REPLAY, **rows)


def _streams(configuration):
    """The streams of a configuration by name, in their order; none if it is no configuration."""
    import yaml

    try:
        root = yaml.safe_load(configuration)
    except yaml.YAMLError:
        return {}
    streams = root.get("streams") if isinstance(root, dict) else None
    return {str(name): of for name, of in streams.items()} if isinstance(streams, dict) else {}


def _complete(partial, out):
    """Gives a dataset its name, in place of an older one."""
    older = out.with_name(f"{out.name}.old")
    shutil.rmtree(older, ignore_errors=True)
    if out.exists():
        out.rename(older)
    whole.complete(partial, out)
    shutil.rmtree(older, ignore_errors=True)


def _replayed(out):
    """The folder of the tensors of a dataset."""
    return out.with_name(f"{out.name}.replayed")


def expect_new(out, replace):
    """Raises ValueError if there is something at the path of a dataset, unless it is a dataset that may be replaced."""
    if not out.exists():
        return
    if not replace:
        raise ValueError(
            f"{out}: expected a folder that does not exist yet; --replace replaces a dataset"
        )
    if not (out / ABOUT).is_file():
        raise ValueError(
            f"{out}: --replace: expected a dataset of to-lerobot, found a folder without {ABOUT}"
        )


def _tensors(replayed, code, outcomes):
    """The store of the tensors of the episodes that did not fail; None if all failed.

    Raises RuntimeError if the run was stopped, or the store is an older one.
    """
    good = [of[kind] for of in outcomes for kind in ("done", "kept") if kind in of]
    failed = [outcome for outcome in outcomes if "failed" in outcome]
    if len(good) + len(failed) < len(outcomes):
        lines = "\n".join(replay_command.failures(outcomes))
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


def join(datasets, out, layout="lerobot", replace=False):
    """Makes one dataset of those of shares, in their order. Those are of the layout "lerobot".

    A dataset that does not exist has no episode. Returns the number of episodes and of frames.
    """
    import_needed()
    from .join import aggregate

    out = Path(out)
    expect_new(out, replace)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    datasets = [dataset for dataset in map(Path, datasets) if dataset.exists()]
    if not datasets:
        return 0, 0
    abouts = [json.loads((dataset / ABOUT).read_text()) for dataset in datasets]
    writer = aggregate(datasets, partial, writer_of(layout), abouts[0]["columns"])
    episodes = [episode for about in abouts for episode in about["episodes"]]
    about = {**abouts[0], "episodes": episodes}
    write_about(partial, about, writer, layout)
    _complete(partial, out)
    return counts_of(about)


def import_needed():
    """Imports what a dataset needs. Raises ImportError without pyarrow, PyAV or zarr."""
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
