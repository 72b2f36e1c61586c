"""The command `robocache replay` in this process, for what goes on with its results."""

import math
import re
import sys

from .. import _native


def request(bags, config, out, options):
    """The request of `robocache replay BAGS --config CONFIG --out OUT` with options by name. No file is read.

    Raises ValueError if a value does not fit, TypeError if there is no such option.
    """
    return _native.ReplayRequest(list(map(str, bags)), str(config), str(out), **options)


def replay(bags, config, out, **options):
    """Runs `robocache replay BAGS --config CONFIG --out OUT` with options by name. Warnings and the bar go to stderr.

    A complete result in the folder `kept_in`, if there is this option, counts as kept, and stays there.

    Returns the command's exit code and, for each episode, the outcome (a list of dicts, as `--json`
    prints them).

    Raises ValueError if an argument does not fit or there is no bag, and RuntimeError if nothing can be replayed. An
    interrupt stops the run, and leaves nothing incomplete.
    """
    asked = request(bags, config, out, options)
    outcomes, no_store = _native.replay_to(asked, has_bar=True)
    if no_store is not None:
        print(f"no new store: {no_store}", file=sys.stderr)
    return int(no_store is not None or bool(failures(outcomes))), outcomes


def made_of(bags, config, out, **options):
    """What the results of `replay` with these arguments would be made of: for each episode its name, and a text that
    differs if the result may differ. Nothing is replayed.

    Raises ValueError if an argument does not fit, or the bags or the configuration cannot be read.
    """
    return request(bags, config, out, options).made_of()


#: Most episodes that have a line each if they fail for one reason. If more fail, they share a line.
_ALIKE = 3
#: How errors and files call one of many episodes: `record 7` of RLDS, `demo_7` of HDF5.
_EPISODE = re.compile(r"\b(episode|record|demo)[ _]\d+")


def failures(outcomes):
    """A line for each episode that has no result; one line for many that failed for the same reason."""
    groups = {}
    for outcome in outcomes:
        if "failed" in outcome:
            name, error = outcome["failed"]["name"], outcome["failed"]["error"]
            groups.setdefault(_reason(name, error), []).append((name, f"{name}: failed: {error}"))
        elif "stopped" in outcome:
            name = outcome["stopped"]["name"]
            groups.setdefault(name, []).append((name, f"{name}: stopped, and left out"))
    lines = []
    for alike in groups.values():
        if len(alike) <= _ALIKE:
            lines += [line for _, line in alike]
            continue
        (_, first), *others = alike
        between = f"{others[0][0]} to {others[-1][0]}"
        lines.append(f"{first}; {len(others)} more failed for the same reason: {between}")
    return lines


def _reason(name, error):
    """An error without the name and the number of its episode. Other numbers may be the cause."""
    return _EPISODE.sub(r"\1", error.replace(name, ""))


def failed(outcomes):
    """How many episodes have no result."""
    return sum("failed" in outcome or "stopped" in outcome for outcome in outcomes)


def jpeg_lines(summaries):
    """A line for each stream whose rows are stored as JPEG, of all episodes."""
    found = {}
    for summary in summaries:
        for name, stream in summary["streams"].items():
            if (jpeg := stream.get("jpeg")) is not None:
                found.setdefault(name, []).append(jpeg)
    return [f"{name}: {_jpeg_line(each)}" for name, each in found.items()]


def _jpeg_line(each):
    images, before, after = (sum(of[k] for of in each) for k in ("images", "bytes_before", "bytes"))
    # Episodes without error have no PSNR.
    with_error = [of for of in each if of["psnr_db"] is not None]
    error = sum(of["bytes_before"] * 10 ** (-of["psnr_db"] / 10) for of in with_error)
    psnr = f"PSNR {-10 * math.log10(error / before):.1f} dB" if error else "without error"
    return f"{images} images as JPEG: {after / 1e6:.1f} of {before / 1e6:.1f} MB, {psnr}"


def add_places(parser, out):
    """Adds what is read and what is written to a parser of argparse. `out` explains `--out`."""
    parser.add_argument("bags", nargs="+", metavar="BAG", help="bags, or folders of bags")
    add_result(parser, out)


def add_result(parser, out):
    """Adds the configuration, and what is written. `out` explains `--out`."""
    parser.add_argument("--config", required=True, help="the configuration file (YAML)")
    parser.add_argument("--out", required=True, help=out)


def expect_request(parser, places, options):
    """Ends the program, as argparse does, if options do not fit. No file is read.

    Args:
        parser: of argparse.
        places: the bags, the configuration and the folder of the results.
        options: by name.
    """
    try:
        request(*places, options)
    except ValueError as error:
        parser.error(str(error))


def exit_code(command):
    """The exit code of a command: a function that returns it. If it raises, stderr says what."""
    try:
        return command()
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
