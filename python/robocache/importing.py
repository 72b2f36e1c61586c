"""Datasets as rows, tensors or MCAP files: `robocache import`.

    from robocache.importing import import_dataset
    import_dataset("dataset/", "data/")                            # a LeRobot dataset: data/rows.zarr
    import_dataset("bridge/1.0.0/", "data/", mapping="bridge")     # files that a mapping explains

An episode goes through the pipeline as a recording does: the results are those of `robocache replay` for the same
messages. docs/import.md and docs/datasets.md explain it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _command, _dataset_kinds, _native, _whole
from ._dataset import Topics
from ._dataset_config import config_of
from ._summary import Findings, complete
from .pipeline import Pipeline

#: LeRobot's own: how far a frame of a video may be from the timestamp of its row [s].
TOLERANCE_S = 1e-4
#: Those of `robocache replay` that an import has.
OPTIONS = (
    "jobs",
    "backend",
    "device",
    "rate_hz",
    "remap",
    "bf16",
    "images",
    "no_digest",
    "replace",
)


def import_dataset(
    dataset: Any,
    out: str | os.PathLike[str],
    config: str | os.PathLike[str] | None = None,
    *,
    format: str = "rows",
    mapping: str | os.PathLike[str] | None = None,
    split: str | None = None,
    episodes: Any = None,
    preset: str | None = None,
    resize: Any = None,
    tolerance_s: float = TOLERANCE_S,
    jobs: int | None = None,
    progress: Callable[[str, float], object] | None = None,
    has_bar: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Reads a dataset into files, as `robocache replay` does with bags.

    A run that was interrupted goes on with the episodes that are missing. `OUT/splits.json` has the names of the
    episodes of each split.

    Args:
        dataset: the path of the dataset, or what `opened` returns.
        out: the folder of the results.
        config: the path of a configuration; None for `config_of`, which is written to `OUT/config.yaml`.
        format: "rows", "zarr" or "mcap".
        mapping: of `opened`.
        split: the name of a split: only its episodes; all by default.
        episodes: numbers of episodes, a slice of all, or a pair (rank, world): every `world`-th from `rank` on. All by
            default.
        preset, resize: of `config_of`; only without `config`.
        tolerance_s: how far a frame of a video may be from the timestamp of its row, as of LeRobotDataset.
        jobs: episodes at once; None for as many as there are cores.
        progress: is called with the name of an episode and the part of it that is done, 0 to 1.
        has_bar: whether stderr has a bar and the warnings.
        options: of `robocache replay`: `backend`, `device`, `rate_hz`, `remap`, `bf16`, `images`, `no_digest`, `replace`.

    Returns a list of dicts, one per episode, as `robocache replay --json` prints them. Warns of elements without a name.

    Raises ValueError if an argument does not fit or it is no dataset, ImportError without pyarrow or PyAV, RuntimeError
    if the store of all episodes could not be made.
    """
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise TypeError(f"import_dataset() got an unexpected keyword argument {unknown[0]!r}")
    ready = _ready(dataset, mapping)
    if misnamed := _misnamed(ready):
        warnings.warn("\n".join(misnamed), RuntimeWarning, stacklevel=2)
    outcomes, no_store = _run(
        ready,
        Path(out),
        config,
        {"format": format, "jobs": jobs, **options},
        {"split": split, "episodes": episodes, "tolerance_s": tolerance_s},
        {"preset": preset, "resize": resize},
        {"progress": progress, "has_bar": has_bar},
    )
    if no_store is not None:
        raise RuntimeError(f"no new store: {no_store}")
    return outcomes


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
    if lines := Findings.of(complete(outcomes), "dataset").lines():
        warnings.warn("\n".join(lines), RuntimeWarning, stacklevel=3)
    failures = _command.failures(outcomes)
    store = Path(out) / "rows.zarr"
    if failures:
        others = f"; {store} has the others" if len(failures) < len(outcomes) else ""
        lines = "\n".join(failures)
        raise RuntimeError(
            f"expected every episode, found {len(failures)} that could not be read{others}:\n{lines}"
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
    return _dataset_kinds.opened(dataset, mapping)


def recordings(dataset, episodes=None, *, split=None, tolerance_s=TOLERANCE_S, threads=1):
    """The episodes of a dataset as recordings, which the native replay reads.

    Args:
        dataset: of `opened`.
        split, episodes, tolerance_s: of `import_dataset`.
        threads: of the decoder of each video; 0 for as many as it likes.

    Raises ValueError if an argument does not fit.
    """
    return _recordings(dataset, chosen(dataset, episodes, split), tolerance_s, threads)


def _recordings(dataset, episodes, tolerance_s, threads):
    if not tolerance_s >= 0:
        raise ValueError(f"tolerance_s: expected 0 s or more, found {tolerance_s:g}")
    topics = Topics(dataset)
    return [
        dataset.recording(topics, episode, tolerance_s=tolerance_s, threads=threads)
        for episode in episodes
    ]


def chosen(dataset, episodes=None, split=None):
    """The episodes that are asked for, as of `import_dataset`."""
    of_split = dataset.episodes
    if split is not None:
        if split not in dataset.splits:
            known = ", ".join(dataset.splits) or "no split"
            raise ValueError(f"{dataset.root}: expected one of {known}, found the split {split!r}")
        names = set(dataset.splits[split])
        of_split = [episode for episode in of_split if episode.name in names]
    if episodes is None:
        return of_split
    if isinstance(episodes, slice):
        return of_split[episodes]
    if isinstance(episodes, tuple):
        rank, world = episodes
        if not 0 <= rank < world:
            raise ValueError(f"episodes: expected a rank from 0 to {world - 1}, found {rank}")
        return of_split[rank::world]
    by_number = {episode.number: episode for episode in of_split}
    wanted = sorted(set(map(int, episodes)))
    missing = [number for number in wanted if number not in by_number]
    if missing:
        found = f"{min(by_number)} to {max(by_number)}" if by_number else "none"
        raise ValueError(f"episodes: expected numbers of episodes, {found}, found {missing[0]}")
    return [by_number[number] for number in wanted]


def _ready(dataset, mapping):
    """`opened`, with the packages that its messages need."""
    dataset = opened(dataset, mapping)
    dataset.expect_packages()
    return dataset


def _run(dataset, out, config, words, reading, made, telling):
    """What became of each episode, and why there is no store."""
    config = configured(dataset, out, config, **made)
    options = _command.words(**words)
    return replayed(dataset, out, config, options, reading, jobs=words["jobs"], **telling)


def configured(dataset, out, config, **made):
    """The path of the configuration of a run: `config`, or a generated one in `out`.

    Args:
        dataset: of `opened`.
        out, config: of `import_dataset`.
        made: `preset` and `resize` of `import_dataset`.

    Raises ValueError if it is no configuration.
    """
    if config is None:
        return _written(out, generated(dataset, **made))
    if any(value is not None for value in made.values()):
        raise ValueError("expected preset and resize only without a configuration, found both")
    Pipeline(config, backend="cpu")  # raises ValueError if it is wrong
    return config


def replayed(dataset, out, config, options, reading, *, jobs=None, share=(0, 1), **native):
    """Replays the episodes of a dataset.

    Args:
        dataset: of `opened`.
        out: the folder of the results.
        config: the path of the configuration.
        options: words of `robocache replay`.
        reading: a dict of `split`, `episodes` and `tolerance_s` of `import_dataset`.
        jobs: episodes at once.
        share: a pair (rank, world): of the episodes that are asked for, every `world`-th from `rank` on.
        native: of `_native.replay_to`.

    Returns the outcomes of episodes, and why there is no store, or None.
    """
    cores = os.cpu_count() or 1
    episodes = chosen(dataset, reading["episodes"], reading["split"])[share[0] :: share[1]]
    if not episodes:
        if share != (0, 1):
            return [], None
        raise ValueError(f"{dataset.root}: expected an episode or more, found none")
    # The cores decode several episodes, or several frames of one.
    threads = 1 if min(jobs or cores, len(episodes)) > 1 else 0
    found = _recordings(dataset, episodes, reading["tolerance_s"], threads)
    # The recordings stand for the bags of the dataset.
    asked = _command.replay_words([dataset.root], config, out, options)
    told, no_store = _native.replay_to(asked, recordings=found, **native)
    if dataset.splits and share == (0, 1):
        _whole.write(out / "splits.json", json.dumps(dataset.splits, indent=1) + "\n")
    return json.loads(told), no_store


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


def _written(out, text):
    """The path of the generated configuration. One that was changed stays."""
    path = out / "config.yaml"
    if path.exists():
        if path.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"{path}: expected the configuration that this run generates, found another: give it as "
                "--config to use it, or remove it to generate this one"
            )
        return path
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def main(arguments=None):
    """The command; returns its exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    check(parser, parsed)
    return _command.exit_code(lambda: _main(parsed))


def check(parser, parsed):
    """Ends the program, as argparse does, if options do not fit."""
    writes = parsed.write_config is not None or parsed.write_mapping is not None
    if parsed.out is None and not writes:
        parser.error("the following arguments are required: --out")
    if parsed.config is not None and (parsed.preset or parsed.resize or writes):
        parser.error("--preset, --resize, --write-config and --write-mapping are without --config")
    if parsed.preset and parsed.resize:
        parser.error("expected --preset or --resize, found both: a preset has a size of its own")
    if parsed.write_mapping is not None and parsed.mapping is not None:
        parser.error("--write-mapping writes a mapping, so it takes none")
    if writes:
        return
    try:
        words = _command.words(**words_of(parsed))
        _command.check(["dataset"], parsed.config or "config.yaml", parsed.out, words)
    except ValueError as error:
        parser.error(str(error))


def words_of(parsed):
    """What a parsed command says of the replay: options of `robocache replay` by name."""
    words = {name: getattr(parsed, name) for name in ("format", *OPTIONS)}
    return {**words, "jobs": None if words["jobs"] is None else int(words["jobs"])}


def _main(parsed):
    if parsed.write_mapping is not None:
        _new(parsed.write_mapping, _dataset_kinds.draft(parsed.dataset))
        print(f"{parsed.write_mapping}: written; give it as --mapping", file=sys.stderr)
        return 0
    if parsed.write_config is not None:
        dataset = opened(parsed.dataset, parsed.mapping)
        text = generated(dataset, preset=parsed.preset, resize=parsed.resize)
        _new(parsed.write_config, text)
        _tell(dataset)
        print(
            f"{parsed.write_config}: written; `robocache check` shows the tensor", file=sys.stderr
        )
        return 0
    dataset = _ready(parsed.dataset, parsed.mapping)
    _tell(dataset)
    outcomes, no_store = _run(
        dataset,
        Path(parsed.out),
        parsed.config,
        words_of(parsed),
        {name: getattr(parsed, name) for name in ("split", "episodes", "tolerance_s")},
        {"preset": parsed.preset, "resize": parsed.resize},
        {"has_bar": True},
    )
    return told(parsed, outcomes, no_store)


def remarks(dataset):
    """Yields what a user does not see in the results, line by line."""
    yield dataset.stamps
    topics = Topics(dataset)
    for topic, name in topics.renamed.items():
        yield f"{name!r} is the topic {topic}"
    for name, why in topics.left_out.items():
        yield f"{name!r} is left out: {why}"
    yield from _misnamed(dataset)


def _misnamed(dataset):
    """The features that have a name for some of their elements only, line by line."""
    return [f"{name!r}: {why}; the others have numbers" for name, why in dataset.misnamed.items()]


def _tell(dataset):
    """Says the remarks on stderr."""
    for line in remarks(dataset):
        print(line, file=sys.stderr)


def told(parsed, outcomes, no_store):
    """Prints the outcomes, and returns the exit code."""
    if parsed.json:
        print(json.dumps(outcomes))
    kept = complete(outcomes)
    for line in Findings.of(kept, "dataset").lines():
        print(line, file=sys.stderr)
    failures = _command.failures(outcomes)
    for line in failures:
        print(line, file=sys.stderr)
    if no_store is not None:
        print(f"no new store: {no_store}", file=sys.stderr)
    elif kept and not parsed.json:
        store = {"rows": "rows.zarr", "zarr": "tensors.zarr"}.get(parsed.format, "")
        print(f"{Path(parsed.out) / store}: {len(kept)} episodes")
        for line in _command.jpeg_lines(kept):
            print(line)
    return int(no_store is not None or bool(failures))


def _new(path, text):
    """Writes a file that must not exist."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path}: expected a file that does not exist yet") from None


