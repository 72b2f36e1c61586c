"""The command `robocache watch`."""

import argparse
import os
import signal
import sys
from pathlib import Path

from ..node import replay_command, share_folders
from ..node import replay_options as of_replay
from ..node.summary import Findings, complete
from .episodes import follow
from .summary import TEXT, Summary

#: What `watch` takes of the options of `robocache replay`.
_OPTIONS = [
    option
    for option in of_replay.common("format", "bf16", "images", "rows", "replace", "no_digest")
    if option.name != "episodes"
]


def main(arguments):
    """The command `robocache watch`. Returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="robocache watch",
        allow_abbrev=False,
        description="Convert each finished episode of a folder while the next one is recorded, until Ctrl-C or "
        "SIGTERM. The options are those of robocache replay, or with --to-lerobot those of robocache to-lerobot: "
        "`robocache watch --to-lerobot --help`. At the end, that command with the same options makes one "
        f"result of all. OUT.watched/{TEXT} has a line for each episode: the share of valid steps of each stream, and "
        "warnings. docs/recording.md has more.",
    )
    parser.add_argument("bags", nargs=1, metavar="DIR", help="the folder of the episodes")
    parser.add_argument(
        "--to-lerobot", action="store_true", help="convert for a LeRobot dataset, which --out names"
    )
    parser.add_argument(
        "--nice",
        type=int,
        default=19,
        choices=range(20),
        metavar="N",
        help="how much others come first, 0 to 19 [default: 19, the lowest priority]",
    )
    add_result = replay_command.add_result
    if "--to-lerobot" in arguments:
        from ..lerobot.cli import add_own_options

        add_result(parser, "the folder of the dataset")
        add_own_options(parser)
    else:
        add_result(parser, "the folder of the results")
        of_replay.add(parser, _OPTIONS)
    parsed = parser.parse_args(arguments)
    if getattr(parsed, "episodes", None) is not None:
        parser.error("--episodes: expected no list, because each folder is an episode")
    converter = (_for_dataset if parsed.to_lerobot else _for_replay)(parser, parsed)
    return replay_command.exit_code(lambda: _watch(parsed, converter))


def _watch(parsed, converter):
    """Watches until an interrupt. Returns the exit code."""
    folder, out = Path(parsed.bags[0]).resolve(), Path(parsed.out).resolve()
    share_folders.expect_outside(folder, out)
    convert, watched = converter(), share_folders.watched_of(out)
    watched.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The threads that are started from now on are nice, too. Linux gives the disk to nice threads last.
    os.nice(parsed.nice)
    with share_folders.held(watched):
        summary = Summary(watched)
        print(f"{folder}: watched; {watched / TEXT} has what became of each episode", flush=True)
        try:
            follow(folder, convert, summary, lambda line: print(line, flush=True))
        except KeyboardInterrupt:
            pass
    became = [entry.became for entry in summary.entries]
    counts = ", ".join(f"{became.count(word)} {word}" for word in dict.fromkeys(became))
    print(f"ended; {counts or 'no episode'}. The same command goes on", file=sys.stderr)
    # The reason of an episode that was deleted is in the summary.
    failed = [entry.name for entry in summary.entries if entry.became == "failed"]
    return int(any((folder / name).is_dir() for name in failed))


def _for_replay(parser, parsed):
    """A function that returns what converts a bag as `robocache replay` does."""
    options = of_replay.parsed_values(parsed, _OPTIONS)
    is_rows = options["format"] == "rows"
    # The parts of a store are joined by the replay of all.
    own = {**options, "parts_only": options["format"] in ("zarr", "rows")}
    replay_command.expect_request(parser, (parsed.bags, parsed.config, parsed.out), own)

    def convert(bag):
        _, outcomes = replay_command.replay([bag], parsed.config, parsed.out, **own)
        summaries = complete(outcomes)
        findings = Findings.of(summaries, "bag", has_steps=not is_rows)
        rows = {}
        for stream, of in ((s, of) for each in summaries for s, of in each["streams"].items()):
            rows[stream] = rows.get(stream, 0) + of["rows"]
        return {
            "ticks": sum(summary["ticks"] for summary in summaries),
            **_of_findings(findings),
            "rows": rows if is_rows else {},
            "why": replay_command.failures(outcomes),
        }

    return lambda: convert


def _for_dataset(parser, parsed):
    """A function that returns what converts a bag as `robocache to-lerobot` does."""
    from ..lerobot import exporting, shares
    from ..lerobot.cli import options

    asked = options(parser, parsed)

    def converter():
        given = exporting.checked(parsed.config, asked)
        watched = share_folders.watched_of(Path(parsed.out).resolve())

        def convert(bag):
            folder = share_folders.share_of_bag(watched, bag)
            done = shares.share([bag], parsed.config, folder, given)
            findings = Findings()
            findings.join(done["findings"])
            return {"ticks": done["counts"][1], **_of_findings(findings), "why": done["failures"]}

        return convert

    return converter


def _of_findings(findings):
    """What an `Entry` has of the findings of one episode."""
    valid = {
        stream: valid / steps if steps else 0.0 for stream, (valid, steps) in findings.valid.items()
    }
    return {"valid": valid, "found": list(findings.found)}
