"""`python -m robocache.lerobot.train ...`: lerobot-train with `robocache.lerobot.dataset` in place of LeRobotDataset.

It takes the arguments of lerobot-train. The rows of the dataset are imported to `ROOT.rows`, or found there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .loading import Dataset, dataset

#: Versions of LeRobot whose trainer was tried.
KNOWN = ("0.4.4", "0.6.1")
#: Arguments of LeRobotDataset that `dataset` takes, too.
_SAME = ("delta_timestamps", "image_transforms", "return_uint8", "tolerance_s")
#: Arguments that say where a dataset is, or how its videos are decoded, which the import decides.
_OTHERS = {"revision", "video_backend", "download_videos", "force_cache_sync", "depth_output_unit"}


def factory(original: type) -> Callable[..., Dataset]:
    """What takes the place of LeRobotDataset: a function of its arguments."""

    def made(repo_id: str, root: Any = None, episodes: Any = None, **options: Any) -> Dataset:
        unknown = sorted(set(options) - set(_SAME) - _OTHERS)
        if unknown:
            raise TypeError(
                f"{unknown[0]}: expected an argument of LeRobotDataset that robocache knows "
                f"({', '.join(sorted({*_SAME, *_OTHERS}))}), found another"
            )
        where = {n: options[n] for n in ("revision", "video_backend") if options.get(n) is not None}
        # LeRobot finds the dataset, and downloads what is not there.
        found = original(repo_id, root=root, **where)
        same = {name: options[name] for name in _SAME if name in options}
        own = dataset(Path(found.root), episodes=episodes, **same)
        own.meta, own.repo_id = found.meta, repo_id
        logging.info("robocache: %r of %s", own, found.root)
        return own

    return made


def expect_known() -> None:
    """Warns if LeRobot is of another version than those that were tried; raises ImportError if there is none."""
    try:
        found = version("lerobot")
    except PackageNotFoundError:
        raise ImportError(
            f"expected LeRobot {' or '.join(KNOWN)}, found none: pip install lerobot"
        ) from None
    if found not in KNOWN:
        logging.warning("robocache: expected LeRobot %s, found %s", " or ".join(KNOWN), found)


def main() -> None:
    """Runs the trainer."""
    expect_known()
    from lerobot.datasets import factory as of_lerobot
    from lerobot.scripts import lerobot_train

    of_lerobot.LeRobotDataset = factory(of_lerobot.LeRobotDataset)
    lerobot_train.main()


if __name__ == "__main__":
    main()
