"""The folders of the shares of a result: those of a run on a cluster, and those of `robocache watch`."""

import contextlib
import fcntl
import json
from pathlib import Path

from . import whole

#: The file of a share whose dataset is complete.
_DONE = "done.json"


def folder_of(out):
    """The folder of the shares of a result."""
    return out.with_name(f"{out.name}.shares")


def watched_of(out):
    """The folder of what `robocache watch` has made for a result, and of its summary."""
    return out.with_name(f"{out.name}.watched")


def share_of_bag(watched, bag, taken=()):
    """The folder of the share of a bag, which is none of those that are `taken`. It is there when this returns."""
    name, number = Path(bag).name, 2
    folder = watched / name
    while folder in taken:
        folder, number = watched / f"{name}-{number}", number + 1
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def expect_outside(read, out):
    """Raises ValueError if a result is in a folder that is read, where it would pass for a bag."""
    if out.is_relative_to(read):
        raise ValueError(f"--out: expected a folder that is not in {read}, found {out}")


@contextlib.contextmanager
def held(folder):
    """Keeps other runs out of a folder."""
    # No episode has this name.
    with (folder / "lock.flock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder}: another run writes into it: end `robocache watch`, or wait for it"
            ) from None
        yield


def number_of(folder, wanted):
    """The number of shares of the run that was interrupted, or else the one that is wanted."""
    noted = folder / "shares.json"
    folder.mkdir(parents=True, exist_ok=True)
    if noted.exists():
        return json.loads(noted.read_text())
    whole.write(noted, json.dumps(wanted))
    return wanted


def done(folder):
    """What is noted of the complete dataset in a share's folder: what it is made of, its numbers of episodes and of
    frames, and a line for each episode that failed."""
    noted = folder / _DONE
    note = _of_json(noted.read_text()) if noted.exists() else {}
    return {"made_of": None, "failures": [], **note}


def note_done(folder, note):
    """Notes of a complete dataset what `done` returns."""
    whole.write(folder / _DONE, json.dumps(note))


def forget(folder):
    """Removes the note of `done`."""
    (folder / _DONE).unlink(missing_ok=True)


def _of_json(text):
    """An object of JSON; an empty one if the text was broken off."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
