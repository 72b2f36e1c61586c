"""A run of `robocache to-lerobot`: it replays bags, and makes one dataset of what came of them."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..node import replay_command, whole
from ..node import replay_options as of_replay
from ..node.summary import Findings, complete
from .actions import Actions, lags_ns
from .columns import Frames, action_of, columns
from .pieces import Pieces
from .tensors import Tensors
from .writing import ABOUT, about_of, counts_of, rate_hz, write_about, write_dataset, writer_of

#: What `layout` may be.
LAYOUTS = ("lerobot", "gr00t")
#: The options of the replay whose tensors become a dataset. Tensors that are there are of an older run, which made no
#: dataset of them.
_REPLAY = {"format": "zarr", "bf16": "f32", "replace": True}


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
    keep_invalid: bool = False,
    min_frames: int | None = None,
    robot_type: str | None = None,
    layout: str = "lerobot",
    replace: bool = False,
    replay_options: Mapping[str, Any] | Iterable[str] = (),
) -> tuple[int, int]:
    """Replays bags and writes a LeRobot dataset of their ticks, a frame for each tick.

    If a stream of vectors or of images is not valid at a tick, the tick is left out: an episode ends before
    it, and another one begins behind it. An action is what was commanded at the tick, also if its message came later.

    A run that was interrupted goes on with the episodes that it had replayed. The dataset has its
    name only when it is complete. If an episode fails, the dataset has the others; the tensors of
    these stay in `OUT.replayed`. If you run again with `replace`, only the failed ones are replayed.

    Args:
        bags: bags, or folders of bags.
        config: the path of the configuration.
        out: the folder of the dataset.
        state, action: streams of vectors that become `observation.state` and `action`. By default
            the action is the stream `action` or `actions`, or else all plans; the state is the
            stream `state`, or else all other vectors.
        task: the task of the episodes that have none.
        images: keep images as PNG, without loss, rather than as videos.
        codec, crf: the codec of videos, and its quality (less is better).
        keep_invalid: keep ticks at which a stream is not valid. Their column `valid.STREAM` is false.
        min_frames: the fewest frames of an episode. Shorter ones are left out. By default those of one second. Not with
            `keep_invalid`.
        robot_type: what the dataset says of the robot.
        layout: "lerobot" for v3.0, or "gr00t" for what Isaac-GR00T reads: v2.1 with `meta/modality.json`.
        replace: replace the dataset that is at `out`, when the new one is complete.
        replay_options: options of `robocache replay` by name, such as `{"rate_hz": 30}`, or its words, such as
            `["--rate-hz=30"]`.

    Returns the number of episodes and of frames. Warns of what was left out, of missing topics, of dropped messages and of
    damage.

    Raises EpisodesFailed when the dataset is complete, if an episode has no frame or could not be replayed;
    ValueError if a stream does not fit, no stream is of actions or `out` exists, ImportError without pyarrow, PyAV or zarr,
    and RuntimeError if the replay was stopped or no frame is left.
    """
    found = export(
        bags,
        config,
        out,
        state=state,
        action=action,
        task=task,
        images=images,
        codec=codec,
        crf=crf,
        keep_invalid=keep_invalid,
        min_frames=min_frames,
        robot_type=robot_type,
        layout=layout,
        replace=replace,
        replay_options=replay_options,
    )
    return counted(found)


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


def export(bags, config, out, **given):
    """As `to_lerobot`. Returns an `Export`, and says nothing."""
    given = checked(config, given)
    out = Path(out)
    expect_new(out, given["replace"])
    asked = _options(config, given["state"], given["action"], given["replay_options"])
    replayed = _replayed(out)
    partial = out.with_name(f"{out.name}.partial")
    replayed.mkdir(parents=True, exist_ok=True)
    with _held(replayed):
        code, outcomes = replay_command.replay(bags, config, replayed, **asked)
        tensors = _tensors(replayed, code, outcomes)
        found = _exported(partial, tensors, complete(outcomes), given)
        found.failures = [*replay_command.failures(outcomes), *found.failures]
        if found.episodes:
            _complete(partial, out)
        if not found.failures:
            shutil.rmtree(replayed)
    return found


def checked(config, given):
    """The options of `to_lerobot`, with its defaults. Nothing is replayed.

    Raises ValueError or TypeError if one does not fit, ImportError without pyarrow, PyAV or zarr, OSError if the configuration
    cannot be read.
    """
    given = _with_defaults(given)
    _import_needed()
    from .video import check

    check(given["codec"], given["crf"])
    _check_layout(given["layout"], given["images"])
    _check_frames(given["keep_invalid"], given["min_frames"])
    _options(config, given["state"], given["action"], given["replay_options"])
    return given


def _with_defaults(given):
    """The options of `to_lerobot`, with its defaults."""
    known = inspect.signature(to_lerobot).parameters.values()
    options = {each.name: each.default for each in known if each.kind is each.KEYWORD_ONLY}
    if unknown := sorted(set(given) - set(options)):
        raise TypeError(f"to_lerobot() got an unexpected keyword argument {unknown[0]!r}")
    return {**options, **given}


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
    asked = _options(config, given.get("state"), given.get("action"), replay_options)
    episodes = replay_command.made_of(bags, config, _replayed(Path(out)), **asked)
    return json.dumps([given, episodes], default=str)


def _options(config, state, action, given):
    """The options of the replay: its store has the rows of the streams of actions, too."""
    streams = _streams(Path(config).read_text(encoding="utf-8", errors="replace"))
    # If it is no configuration, the replay says why.
    rows = {"rows": action_of(streams, state, action)} if streams else {}
    return of_replay.given(given, **_REPLAY, **rows)


class EpisodesFailed(RuntimeError):
    """Episodes have no frame, or could not be replayed. The dataset has the other episodes. If all failed, there is none.

    Attributes:
        failures: a line for each of them, or one line for many that failed for the same reason.
        episodes, frames: the numbers of episodes and of frames of the dataset.
    """

    def __init__(self, failures: list[str], episodes: int, frames: int) -> None:
        left_out = "so the dataset has the others" if episodes else "so there is no dataset"
        lines = "\n".join(failures)
        super().__init__(f"expected every episode, {left_out}:\n{lines}")
        self.failures, self.episodes, self.frames = failures, episodes, frames

    def __reduce__(self):
        return EpisodesFailed, (self.failures, self.episodes, self.frames)


def counted(found):
    """The numbers of episodes and of frames of an `Export`. Warns of what it found.

    Raises EpisodesFailed if an episode failed, and RuntimeError if no frame is left.
    """
    if lines := found.findings.lines():
        warnings.warn("\n".join(lines), RuntimeWarning, stacklevel=3)
    counts = found.episodes, found.frames
    if found.failures:
        raise EpisodesFailed(found.failures, *counts)
    if why := nothing_left(found):
        raise RuntimeError(why)
    return counts


def nothing_left(found):
    """Why there is no dataset, though no episode failed; None if there is one, or there was no episode."""
    if found.episodes or not found.findings.valid:
        return None
    return "no frame is left, so there is no dataset: all pieces are shorter than --min-frames"


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


def _check_frames(keep_invalid, min_frames):
    """Raises ValueError if these two do not fit."""
    if min_frames is None:
        return
    if keep_invalid:
        raise ValueError("--min-frames: expected none with --keep-invalid, which keeps all ticks")
    if min_frames < 1:
        raise ValueError(f"--min-frames: expected 1 or more, found {min_frames}")


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


def _check_layout(layout, images):
    """Raises ValueError if there is no such layout, or it has no images."""
    if layout not in LAYOUTS:
        raise ValueError(f"--layout: expected {' or '.join(LAYOUTS)}, found {layout!r}")
    if layout == "gr00t" and images:
        raise ValueError(
            "--images: expected videos with --layout gr00t, because GR00T reads no images"
        )


def join(datasets, out, layout="lerobot", replace=False):
    """Makes one dataset of those of shares, in their order. Those are of the layout "lerobot".

    A dataset that does not exist has no episode. Returns the number of episodes and of frames.
    """
    _import_needed()
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
