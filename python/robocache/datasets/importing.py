"""Datasets as rows, tensors or MCAP files: `robocache import`.

    from robocache.importing import import_dataset
    import_dataset("dataset/", "data/")                            # a LeRobot dataset: data/rows.zarr
    import_dataset("bridge/1.0.0/", "data/", mapping="bridge")     # files that a mapping explains

An episode goes through the pipeline as a recording does: the results are those of `robocache replay` for the same
messages. docs/import.md explains it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import _native
from ..node import replay_command, whole
from ..node.caller import outside
from ..node.pipeline import Pipeline
from ..node.summary import Findings, complete
from . import frame_stamps, import_options, kinds
from .asked_episodes import integers, share_among
from .dataset import Topics
from .first_config import config_of
from .import_options import OPTIONS, TOLERANCE_S


def import_dataset(
    dataset: Any,
    out: str | os.PathLike[str],
    config: str | os.PathLike[str] | None = None,
    *,
    format: str = "rows",
    mapping: str | os.PathLike[str] | None = None,
    split: str | None = None,
    episodes: Any = None,
    share: tuple[int, int] | None = None,
    preset: str | None = None,
    resize: Any = None,
    tolerance_s: float = TOLERANCE_S,
    jobs: int | None = None,
    progress: Callable[[str, float], object] | None = None,
    has_bar: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Reads a dataset into files, as `robocache replay` does with bags.

    A run that was interrupted goes on with the episodes that are missing. Runs of several processes of one machine into one
    folder wait for each other, with a warning, and only the first has work. With several machines on NFS, import once
    before. `OUT/splits.json` has the names of the episodes of each split.

    Args:
        dataset: the path of the dataset, or what `opened` returns.
        out: the folder of the results.
        config: the path of a configuration; None for `config_of`, which is written to `OUT/config.yaml`.
        format: "rows", "zarr" or "mcap".
        mapping: of `opened`.
        split: the name of a split: only its episodes; all by default.
        episodes: numbers or names of episodes, or a slice of all. All by default.
        share: a pair of integers (rank, world): of these episodes every `world`-th from `rank` on. Each share needs an `out`
            of its own.
        preset, resize: of `config_of`; only without `config`.
        tolerance_s: how far a frame of a video may be from the timestamp of its row, as of LeRobotDataset.
        jobs: episodes at once; None for as many as there are cores.
        progress: is called with the name of an episode and the part of it that is done, 0 to 1.
        has_bar: whether stderr has a bar and the warnings.
        options: of `robocache replay`: `backend`, `device`, `rate_hz`, `remap`, `bf16`, `images`, `no_digest`, `replace`.

    Returns a list of dicts, one per episode, as `robocache replay --json` prints them. Warns of `remarks`.

    Raises ValueError if an argument does not fit or it is no dataset, TypeError if an argument is of another kind, ImportError
    without pyarrow or PyAV, RuntimeError if the store of all episodes could not be made.
    """
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise TypeError(f"import_dataset() got an unexpected keyword argument {unknown[0]!r}")
    ready = _ready(dataset, mapping)
    warn_of(remarks(ready, generates=config is None))
    outcomes, no_store = _run(
        ready,
        Path(out),
        config,
        {"format": format, "jobs": jobs, "waits": True, **options},
        {"split": split, "episodes": episodes, "share": share, "tolerance_s": tolerance_s},
        {"preset": preset, "resize": resize},
        {"progress": progress, "has_bar": has_bar},
    )
    if no_store is not None:
        raise RuntimeError(f"no new store: {no_store}")
    return outcomes


def warn_of(lines):
    """Warns of lines, if there are any, at the line that called this package."""
    if text := "\n".join(lines):
        warnings.warn(text, RuntimeWarning, stacklevel=outside())


