"""`replay`: recorded bags through the pipeline, tick by tick, without files. `replay_to`: into files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .. import _native
from ..contract import config_text
from ..message.tensor import FusedTensor
from ..message.views import Views
from .pipeline import device_number

#: A path of bags, or several.
Bags = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What `replay` and `replay_to` take alike; `replay` explains it."""

    episodes: str | os.PathLike | None = None
    episodes_by: str | None = None
    start: float | str | None = None
    end: float | str | None = None
    rate_hz: float | None = None
    remap: Iterable[str] | Mapping[str, str] = ()
    time: str | None = None
    backend: str | None = None

    def given(self) -> dict[str, Any]:
        """The values by name. `robocache replay` has the defaults of those that are None."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        given |= {name: _seconds(given[name]) for name in ("start", "end")}
        if self.rate_hz is not None:
            given["rate_hz"] = float(self.rate_hz)
        if isinstance(self.remap, Mapping):
            given["remap"] = [f"{a}:={b}" for a, b in self.remap.items()]
        else:
            given["remap"] = list(self.remap)
        return given


def replay(
    bags: Bags,
    config: str | os.PathLike[str] | Mapping[str, Any],
    *,
    device: Any = 0,
    digest: bool = False,
    threads: int | None = None,
    **options: Any,
) -> list[Episode]:
    """Returns the episodes of bags: a list of `Episode`, each of which iterates over its tensors.

        for episode in robocache.replay("bags/", "robot.yaml"):
            for tensor in episode:
                use(tensor["joints"].float32())
            print(episode.summary["ticks"])

    The tensors are bit for bit those of `robocache replay`.

    Args:
        bags: a path or a list of paths of bags, or of folders of bags.
        config: a path, the text of a configuration, or a dict.
        device: the GPU, as of `Pipeline`.
        digest: whether each tensor gets the node's digest.
        threads: threads that encode images and clouds; None for as many as there are cores. The tensors
            do not depend on it.
        options: those below. What is not given is as in `robocache replay`.
        episodes: a CSV file of episodes, as of `robocache replay --episodes`.
        episodes_by: a topic that says when an episode is, as of `--episodes-by`.
        start, end: the first and the last instant [s], from the start of each bag or since 1970.
        rate_hz: the rate of the ticks, in place of the configuration's.
        remap: strings FROM:=TO, or a dict: topics that have other names in the bags.
        time: "auto", "receive", "clock", "header" or "header:/TOPIC": which clock the ticks are on.
        backend: where to compute, as of `Pipeline`.

    Raises ValueError if an argument is wrong or there is no bag, TypeError if there is no such option,
    RuntimeError if a bag cannot be read.
    """
    found, settings = _native.find_episodes(_paths(bags), **Options(**options).given())
    threads = _at_least_one("threads", threads)
    given = (settings, *config_text(config), device_number(device), bool(digest), threads)
    return [Episode(native, given) for native in found]


class Episode:
    """An episode of a bag. Each iteration over it replays it from its start.

    A thread of its own replays a few ticks ahead, so memory is bounded. If the loop is left, the thread
    ends.

    Attributes:
        name: the episode's name, as `robocache replay` names its result.
        bag: the path of the bag.
        task: what the robot did, if the list of episodes says so.
        summary: after an iteration has ended, its numbers as `robocache replay --json` has them: ticks,
            held_back, missing (topics that the bag lacks), problems, streams, inputs, and commands if it has
            chunks of actions, though none are made. None before.
    """

    def __init__(
        self,
        native: _native.ReplayEpisode,
        settings: tuple[_native.ReplaySettings, str, str, int, bool, int],
    ) -> None:
        self._native = native
        self._settings = settings
        self.name = native.name
        self.bag = native.bag
        self.task = native.task
        self.summary: dict[str, Any] | None = None

    @property
    def missing(self) -> list[str]:
        """Topics of the configuration that the bag does not have; known after an iteration."""
        return self._of_summary("missing")

    @property
    def problems(self) -> list[str]:
        """What could not be read of the bag; known after an iteration."""
        return self._of_summary("problems")

    def _of_summary(self, key: str) -> Any:
        if self.summary is None:
            raise RuntimeError(f"{self.name}: expected an iteration to the end, found none")
        return self.summary[key]

    def __iter__(self) -> Iterator[FusedTensor]:
        views = Views()
        run = _native.ReplayRun(self._native, *self._settings)
        try:
            while (native := run.next()) is not None:
                yield views.of(native)
            self.summary = run.summary()
        finally:
            run.close()

    def __repr__(self) -> str:
        return f"Episode({self.name!r}, bag={os.fspath(self.bag)!r})"


def replay_to(
    bags: Bags,
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str = "mcap",
    devices: Iterable[Any] = (0,),
    digest: bool = True,
    bf16: str = "uint16",
    images: str = "zstd",
    jobs: int | None = None,
    replace: bool = False,
    progress: Callable[[str, float], object] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Replays bags into files, as the command `robocache replay`. The results are the same bytes.

    Args:
        bags: as of `replay`.
        config: the path of a configuration: what results are made of is compared by it.
        out: the folder of the results.
        format: "mcap", "zarr" or "rows".
        devices: the GPUs, which the episodes share in turn.
        digest: whether tensors get the node's digest.
        bf16: "uint16" or "f32": how elements of bf16 are stored in Zarr.
        images: "zstd", or "jpeg:95" and the like: how rows of images are stored; only with "rows".
        jobs: episodes at once; None for as many as there are cores.
        replace: whether results of another configuration or other options are replaced. If not, they are an error.
        progress: is called with the name of an episode and the part of it that is done, 0 to 1.
        options: those of `replay`: `episodes`, `episodes_by`, `start`, `end`, `rate_hz`, `remap`, `time`, `backend`.

    Returns a list of dicts, one per episode, as `robocache replay --json` prints them: {"done": summary},
    {"kept": summary}, {"failed": {...}} or {"stopped": {...}}.

    An interrupt stops the run, leaves nothing incomplete, and raises KeyboardInterrupt. What `progress` raises
    does the same. Raises RuntimeError if the store of all episodes could not be made.
    """
    request = _native.ReplayRequest(
        _paths(bags),
        os.fspath(config),
        os.fspath(out),
        format=format,
        # Files of mcap have elements of bf16 as they are.
        bf16=None if format == "mcap" else bf16,
        images=images,
        device=[device_number(device) for device in devices] or None,
        no_digest=not digest,
        jobs=None if jobs is None else _at_least_one("jobs", jobs),
        replace=bool(replace),
        **Options(**options).given(),
    )
    outcomes, no_store = _native.replay_to(request, progress)
    if no_store is not None:
        raise RuntimeError(f"no new store: {no_store}")
    return outcomes


def _paths(bags: Bags) -> list[str]:
    """The paths of one bag or of several."""
    several = [bags] if isinstance(bags, (str, os.PathLike)) else bags
    return [os.fspath(each) for each in several]


def _at_least_one(name: str, number: int | None) -> int:
    """A number of threads or episodes; None is that of the cores."""
    number = (os.cpu_count() or 1) if number is None else int(number)
    if number < 1:
        raise ValueError(f"{name}: expected at least 1, found {number}")
    return number


def _seconds(moment: float | str | None) -> str | None:
    """Seconds as text, in which no digit is lost."""
    if moment is None or isinstance(moment, str):
        return moment
    if isinstance(moment, bool) or not isinstance(moment, (int, float)):
        raise TypeError(f"expected seconds, found {type(moment).__name__}")
    return str(moment) if isinstance(moment, int) else f"{moment:.9f}"
