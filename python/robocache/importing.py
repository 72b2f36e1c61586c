"""LeRobot datasets as rows, tensors or MCAP files: `robocache import`.

    from robocache.importing import import_dataset
    import_dataset("dataset/", "data/")                   # data/rows.zarr

An episode goes through the pipeline as a recording does: the results are those of `robocache replay` for the same
messages. docs/import.md explains it.
"""

import argparse
import json
import os
import re
import sys
import warnings
from pathlib import Path

from . import _command, _native
from ._lerobot_config import config_of
from ._lerobot_recording import Recording, Topics
from .lerobot_dataset import STAMPS, Dataset
from .pipeline import Pipeline

#: LeRobot's own: how far a frame of a video may be from the timestamp of its row [s].
TOLERANCE_S = 1e-4
_OPTIONS = ("jobs", "backend", "device", "rate_hz", "remap", "bf16", "no_digest", "replace")


def import_dataset(
    dataset,
    out,
    config=None,
    *,
    format="rows",
    episodes=None,
    preset=None,
    resize=None,
    tolerance_s=TOLERANCE_S,
    jobs=None,
    progress=None,
    has_bar=False,
    **options,
):
    """Reads a LeRobot dataset into files, as `robocache replay` does with bags.

    A run that was interrupted goes on with the episodes that are missing.

    Args:
        dataset: the path of the dataset, or a `Dataset`.
        out: the folder of the results.
        config: the path of a configuration; None for `config_of`, which is written to `OUT/config.yaml`.
        format: "rows", "zarr" or "mcap".
        episodes: numbers of episodes, a slice of all, or a pair (rank, world): every `world`-th from `rank` on. All by
            default.
        preset, resize: of `config_of`; only without `config`.
        tolerance_s: how far a frame of a video may be from the timestamp of its row, as of LeRobotDataset.
        jobs: episodes at once; None for as many as there are cores.
        progress: is called with the name of an episode and the part of it that is done, 0 to 1.
        has_bar: whether stderr has a bar and the warnings.
        options: of `robocache replay`: `backend`, `device`, `rate_hz`, `remap`, `bf16`, `no_digest`, `replace`.

    Returns a list of dicts, one per episode, as `robocache replay --json` prints them.

    Raises ValueError if an argument does not fit or it is no dataset, ImportError without pyarrow or PyAV, RuntimeError
    if the store of all episodes could not be made.
    """
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise TypeError(f"import_dataset() got an unexpected keyword argument {unknown[0]!r}")
    outcomes, no_store = _run(
        _opened(dataset),
        Path(out),
        config,
        {"format": format, "jobs": jobs, **options},
        {"episodes": episodes, "tolerance_s": tolerance_s},
        {"preset": preset, "resize": resize},
        {"progress": progress, "has_bar": has_bar},
    )
    if no_store is not None:
        raise RuntimeError(f"no new store: {no_store}")
    return outcomes


def import_rows(dataset, out, config=None, **options):
    """The path of the store of rows that `import_dataset` makes with these arguments.

    Warns of what the configuration names and the dataset lacks, and of dropped messages.

    Raises RuntimeError, when the store is complete, if an episode could not be read.
    """
    outcomes = import_dataset(dataset, out, config, format="rows", **options)
    if lost := _lost(_complete(outcomes)):
        warnings.warn("\n".join(lost), RuntimeWarning, stacklevel=3)
    failures = _command.failures(outcomes)
    store = Path(out) / "rows.zarr"
    if failures:
        others = f"; {store} has the others" if len(failures) < len(outcomes) else ""
        lines = "\n".join(failures)
        raise RuntimeError(
            f"expected every episode, found {len(failures)} that could not be read{others}:\n{lines}"
        )
    return store


def recordings(dataset, episodes=None, *, tolerance_s=TOLERANCE_S, threads=1):
    """The episodes of a dataset as recordings, which the native replay reads.

    Args:
        dataset: a `Dataset`.
        episodes, tolerance_s: of `import_dataset`.
        threads: of the decoder of each video; 0 for as many as it likes.

    Raises ValueError if an argument does not fit.
    """
    if not tolerance_s >= 0:
        raise ValueError(f"tolerance_s: expected 0 s or more, found {tolerance_s:g}")
    topics = Topics(dataset)
    return [
        Recording(dataset, topics, episode, tolerance_s=tolerance_s, threads=threads)
        for episode in chosen(dataset, episodes)
    ]


def chosen(dataset, episodes):
    """The episodes that are asked for, as of `import_dataset`."""
    if episodes is None:
        return dataset.episodes
    if isinstance(episodes, slice):
        return dataset.episodes[episodes]
    if isinstance(episodes, tuple):
        rank, world = episodes
        if not 0 <= rank < world:
            raise ValueError(f"episodes: expected a rank from 0 to {world - 1}, found {rank}")
        return dataset.episodes[rank::world]
    by_number = {episode.number: episode for episode in dataset.episodes}
    wanted = sorted(set(map(int, episodes)))
    missing = [number for number in wanted if number not in by_number]
    if missing:
        found = f"{min(by_number)} to {max(by_number)}" if by_number else "none"
        raise ValueError(f"episodes: expected numbers of episodes, {found}, found {missing[0]}")
    return [by_number[number] for number in wanted]


def stamps_of(dataset):
    """A sentence: which stamps the frames get."""
    if STAMPS in dataset.columns:
        return f"stamps: the column {STAMPS}"
    return (
        f"stamps: frame k is at tick k + 1 of {dataset.fps:g} Hz, as the dataset has no column {STAMPS}. If the timestamps "
        "of an episode are uneven, each of its frames is one period after its timestamp"
    )


