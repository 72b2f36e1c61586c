"""Finds the episodes of a folder that have ended, and has them converted."""

import contextlib
import time
from pathlib import Path

from .. import _native
from .summary import Entry

#: The time between two looks at the folder [s].
LOOK_S = 1.0


def follow(folder, convert, summary, told):
    """Converts each episode that has ended, until an exception such as an interrupt.

    Args:
        folder: the folder of the episodes. A folder in it is an episode.
        convert: a function of a bag. It returns what an `Entry` has of the result, by name, and keeps a result that is there.
        summary: a `Summary`.
        told: a function of a line.
    """
    handled = {}
    while True:
        for bag, written_ns in _bags(Path(folder)):
            entry = _converted(bag, written_ns, convert, handled)
            for line in summary.take(entry) if entry else ():
                told(line)
        time.sleep(LOOK_S)


def _converted(bag, written_ns, convert, handled):
    """The entry of an episode; None if it has not ended, or is among those that were handled."""
    # An episode may be deleted and recorded again.
    if handled.get(bag.name) == ("complete", written_ns):
        return None
    try:
        ending, has_end, is_discarded = _native.look_at_episode(bag)
    except RuntimeError as error:
        ending, has_end, is_discarded = str(error), True, False
    # A user may give a killed one its metadata.yaml later.
    if ending in ("running", "unknown") or handled.get(bag.name) == (ending, written_ns):
        return None
    handled[bag.name] = (ending, written_ns)
    entry = {"name": bag.name, "ended": has_end}
    if is_discarded:
        return Entry(became="discarded", **entry)
    try:
        result = convert(bag)
    except Exception as error:  # whatever is wrong with this one, the next ones are converted
        result = {"why": [f"{type(error).__name__}: {error}"]}
    return Entry(became="failed" if result.get("why") else "converted", **entry, **result)


def _bags(folder):
    """The folders in a folder, in the order in which they were last written, and when that was."""
    if not folder.is_dir():
        return []
    bags = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    return sorted(
        ((bag, _written_ns(bag)) for bag in bags), key=lambda found: (found[1], found[0].name)
    )


def _written_ns(bag):
    """When the newest file of messages was written."""
    times = [0]
    # A user may remove the folder meanwhile, or keep others from listing it, and a recorder may remove a file.
    with contextlib.suppress(OSError):
        for path in bag.iterdir():
            with contextlib.suppress(FileNotFoundError):
                times.append(path.stat().st_mtime_ns if ".mcap" in path.name else 0)
    return max(times)