def import_rows(
    dataset: Any,
    out: str | os.PathLike[str],
    config: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Path:
    """The path of the store of rows that `import_dataset` makes with these arguments.

    Warns of what the configuration names and the dataset lacks, and of dropped messages.

    Raises RuntimeError, when the store is complete, if an episode could not be read.
    """
    outcomes = import_dataset(dataset, out, config, format="rows", **options)
    warn_of(Findings.of(complete(outcomes), "dataset").lines())
    failures = replay_command.failures(outcomes)
    store = Path(out) / "rows.zarr"
    if failures:
        failed = replay_command.failed(outcomes)
        others = f"; {store} has the others" if failed < len(outcomes) else ""
        lines = "\n".join(failures)
        raise RuntimeError(
            f"expected every episode, found {failed} that could not be read{others}:\n{lines}"
        )
    return store


def opened(dataset: Any, mapping: str | os.PathLike[str] | None = None) -> Any:
    """A dataset, as the functions of this module take it.

    Args:
        dataset: its path, or a dataset that is open.
        mapping: for files that do not say what they have: the name of a known dataset, such as "bridge", or the path of a
            mapping.

    Raises ValueError if it is of no known kind or the mapping does not fit, ImportError if a package is missing.
    """
    if not isinstance(dataset, (str, os.PathLike)):
        return dataset
    return kinds.opened(dataset, mapping)


def recordings(
    dataset, episodes=None, *, split=None, share=None, tolerance_s=TOLERANCE_S, threads=1
):
    """The episodes of a dataset as recordings, which the native replay reads.

    Args:
        dataset: of `opened`.
        split, episodes, share, tolerance_s: of `import_dataset`.
        threads: of the decoder of each video; 0 for as many as it likes.

    Raises ValueError if an argument does not fit.
    """
    return _recordings(dataset, chosen(dataset, episodes, split, share), tolerance_s, threads)


def _recordings(dataset, episodes, tolerance_s, threads):
    if not tolerance_s >= 0:
        raise ValueError(f"tolerance_s: expected 0 s or more, found {tolerance_s:g}")
    topics = Topics(dataset)
    return [
        dataset.recording(topics, episode, tolerance_s=tolerance_s, threads=threads)
        for episode in episodes
    ]


def chosen(dataset, episodes=None, split=None, share=None):
    """The episodes that are asked for, as of `import_dataset`."""
    of_split = dataset.episodes
    if split is not None:
        if split not in dataset.splits:
            known = ", ".join(dataset.splits) or "no split"
            raise ValueError(f"{dataset.root}: expected one of {known}, found the split {split!r}")
        names = set(dataset.splits[split])
        of_split = [episode for episode in of_split if episode.name in names]
    found = _asked(of_split, episodes)
    return found if share is None else share_among(found, share)


def _asked(of_split, episodes):
    """The episodes of these numbers or names, in their order in the dataset."""
    if episodes is None:
        return of_split
    if isinstance(episodes, slice):
        return of_split[episodes]
    if isinstance(episodes, str):
        raise ValueError(
            f"episodes: expected a list of numbers or names, found the text {episodes!r}"
        )
    try:
        listed = list(episodes)
    except TypeError:
        raise ValueError(
            f"episodes: expected a list of numbers or names, or a slice, found {episodes!r}"
        ) from None
    numbers = [each for each in listed if not isinstance(each, str)]
    # A mask or a fraction is no number of an episode.
    wanted = {each for each in listed if isinstance(each, str)}
    wanted |= set(integers(numbers, "episodes").reshape(-1).tolist())
    known = {episode.number: episode for episode in of_split}
    known |= {episode.name: episode for episode in of_split}
    missing = sorted(wanted - set(known), key=str)
    if missing:
        what = "names" if isinstance(missing[0], str) else "numbers"
        some = [episode.name if what == "names" else episode.number for episode in of_split]
        found = f"{some[0]} to {some[-1]}" if some else "none"
        raise ValueError(f"episodes: expected {what} of episodes, {found}, found {missing[0]!r}")
    return [episode for episode in of_split if episode.number in wanted or episode.name in wanted]


def _ready(dataset, mapping):
    """`opened`, with the packages that its messages need."""
    dataset = opened(dataset, mapping)
    dataset.expect_packages()
    return dataset


def _run(dataset, out, config, options, reading, made, telling):
    """What became of each episode, and why there is no store."""
    made = {**made, "as_jpeg": str(options.get("images")).startswith("jpeg")}
    _expect_episodes(dataset, reading)
    with configured(dataset, out, config, **made) as path:
        return replayed(dataset, out, path, options, reading, **telling)


@contextmanager
def configured(dataset, out, config, **made):
    """A run with a configuration: gives its path, which is `config`, or a generated one in `out`.

    If the run fails and leaves no results, a generated configuration is removed: the next run may need another one. So
    each run reads a copy of its own, and a run that has results writes what another one has removed.

    Args:
        dataset: of `opened`.
        out, config: of `import_dataset`.
        made: `preset`, `resize` and `as_jpeg` of `config_of`.

    Raises ValueError if it is no configuration.
    """
    if config is not None:
        if made["preset"] is not None or made["resize"] is not None:
            raise ValueError("expected preset and resize only without a configuration, found both")
        Pipeline(config, backend="cpu")  # raises ValueError if it is wrong
        yield config
        return
    text, path = generated(dataset, **made), out / "config.yaml"
    was_there = path.exists()
    _write_same(path, text)
    if was_there and _has_results(out):
        # No run removes it, and the folder may be read-only.
        yield path
        return
    with tempfile.TemporaryDirectory(prefix=".config.", suffix=".partial", dir=out) as own:
        copy = Path(own) / path.name
        copy.write_text(text, encoding="utf-8")
        try:
            yield copy
        finally:
            if not _has_results(out):
                if not was_there:
                    path.unlink(missing_ok=True)
            elif not path.exists():
                whole.write(path, text)


def _has_results(out):
    """True if a folder has a file of results that is whole."""
    others = {"config.yaml", "splits.json", "replay.json"}
    # Unlike `rglob`, it does not mind folders that another run removes meanwhile.
    for _, folders, files in os.walk(out):
        folders[:] = [name for name in folders if not name.endswith(".partial")]
        if any(name not in others and not name.endswith(".partial") for name in files):
            return True
    return False


def replayed(dataset, out, config, options, reading, *, part=(0, 1), **telling):
    """Replays the episodes of a dataset.

    Args:
        dataset: of `opened`.
        out: the folder of the results.
        config: the path of the configuration.
        options: of `robocache replay`, by name.
        reading: a dict of `split`, `episodes`, `share` and `tolerance_s` of `import_dataset`.
        part: of a run on several machines, a pair (rank, world): of these episodes every `world`-th from `rank` on.
        telling: `progress` and `has_bar` of `import_dataset`.

    Returns the outcomes of episodes, and why there is no store, or None.
    """
    # The recordings stand for the bags of the dataset.
    request = replay_command.request([dataset.root], config, out, options)
    cores, jobs = os.cpu_count() or 1, options.get("jobs")
    asked = _expect_episodes(dataset, reading)
    episodes = asked[part[0] :: part[1]]
    if not episodes:
        return [], None
    # The cores decode several episodes, or several frames of one.
    threads = 1 if min(jobs or cores, len(episodes)) > 1 else 0
    found = _recordings(dataset, episodes, reading["tolerance_s"], threads)
    outcomes, no_store = _native.replay_to(
        request, recordings=found, waits=_warn_of_wait, **telling
    )
    if dataset.splits and part == (0, 1):
        _write_splits(out / "splits.json", json.dumps(dataset.splits, indent=1) + "\n")
    told = frame_stamps.told_of_spacings(
        {each.name: each.spacing for each in found if each.spacing is not None}, dataset.fps
    )
    of_all = _other_rate(config, options, dataset.fps)
    for summary in complete(outcomes):
        summary["problems"] += [text for text, names in told.items() if summary["name"] in names]
        summary["problems"] += [] if of_all is None else [of_all]
    return outcomes, no_store


def _warn_of_wait(out):
    warn_of([f"{out}: another run writes into it, and this one waits for its end"])


def _write_splits(path, text):
    """Writes the file unless it is there: complete rows may be in a folder that nobody can write into."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        whole.write(path, text)


def _other_rate(config, options, fps):
    """A sentence if a configuration, or an option in its place, has another rate than the frames; None otherwise."""
    asked = options.get("rate_hz")
    rate_hz = 1e9 / Pipeline(config, backend="cpu").period_ns if asked is None else float(asked)
    if abs(rate_hz - fps) < 1e-6 * fps:
        return None
    each = round(fps / rate_hz)
    where = (
        f"at one frame in {each}"
        if abs(each * rate_hz - fps) < 1e-6 * fps
        else "at the configured rate, and most are between two frames"
    )
    return (
        f"the configured rate is {rate_hz:.9g} Hz, and there are {fps:.9g} frames per second: ticks, instants and steps of "
        f"windows are {where}"
    )


def _expect_episodes(dataset, reading):
    """The episodes that are asked for. Raises ValueError if there is none."""
    found = chosen(dataset, reading["episodes"], reading["split"], reading["share"])
    if not found:
        raise ValueError(f"{dataset.root}: expected an episode or more, found none")
    return found


def generated(dataset, **made):
    """The text of `config_of`. Raises ValueError if it is no configuration: a preset or a size is wrong, or the dataset
    has unusual names."""
    text = config_of(dataset, **made)
    try:
        Pipeline(text, backend="cpu")
    except ValueError as error:
        # The caller has given no text, so its name says where it comes from.
        raise ValueError(re.sub("(?m)^<text>", "generated configuration", str(error))) from None
    return text


def _write_same(path, text):
    """Writes the generated configuration. Raises ValueError if one that was changed is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        whole.write(path, text)
        return
    if found != text:
        raise ValueError(
            f"{path}: expected the configuration that this run generates, found another: give it as "
            "--config to use it, or remove it to generate this one"
        )


def main(arguments=None):
    """The command; returns its exit code."""
    parser = import_options.parser()
    parsed = parser.parse_args(arguments)
    import_options.check(parser, parsed)
    return replay_command.exit_code(lambda: _main(parsed))


def _main(parsed):
    if parsed.write_mapping is not None:
        _new(parsed.write_mapping, kinds.draft(parsed.dataset))
        print(f"{parsed.write_mapping}: written; give it as --mapping", file=sys.stderr)
        return 0
    if parsed.write_config is not None:
        dataset = opened(parsed.dataset, parsed.mapping)
        as_jpeg = str(parsed.images).startswith("jpeg")
        text = generated(dataset, preset=parsed.preset, resize=parsed.resize, as_jpeg=as_jpeg)
        _new(parsed.write_config, text)
        _tell(dataset, generates=True)
        print(
            f"{parsed.write_config}: written; `robocache check` shows the tensor", file=sys.stderr
        )
        return 0
    dataset = _ready(parsed.dataset, parsed.mapping)
    _tell(dataset, generates=parsed.config is None)
    outcomes, no_store = _run(
        dataset,
        Path(parsed.out),
        parsed.config,
        import_options.values_of(parsed),
        {
            **{name: getattr(parsed, name) for name in ("split", "episodes", "tolerance_s")},
            "share": None,
        },
        {"preset": parsed.preset, "resize": parsed.resize},
        {"has_bar": True},
    )
    code = told(parsed, outcomes, no_store)
    if line := _complete_ones(dataset, outcomes):
        print(line, file=sys.stderr)
    return code


def _complete_ones(dataset, outcomes):
    """The option that takes the complete episodes alone, if many have failed; None otherwise."""
    names = {summary["name"] for summary in complete(outcomes)}
    if not names or replay_command.failed(outcomes) < 4:
        return None
    numbers = [episode.number for episode in dataset.episodes if episode.name in names]
    return f"{len(names)} of {len(outcomes)} episodes are complete: --episodes {_spans(numbers)} takes them alone"


def _spans(numbers):
    """Increasing numbers as `--episodes` takes them: 0-9,12."""
    spans = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def remarks(dataset, generates=True):
    """Yields what a user does not see in the results, line by line.

    Args:
        dataset: of `opened`.
        generates: whether the configuration is generated, with what is guessed.
    """
    yield dataset.stamps
    topics = Topics(dataset)
    for topic, name in topics.renamed.items():
        yield f"{name!r} is the topic {topic}"
    for name, why in topics.left_out.items():
        yield f"{name!r} is left out: {why}"
    for name, why in dataset.misnamed.items():
        yield f"{name!r}: {why}; the others have numbers"
    if generates:
        for name, guessed in dataset.guessed.items():
            yield f"{name!r}: guessed by names and values: {guessed.why}; config.yaml says so, change it if it is wrong"


def _tell(dataset, generates):
    """Says the remarks on stderr."""
    for line in remarks(dataset, generates):
        print(line, file=sys.stderr)


def told(parsed, outcomes, no_store):
    """Prints the outcomes, and returns the exit code."""
    if parsed.json:
        print(json.dumps(outcomes))
    kept = complete(outcomes)
    for line in Findings.of(kept, "dataset").lines():
        print(line, file=sys.stderr)
    failures = replay_command.failures(outcomes)
    for line in failures:
        print(line, file=sys.stderr)
    if no_store is not None:
        print(f"no new store: {no_store}", file=sys.stderr)
    elif kept and not parsed.json:
        store = {"rows": "rows.zarr", "zarr": "tensors.zarr"}.get(parsed.format, "")
        print(f"{Path(parsed.out) / store}: {len(kept)} episodes")
        for line in replay_command.jpeg_lines(kept):
            print(line)
    return int(no_store is not None or bool(failures))


def _new(path, text):
    """Writes a file that must not exist."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path}: expected a file that does not exist yet") from None