def _opened(dataset):
    dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    if any(feature.kind == "video" for feature in dataset.features.values()):
        try:
            import av  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "expected PyAV: pip install 'dist/WHEEL.whl[import]', with the wheel of `make wheel` "
                f"({error})"
            ) from error
    return dataset


def _run(dataset, out, config, words, reading, made, telling):
    """What became of each episode, and why there is no store."""
    if config is not None and any(value is not None for value in made.values()):
        raise ValueError("expected preset and resize only without a configuration, found both")
    if config is None:
        config = _written(out, generated(dataset, **made))
    else:
        Pipeline(config, backend="cpu")  # raises ValueError if it is wrong
    cores = os.cpu_count() or 1
    count = len(chosen(dataset, reading["episodes"]))
    # The cores decode several episodes, or several frames of one.
    threads = 1 if min(words["jobs"] or cores, count) > 1 else 0
    found = recordings(dataset, **reading, threads=threads)
    if not found:
        raise ValueError(f"{dataset.root}: expected an episode or more, found none")
    # The recordings stand for the bags of the dataset.
    asked = _command.replay_words([dataset.root], config, out, _command.words(**words))
    told, no_store = _native.replay_to(asked, recordings=found, **telling)
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
    if parsed.out is None and parsed.write_config is None:
        parser.error("the following arguments are required: --out")
    if parsed.config is not None and (parsed.preset or parsed.resize or parsed.write_config):
        parser.error("--preset, --resize and --write-config are for a generated configuration")
    if parsed.preset and parsed.resize:
        parser.error("expected --preset or --resize, found both: a preset has a size of its own")
    return _command.exit_code(lambda: _main(parser, parsed))


def _main(parser, parsed):
    if parsed.write_config is not None:
        dataset = Dataset(parsed.dataset)
        text = generated(dataset, preset=parsed.preset, resize=parsed.resize)
        _new(parsed.write_config, text)
        _tell(dataset)
        print(
            f"{parsed.write_config}: written; `robocache check` shows the tensor", file=sys.stderr
        )
        return 0
    words = {name: getattr(parsed, name) for name in ("format", *_OPTIONS)}
    try:
        given = _command.words(**words)
        _command.check(["dataset"], parsed.config or "config.yaml", parsed.out, given)
    except ValueError as error:
        parser.error(str(error))
    words["jobs"] = None if words["jobs"] is None else int(words["jobs"])
    dataset = _opened(parsed.dataset)
    _tell(dataset)
    outcomes, no_store = _run(
        dataset,
        Path(parsed.out),
        parsed.config,
        words,
        {"episodes": parsed.episodes, "tolerance_s": parsed.tolerance_s},
        {"preset": parsed.preset, "resize": parsed.resize},
        {"has_bar": True},
    )
    return _told(parsed, outcomes, no_store)


def _tell(dataset):
    """Says on stderr what a user does not see in the results."""
    print(stamps_of(dataset), file=sys.stderr)
    topics = Topics(dataset)
    for topic, name in topics.renamed.items():
        print(f"{name!r} is the topic {topic}", file=sys.stderr)
    for name, why in topics.left_out.items():
        print(f"{name!r} is left out: {why}", file=sys.stderr)


def _told(parsed, outcomes, no_store):
    """Prints the outcomes, and returns the exit code."""
    if parsed.json:
        print(json.dumps(outcomes))
    kept = _complete(outcomes)
    for summary in kept:
        for problem in summary.get("problems", ()):
            print(f"{summary['name']}: {problem}", file=sys.stderr)
    for line in _lost(kept):
        print(line, file=sys.stderr)
    failures = _command.failures(outcomes)
    for line in failures:
        print(line, file=sys.stderr)
    if no_store is not None:
        print(f"no new store: {no_store}", file=sys.stderr)
    elif kept and not parsed.json:
        store = {"rows": "rows.zarr", "zarr": "tensors.zarr"}.get(parsed.format, "")
        print(f"{Path(parsed.out) / store}: {len(kept)} episodes")
    return int(no_store is not None or bool(failures))


def _complete(outcomes):
    """The summaries of the episodes that have a result."""
    return [of[kind] for of in outcomes for kind in ("done", "kept") if kind in of]


def _lost(summaries):
    """A line for each topic that the dataset lacks, and for each input that dropped messages, with the reason."""
    topics = dict.fromkeys(topic for summary in summaries for topic in summary["missing"])
    lines = [
        f"{topic}: not in the dataset, so its stream has no row from it; `remap` gives a topic another name"
        for topic in topics
    ]
    for summary in summaries:
        for name, numbers in summary["inputs"].items():
            lines += [
                f"{summary['name']}: {name}: {count} of {numbers['received']} messages dropped: {reason}"
                for reason, count in numbers["dropped"].items()
            ]
    return lines


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
        description="Reads a LeRobot dataset (v2.0, v2.1 or v3.0) into rows or tensors, as robocache replay reads bags. "
        "Complete results are kept, so an interrupted run goes on.",
    )
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="the folder of the dataset")
    add("--out", help="the folder of the results")
    add(
        "--config",
        help="the configuration (YAML) [default: OUT/config.yaml, made from the features]",
    )
    add("--write-config", metavar="FILE", help="write such a configuration, and import nothing")
    add("--preset", help="how a generated configuration takes images, such as pi0 or act")
    add("--resize", type=_size, metavar="HxW", help="size of images in a generated configuration")
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
    _command.add_only(parser, _OPTIONS)
    return parser


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
