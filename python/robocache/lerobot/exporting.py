"""`to_lerobot`: its options, and what it says."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..node import share_folders
from . import run, shares

#: What `layout` may be.
LAYOUTS = ("lerobot", "gr00t")


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
    these stay in `OUT.replayed`. If you run again with `replace`, only the failed ones are replayed. Episodes that
    `robocache watch` has converted to `OUT.watched` are not converted again.

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


def export(bags, config, out, **given):
    """As `to_lerobot`. Returns an `Export`, and says nothing."""
    given = checked(config, given)
    run.expect_new(Path(out), given["replace"])
    watched = share_folders.watched_of(Path(out))
    asked = run.options(config, given)
    # A list of episodes is of all bags, and a share of Ray has a folder of its own.
    if watched.is_dir() and not asked.get("episodes") and not asked.get("share"):
        return shares.write(bags, config, Path(out), watched, given)
    return run.write(bags, config, out, given)


def checked(config, given):
    """The options of `to_lerobot`, with its defaults. Nothing is replayed.

    Raises ValueError or TypeError if one does not fit, ImportError without pyarrow, PyAV or zarr, OSError if the configuration
    cannot be read.
    """
    given = _with_defaults(given)
    run.import_needed()
    from .video import check

    check(given["codec"], given["crf"])
    _check_layout(given["layout"], given["images"])
    _check_frames(given["keep_invalid"], given["min_frames"])
    run.options(config, given)
    return given


def _with_defaults(given):
    """The options of `to_lerobot`, with its defaults."""
    known = inspect.signature(to_lerobot).parameters.values()
    options = {each.name: each.default for each in known if each.kind is each.KEYWORD_ONLY}
    if unknown := sorted(set(given) - set(options)):
        raise TypeError(f"to_lerobot() got an unexpected keyword argument {unknown[0]!r}")
    return {**options, **given}


def _check_frames(keep_invalid, min_frames):
    """Raises ValueError if these two do not fit."""
    if min_frames is None:
        return
    if keep_invalid:
        raise ValueError("--min-frames: expected none with --keep-invalid, which keeps all ticks")
    if min_frames < 1:
        raise ValueError(f"--min-frames: expected 1 or more, found {min_frames}")


def _check_layout(layout, images):
    """Raises ValueError if there is no such layout, or it has no images."""
    if layout not in LAYOUTS:
        raise ValueError(f"--layout: expected {' or '.join(LAYOUTS)}, found {layout!r}")
    if layout == "gr00t" and images:
        raise ValueError(
            "--images: expected videos with --layout gr00t, because GR00T reads no images"
        )


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