def _parser():
    parser = argparse.ArgumentParser(
        prog="robocache import",
        description="Reads a dataset into rows or tensors, as robocache replay reads bags: LeRobot (v2.0, v2.1, v3.0), "
        "RLDS, RoboMimic, LIBERO and CALVIN. Complete results are kept, so an interrupted run goes on.",
    )
    add_options(parser)
    return parser


def add_options(parser):
    """Adds what the command takes to a parser of argparse."""
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="the folder or the file of the dataset")
    add("--out", help="the folder of the results")
    add(
        "--config",
        help="the configuration (YAML) [default: OUT/config.yaml, made from the features]",
    )
    add("--write-config", metavar="FILE", help="write such a configuration, and import nothing")
    add(
        "--mapping",
        help="what the fields of the files are: a known dataset, such as bridge or libero, or a mapping (YAML); "
        "LeRobot datasets need none",
    )
    add("--write-mapping", metavar="FILE", help="write a first mapping, and import nothing")
    add("--preset", help="how a generated configuration takes images, such as pi0 or act")
    add("--resize", type=_size, metavar="HxW", help="size of images in a generated configuration")
    add("--split", help="only the episodes of this split [default: all]")
    add(
        "--episodes",
        type=_numbers,
        metavar="N,...",
        help="numbers of episodes, such as 0-9,12 [default: all]",
    )
    add(
        "--tolerance-s",
        type=float,
        default=TOLERANCE_S,
        metavar="S",
        help="how far a frame of a video may be from the timestamp of its row, as in LeRobot [default: 0.0001]",
    )
    add("--format", choices=("rows", "zarr", "mcap"), default="rows", help="[default: rows]")
    add("--json", action="store_true", help="print the outcomes as JSON")
    _command.add_only(parser, OPTIONS)


def _size(text):
    """Height and width of HxW."""
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a size such as 224x224, found {text!r}")
    return int(height), int(width)


def _numbers(text):
    """The numbers of 0-9,12."""
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(first) <= int(last))):
            raise argparse.ArgumentTypeError(f"expected numbers such as 0-9,12, found {text!r}")
        found += range(int(first), int(last or first) + 1)
    return found
