"""The command `robocache to-lerobot`."""

import argparse
import sys

from ..node import replay_command
from ..node import replay_options as of_replay
from .exporting import LAYOUTS, EpisodesFailed, export, nothing_left


def add_options(parser):
    """Adds what `to_lerobot` takes to a parser of argparse."""
    replay_command.add_places(parser, "the folder of the dataset")
    add_own_options(parser)


def add_own_options(parser):
    """Adds what `to_lerobot` takes beside its places."""
    names = {"type": lambda text: text.split(","), "metavar": "STREAM,..."}
    parser.add_argument(
        "--state",
        help="streams of observation.state [default: state, or all vectors but the action]",
        **names,
    )
    parser.add_argument(
        "--action", help="streams of action [default: action or actions, or all plans]", **names
    )
    parser.add_argument("--task", help="the task of the episodes that have none")
    parser.add_argument("--images", action="store_true", help="keep images as PNG, without loss")
    parser.add_argument("--codec", default="libsvtav1", help="of videos [default: %(default)s]")
    parser.add_argument("--crf", type=int, default=30, help="quality of videos [default: 30]")
    parser.add_argument(
        "--keep-invalid",
        action="store_true",
        help="keep ticks at which a stream of the state, of the action or of images is not valid",
    )
    parser.add_argument(
        "--min-frames",
        type=int,
        metavar="N",
        help="the fewest frames of an episode; shorter ones are left out [default: one second]",
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace the dataset, when the new one is complete"
    )
    parser.add_argument("--robot-type", help="what the dataset says of the robot")
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        default="lerobot",
        help="lerobot: v3.0; gr00t: what Isaac-GR00T reads, v2.1 with meta/modality.json [default: lerobot]",
    )
    of_replay.add(parser, of_replay.common())


def options(parser, parsed):
    """What `add_options` has parsed, as arguments of `to_lerobot` by name."""
    names = "state action task images codec crf keep_invalid min_frames robot_type layout replace"
    given = {name: getattr(parsed, name) for name in names.split()}
    asked = of_replay.parsed_values(parsed, of_replay.common())
    replay_command.expect_request(parser, (parsed.bags, parsed.config, parsed.out), asked)
    return {**given, "replay_options": asked}


def main(arguments):
    """The command `robocache to-lerobot`. Returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="robocache to-lerobot",
        description="Replay bags and write their ticks as a LeRobot dataset (v3.0, or v2.1 for GR00T). A tick is a "
        "frame. Where ticks are missing or not valid, the episode ends and another one begins. "
        "docs/lerobot.md explains the columns.",
    )
    add_options(parser)
    parsed = parser.parse_args(arguments)
    given = options(parser, parsed)

    def write():
        return export(parsed.bags, parsed.config, parsed.out, **given)

    return replay_command.exit_code(lambda: told(parsed.out, write))


def told(out, write):
    """Calls `write`, which writes a dataset and returns an `Export`, and says what it wrote. Returns the exit code."""
    found = write()
    counts = found.episodes, found.frames
    lines = found.findings.lines()
    if found.failures:
        lines.append(str(EpisodesFailed(found.failures, *counts)))
    lines += filter(None, [None if found.failures else nothing_left(found)])
    for line in lines:
        print(line, file=sys.stderr)
    if found.episodes:
        print(f"{out}: {found.episodes} episodes, {found.frames} frames")
        for name, lag_ns in found.actions.items():
            print(f"action: {name} is taken {lag_ns / 1e6:g} ms before the tick of its frame")
    return 0 if found.episodes and not found.failures else 1
