"""The kinds of datasets: how a path is recognised, and how it is opened.

A kind is a module with `recognises(root)`, and a class with `opened(root, mapping)` and `draft(root)`. `dataset` says what
a dataset has.
"""

import importlib
from pathlib import Path

#: By kind, what a path of it has, its module and its class. The first that recognises a path reads it.
KINDS = {
    "LeRobot": ("meta/info.json", "lerobot", "Dataset"),
    "RLDS": ("features.json", "rlds", "RldsDataset"),
    "CALVIN": (
        "ep_start_end_ids.npy in it, or in training/ or validation/",
        "calvin",
        "CalvinDataset",
    ),
    "RoboMimic or LIBERO": ("a file .hdf5 or .h5", "hdf5", "Hdf5Dataset"),
}


def opened(root, mapping=None):
    """The dataset at a path.

    Args:
        root: its path.
        mapping: the name of a known dataset or the file of a mapping; None for a kind that needs none.

    Raises:
        ValueError: it is of no known kind, it is damaged, or the mapping does not fit.
        OSError: it cannot be read.
        ImportError: a package is missing.
    """
    return _class_of(root).opened(root, mapping)


def draft(root):
    """The text of a first mapping. Raises as `opened`."""
    return _class_of(root).draft(root)


def _class_of(root):
    if not Path(root).exists():
        raise ValueError(
            f"{root}: expected a dataset, found nothing there. If it is on the Hugging Face Hub, download it first: "
            "hf download --repo-type dataset REPOSITORY --local-dir FOLDER"
        )
    for _, module, name in KINDS.values():
        found = importlib.import_module(f".{module}", __package__)
        if found.recognises(root):
            return getattr(found, name)
    known = "; ".join(f"{kind}: {has}" for kind, (has, _, _) in KINDS.items())
    raise ValueError(f"{root}: expected a dataset of a known kind ({known}), found none of these")
