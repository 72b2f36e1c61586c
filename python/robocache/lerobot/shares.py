"""Datasets of a part of the episodes each, which become one. The files are those that one run would have written."""

import shutil

from .. import _native
from ..node import replay_options as of_replay
from ..node import share_folders
from ..node.summary import Findings
from . import run


def share(bags, config, folder, given):
    """Makes the dataset of these bags in the folder of a share, unless it is there.

    Args:
        bags, config: as of `to_lerobot`.
        folder: of the share. A run that was interrupted goes on there.
        given: all options of `to_lerobot`. The layout is that of the dataset of all.

    Returns what `share_folders.done` says of it.
    """
    dataset = folder / "dataset"
    given = {**given, "layout": "lerobot", "replace": False}
    made_of = run.made_of(bags, config, dataset, **given)
    done = share_folders.done(folder)
    if done["made_of"] == made_of and not done["failures"] and dataset.is_dir():
        return done
    # No note may be beside a dataset that it does not describe.
    share_folders.forget(folder)
    shutil.rmtree(dataset, ignore_errors=True)
    found = run.write(bags, config, dataset, given)
    note = {
        "made_of": made_of,
        "counts": (found.episodes, found.frames),
        # The next run tries them again.
        "failures": found.failures,
        "findings": found.findings.value,
        "actions": found.actions,
    }
    share_folders.note_done(folder, note)
    return share_folders.done(folder)


def joined(folders, out, given):
    """Makes one dataset of those of shares, in the order of their folders. Returns an `Export`."""
    datasets = [folder / "dataset" for folder in folders]
    counts = run.join(datasets, out, given["layout"], given["replace"])
    found = run.Export(counts, [], Findings(), {})
    for note in map(share_folders.done, folders):
        found.failures += note["failures"]
        found.findings.join(note["findings"])
        found.actions |= note["actions"]
    return found


def write(bags, config, out, watched, given):
    """Writes the dataset `out` of the shares that `robocache watch` has made in the folder `watched`, a bag each. Those that
    are missing are made. Returns an `Export`."""
    watched.mkdir(parents=True, exist_ok=True)
    with share_folders.held(watched):
        folders = []
        for bag in _bags(bags, run.options(config, given)):
            folders.append(share_folders.share_of_bag(watched, bag, folders))
            share([bag], config, folders[-1], given)
        return joined(folders, out, given)


def _bags(bags, asked):
    """The bags that have an episode, in their order. One that was marked as not wanted has none."""
    common = {option.name: asked.get(option.name) for option in of_replay.COMMON}
    given = {name: value for name, value in common.items() if value is not None}
    episodes, _ = _native.find_episodes(list(map(str, bags)), **given)
    return list(dict.fromkeys(episode.bag for episode in episodes))
