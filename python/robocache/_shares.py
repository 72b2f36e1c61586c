"""The folders of the shares of a run on a cluster, and what they are made of."""

import json
import os
import shutil

from . import _native

#: What a folder of results says of itself, and the format of that which is known here.
_LEDGER, _JOURNAL, _LEDGER_FORMAT = "replay.json", "replay.json.journal", 1
#: The stores of all episodes by their formats.
_STORES = {"zarr": "tensors.zarr", "rows": "rows.zarr"}


def folder_of(out):
    """The folder of the shares of a result."""
    return out.with_name(f"{out.name}.shares")


def made_of(bags, config, options):
    """A text that differs if what shares are made of differs: bags, configuration or options."""
    files = [
        [str(file), file.stat().st_size, file.stat().st_mtime_ns]
        for bag in bags
        for file in sorted(bag.rglob("*") if bag.is_dir() else [bag])
        if file.is_file()
    ]
    return json.dumps([files, config.read_text(), options], default=str)


def keep_only(folder, made_of):
    """Removes the shares of an earlier run that were made of other things."""
    noted = folder / "made_of.json"
    if folder.exists() and (not noted.exists() or noted.read_text() != made_of):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write(noted, made_of)


def number_of(folder, wanted):
    """The number of shares of the run that was interrupted, or else the one that is wanted."""
    noted = folder / "shares.json"
    folder.mkdir(parents=True, exist_ok=True)
    if noted.exists():
        return json.loads(noted.read_text())
    _write(noted, json.dumps(wanted))
    return wanted


def lend(out, folder, format, bags, share):
    """Tells a share which results of its bags the folder `out` has, so that it does not make them again.

    The command `robocache replay` decides whether they are what it would make. The run that joins the
    shares decides that again, with the results that are in `out`. So this can only save work.

    Args:
        out: the folder of the results.
        folder: that of the share. If the share has begun, it knows already.
        format: "mcap", "zarr" or "rows".
        bags: bags, or folders of bags.
        share: its number from 1, and how many there are.
    """
    if any((folder / name).exists() for name in (_LEDGER, _JOURNAL)):
        return
    try:
        ledger = json.loads((out / _LEDGER).read_text())
    except (OSError, ValueError):
        return
    if ledger.get("format") != _LEDGER_FORMAT:
        return
    mine = _bags_of(bags, out, share)
    there = _results(out, ledger, format)
    lent = {result: entry for result, entry in there.items() if entry["summary"]["bag"] in mine}
    for result in lent:
        stand_in = folder / result
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        if format == "mcap":
            stand_in.unlink(missing_ok=True)
            os.link(out / result, stand_in)
        else:
            # The episode is in the store. No part is an empty folder.
            stand_in.mkdir(exist_ok=True)
    if lent:
        said = {**ledger, "episodes": lent, "stores": {}, "coming": {}}
        _write(folder / _LEDGER, json.dumps(said))


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


def _results(out, ledger, format):
    """The entries of the results of this format that the folder has."""
    entries = ledger["episodes"].items()
    if format == "mcap":
        return {of: entry for of, entry in entries if of.endswith(".mcap") and (out / of).is_file()}
    store = _STORES[format]
    if not (out / store).is_dir():
        return {}
    stored = ledger["stores"].get(store, {"episodes": []})["episodes"]
    made_of = {f"{store}.parts/{each['name']}": (each["bag"], each["made_of"]) for each in stored}
    return {
        result: entry
        for result, entry in entries
        if made_of.get(result) == (entry["summary"]["bag"], entry["made_of"])
    }


def _write(path, text):
    """Writes a file that is there whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.rename(path)
