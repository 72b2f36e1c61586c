"""The folders of the shares of a run on a cluster."""

import contextlib
import json
import os

from . import _native, _whole

#: The file in which a folder of results lists them, its journal, and the format of both that this module reads.
_LEDGER, _JOURNAL, _LEDGER_FORMAT = "replay.json", "replay.json.journal", 1
#: The file of a share whose dataset is complete.
_DONE = "done.json"
#: The stores of all episodes by their formats.
_STORES = {"zarr": "tensors.zarr", "rows": "rows.zarr"}


def folder_of(out):
    """The folder of the shares of a result."""
    return out.with_name(f"{out.name}.shares")


def number_of(folder, wanted):
    """The number of shares of the run that was interrupted, or else the one that is wanted."""
    noted = folder / "shares.json"
    folder.mkdir(parents=True, exist_ok=True)
    if noted.exists():
        return json.loads(noted.read_text())
    _whole.write(noted, json.dumps(wanted))
    return wanted


def done(folder):
    """What is noted of the complete dataset in a share's folder: what it is made of, its numbers of episodes and of
    frames, and a line for each episode that failed."""
    noted = folder / _DONE
    note = _of_json(noted.read_text()) if noted.exists() else {}
    return {"made_of": None, "failures": [], **note}


def note_done(folder, note):
    """Notes of a complete dataset what `done` returns."""
    _whole.write(folder / _DONE, json.dumps(note))


def forget(folder):
    """Removes the note of `done`."""
    (folder / _DONE).unlink(missing_ok=True)


def lend(out, folder, format, bags, share):
    """Tells a share which results of its bags the folder `out` has, so that it does not make them again.

    The command `robocache replay` decides whether they are what it would make. The run that joins the
    shares decides that again, with the results that are in `out`. So this can only save work.

    Args:
        out: the folder of the results.
        folder: that of the share, where no command runs now.
        format: "mcap", "zarr" or "rows".
        bags: bags, or folders of bags.
        share: its number from 1, and how many there are.
    """
    try:
        there = _results(out, format)
    except (AttributeError, KeyError, TypeError):  # a damaged note saves no work
        there = {}
    mine = _bags_of(bags, out, share) if there else ()
    lent = {
        result: entry
        for result, entry in there.items()
        if entry["summary"]["bag"] in mine and not (folder / result).exists()
    }
    if not lent:
        return
    # The entries come first, so that no result is ever without one. An entry without a result is ignored.
    with (folder / _JOURNAL).open("a") as journal:
        for result, entry in lent.items():
            added = json.dumps({"Added": {"result": result, "entry": entry}})
            journal.write(f"\n{added}\n")
    for result in lent:
        stand_in = folder / result
        if format == "mcap":
            # Without hard links, the share makes the result again.
            with contextlib.suppress(OSError):
                os.link(out / result, stand_in)
        else:
            # The episode is in `out`. No part is an empty folder.
            stand_in.mkdir(parents=True)


def take_back(folders):
    """Removes what stands for episodes of a store, so that nobody takes it for a part."""
    for folder in folders:
        for part in folder.glob("*.parts/*"):
            if part.is_dir() and not any(part.iterdir()):
                part.rmdir()


def _bags_of(bags, out, share):
    """The bags of a share, as `--share` divides them."""
    found = _native.find_episodes(list(map(str, bags)), str(out), None, None, None, None)
    paths = list(dict.fromkeys(str(episode.bag) for episode in found))
    number, of = share
    return set(paths[len(paths) * (number - 1) // of : len(paths) * number // of])


def _results(out, format):
    """The entries of the results of this format that the folder has, by the paths in the folder."""
    ledger = _ledger(out)
    entries = ledger["episodes"]
    if format == "mcap":
        return {
            of: entry
            for of, entry in entries.items()
            if of.endswith(".mcap") and (out / of).is_file()
        }
    store = _STORES[format]
    stores = ledger["stores"] if (out / store).is_dir() else {}
    stored = stores.get(store, {"episodes": []})["episodes"]
    made_of = {f"{store}.parts/{each['name']}": (each["bag"], each["made_of"]) for each in stored}
    return {
        result: entry
        for result, entry in entries.items()
        if made_of.get(result) == (entry["summary"]["bag"], entry["made_of"])
        or (result.startswith(f"{store}.parts/") and (out / result).is_dir())
    }


def _ledger(out):
    """What a folder says of its results; nothing if it is of another format."""
    ledger = {"format": _LEDGER_FORMAT}
    if (out / _LEDGER).exists():
        ledger = _of_json((out / _LEDGER).read_text())
    if ledger.get("format") != _LEDGER_FORMAT:
        return {"episodes": {}, "stores": {}}
    ledger = {"episodes": {}, "stores": {}, **ledger}
    journal = (out / _JOURNAL).read_text() if (out / _JOURNAL).exists() else ""
    for change in map(_of_json, journal.splitlines()):
        if added := change.get("Added"):
            ledger["episodes"][added["result"]] = added["entry"]
        elif removed := change.get("Removed"):
            ledger["episodes"].pop(removed["result"], None)
    return ledger


def _of_json(text):
    """An object of JSON; an empty one if the text was broken off."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
