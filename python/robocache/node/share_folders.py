"""The folders of the shares of a run on a cluster."""

import json

from . import whole

#: The file of a share whose dataset is complete.
_DONE = "done.json"


def folder_of(out):
    """The folder of the shares of a result."""
    return out.with_name(f"{out.name}.shares")


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
