"""The options of `robocache import`, which the command and the runner on Ray have in common."""

import argparse

from ..node import replay_command
from ..node import replay_options as of_replay

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


def parser():
    """The parser of the command."""
    made = argparse.ArgumentParser(
        prog="robocache import",
        description="Reads a dataset into rows or tensors, as robocache replay reads bags: LeRobot (v2.0, v2.1, v3.0), "
        "RLDS, RoboMimic, LIBERO and CALVIN. Complete results are kept, so an interrupted run goes on.",
    )
    add_options(made)
    return made


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
    of_replay.add(parser, of_replay.chosen(OPTIONS))


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
        options = values_of(parsed)
    except ValueError as error:
        parser.error(str(error))
    places = ["dataset"], parsed.config or "config.yaml", parsed.out
    replay_command.expect_request(parser, places, options)


def values_of(parsed):
    """The options of `robocache replay` in a parsed command, by name."""
    options = {name: getattr(parsed, name) for name in ("format", *OPTIONS)}
    return {**options, "jobs": None if options["jobs"] is None else int(options["jobs"])}
