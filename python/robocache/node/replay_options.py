"""The options of `robocache replay` that other commands and functions of the package have, too: values by name.

`robocache replay` has the same names and helps; a test compares them.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Option(NamedTuple):
    """An option of the command line.

    Attributes:
        name: of its value in Python.
        metavar: the name of its value in the help; None for an option without a value.
        help: its effect.
        choices: the values that it may have; empty if there is no list of them.
        repeats: True if it may be given several times.
    """

    name: str
    metavar: str | None
    help: str
    choices: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def word(self):
        """The word of the command line."""
        return f"--{self.name.replace('_', '-')}"


#: The options that every command has which replays bags.
COMMON = (
    Option("rate_hz", "RATE_HZ", "Rate of the ticks [Hz], in place of the configuration's"),
    Option(
        "start", "START", "The first instant: seconds from the start of each bag, or since 1970"
    ),
    Option("end", "END", "The last instant: seconds from the start of each bag, or since 1970"),
    Option(
        "episodes",
        "FILE.csv",
        "Episodes in the bags: a CSV file with the columns start and end [s], bag (its name; required if there are "
        "several bags) and, if wanted, task",
    ),
    Option(
        "episodes_by",
        "TOPIC[:PATH]",
        "Episodes by a number of a topic, such as /recording or /joy:buttons[0]: one lasts while it is not zero",
    ),
    Option(
        "remap",
        "FROM:=TO",
        "A topic of the configuration that has another name in the bags; may be given several times",
        repeats=True,
    ),
    Option(
        "time",
        "SOURCE",
        "Which clock the ticks are on. auto: /clock if the bag has it, else the receive stamps; receive: the receive "
        "stamps; clock: /clock; header: the newest stamp of the messages, for a simulator's bag without /clock; "
        "header:/TOPIC: the stamps of one topic",
    ),
    Option("backend", "BACKEND", "Processor that computes: auto, cpu or cuda"),
    Option("device", "N,N... or all", "Numbers of the GPUs, which the episodes share, or all"),
    Option("jobs", "JOBS", "Episodes at once; by default as many as there are processors"),
)
#: The others.
FILES = (
    Option("format", "FORMAT", "Format of the results", ("mcap", "zarr", "rows")),
    Option(
        "bf16",
        "BF16",
        "How elements of bf16 are stored in Zarr, which does not know the type [default: uint16]",
        ("uint16", "f32"),
    ),
    Option(
        "images",
        "zstd or jpeg:QUALITY",
        "How rows of images are stored: zstd, without loss, or jpeg:QUALITY, 1 to 100, for those of u8; only with "
        "--format rows",
    ),
    Option(
        "rows",
        "STREAM,...",
        "Streams whose rows OUT/tensors.zarr has, too, at their own stamps; only with --format zarr",
    ),
    Option(
        "share",
        "K/N",
        "Replay only the bags of one of N shares. If several processes have a share each, every bag is in one of them",
    ),
    Option("parts_only", None, "Leave the parts of a store as they are, for a run with --take"),
    Option(
        "replace",
        None,
        "Replace results that were made with another configuration or other options. Without it, they stay, and that is "
        "an error",
    ),
    Option(
        "take",
        "FOLDER",
        "Take results from the folder of another run, which had a share of these bags and the same options; may be given "
        "several times",
        repeats=True,
    ),
    Option("no_digest", None, "Leave the digests out, as a node with `digest: false` does"),
)


def chosen(names):
    """The options of these names, in the order of the help of `robocache replay`."""
    of_files = [option.name for option in FILES]
    before = FILES[: of_files.index("share")]
    return [option for option in (*before, *COMMON, *FILES[len(before) :]) if option.name in names]


def common(*more):
    """The options that all commands have, and `more` by name."""
    return chosen({*more, *(option.name for option in COMMON)})


def add(parser, options):
    """Adds options to a parser of argparse."""
    group = parser.add_argument_group("options of robocache replay")
    for option in options:
        details = {"help": option.help.replace("%", "%%")}
        if option.metavar is None:
            details["action"] = "store_true"
        else:
            details["metavar"] = option.metavar
            details["choices"] = option.choices or None
            details["action"] = "append" if option.repeats else "store"
        group.add_argument(option.word, **details)


def parsed_values(parsed, options):
    """The values of options that a parser has parsed, by name."""
    values = {option.name: getattr(parsed, option.name) for option in options}
    if values.get("episodes") is not None:  # a worker runs in another folder
        values["episodes"] = Path(values["episodes"]).resolve()
    return values


def given(options, **fixed):
    """The values that a caller gives, by name, and those of `fixed`, which a caller must not give again.

    Args:
        options: values by name, or words of the command line, such as `["--rate-hz=30"]`.

    Raises ValueError if an option is unknown or given twice.
    """
    if not isinstance(options, Mapping):
        return _of_words(list(options), fixed)
    for name in options:
        if fixed.get(name) is not None:
            raise ValueError(f"{name}: expected one value, found two")
    return {**fixed, **options}


def _of_words(words, fixed):
    """The values of words, and those of `fixed`."""
    parser = _Words(add_help=False, allow_abbrev=False)
    for option in (*COMMON, *FILES):
        if option.metavar is None:
            parser.add_argument(option.word, action="store_true", default=None)
        elif option.repeats or option.name in ("rows", "device"):
            parser.add_argument(option.word, metavar=option.metavar, action="append")
        else:
            parser.add_argument(option.word, metavar=option.metavar, action=_Once)
    parsed, others = parser.parse_known_args(words, argparse.Namespace(**fixed))
    if others:
        raise ValueError(f"unexpected argument '{others[0]}' found")
    return {name: value for name, value in vars(parsed).items() if value is not None}


class _Words(argparse.ArgumentParser):
    """A parser of words that a caller gives."""

    def error(self, message):
        raise ValueError(message)


class _Once(argparse.Action):
    """An option that may be given once."""

    def __call__(self, parser, namespace, values, option_string=None):
        if getattr(namespace, self.dest) is not None:
            parser.error(
                f"the argument '{option_string} <{self.metavar}>' cannot be used multiple times"
            )
        setattr(namespace, self.dest, values)
