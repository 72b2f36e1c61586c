"""The command `robocache replay` in a process of its own, for what goes on with its results."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

#: Options of `robocache replay` that other commands pass on, with what argparse needs.
REPLAY_OPTIONS = {
    "--rate-hz": {"metavar": "RATE_HZ", "help": "rate of the ticks [Hz]"},
    "--start": {"help": "the first instant: seconds from the start of each bag, or since 1970"},
    "--end": {"help": "the last instant, likewise"},
    "--episodes": {"metavar": "FILE.csv", "help": "a list of episodes: start, end, bag, task"},
    "--episodes-by": {"metavar": "TOPIC[:PATH]", "help": "episodes by a number of a topic"},
    "--remap": {"action": "append", "metavar": "FROM:=TO", "help": "a topic's name in the bags"},
    "--time": {"metavar": "SOURCE", "help": "auto, receive, clock, header or header:/TOPIC"},
    "--backend": {"choices": ("auto", "cpu", "cuda"), "help": "where to compute"},
    "--device": {"metavar": "N,N... or all", "help": "numbers of the GPUs"},
    "--jobs": {"metavar": "N", "help": "episodes at once"},
}


def add_places(parser, out):
    """Adds what is read and what is written to a parser of argparse. `out` explains `--out`."""
    parser.add_argument("bags", nargs="+", metavar="BAG", help="bags, or folders of bags")
    parser.add_argument("--config", required=True, help="the configuration file (YAML)")
    parser.add_argument("--out", required=True, help=out)


def exit_code(command):
    """The exit code of a command: a function that returns it. If it raises, stderr says what."""
    try:
        return command()
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def add_replay_options(parser):
    """Adds the options of `robocache replay` to a parser of argparse."""
    group = parser.add_argument_group("options of robocache replay")
    for option, details in REPLAY_OPTIONS.items():
        group.add_argument(option, **details)


def replay_options(parsed):
    """The options that `add_replay_options` has parsed, as arguments of `robocache replay`."""
    arguments = []
    for option in REPLAY_OPTIONS:
        value = getattr(parsed, option[2:].replace("-", "_"))
        values = value if isinstance(value, list) else [] if value is None else [value]
        if option == "--episodes":  # the command may run in another folder
            values = [Path(value).resolve() for value in values]
        arguments += [f"{option}={value}" for value in values]
    return arguments


def replay(bags, config, out, *options):
    """Runs `robocache replay BAGS --config CONFIG --out OUT OPTIONS --json`.

    Returns its exit code and, for each episode, what became of it (a list of dicts, as `--json`
    prints them). Warnings and the bar go to stderr. If this process ends, the command ends too.

    Raises RuntimeError if the command did not come to its end.
    """
    package = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    words = _arguments(bags, config, out, options)
    run = subprocess.run(
        [sys.executable, "-m", "robocache._command", str(os.getpid()), *words[1:], "--json"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if run.returncode not in (0, 1) or not run.stdout.strip():
        raise RuntimeError(f"robocache replay: ended with the exit code {run.returncode}")
    return run.returncode, json.loads(run.stdout)


def made_of(bags, config, out, *options):
    """What the results of `replay` with these arguments would be made of: for each episode its name, and a text that
    differs if the result may differ. Nothing is replayed.

    Raises ValueError if an argument does not fit, or the bags or the configuration cannot be read.
    """
    from . import _native

    return _native.made_of(_arguments(bags, config, out, options))


def _arguments(bags, config, out, options):
    """The words of the command `robocache replay`."""
    places = ["--config", str(config), "--out", str(out)]
    return ["robocache", "replay", *map(str, bags), *places, *options]


def failures(outcomes):
    """A line for each episode that has no result."""
    lines = []
    for outcome in outcomes:
        if "failed" in outcome:
            lines.append(f"{outcome['failed']['name']}: failed: {outcome['failed']['error']}")
        elif "stopped" in outcome:
            lines.append(f"{outcome['stopped']['name']}: stopped, and left out")
    return lines


def _end_with(parent):
    """Asks the kernel to end this process with its parent. A run that was killed would otherwise hold its folder for as
    long as it likes."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    # The new process asks for itself: between fork and exec, code could wait for a lock that a missing thread holds.
    _end_with(int(sys.argv.pop(1)))
    from ._cli import main

    sys.exit(main())
