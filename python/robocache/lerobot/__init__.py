"""LeRobot's datasets: recorded bags as one (`robocache to-lerobot`), and rows as what its policies train on.

    from robocache.lerobot import to_lerobot
    to_lerobot(["recordings/"], "robot.yaml", "dataset/", action=["command"])

    from robocache.lerobot import dataset
    data = dataset("dataset/", delta_timestamps={"action": [k / 30 for k in range(100)]})

The first needs pyarrow, PyAV and zarr: `pip install 'dist/WHEEL.whl[lerobot]'`, with the wheel of `make wheel`. The second needs
PyTorch, and for the folder of a dataset pyarrow and PyAV. Neither needs LeRobot. docs/lerobot.md and docs/training.md explain
them.
"""

from typing import TYPE_CHECKING

from .exporting import LAYOUTS, EpisodesFailed, export, to_lerobot
from .run import Export, join

if TYPE_CHECKING:
    from .loading import dataset as dataset

__all__ = ["LAYOUTS", "EpisodesFailed", "Export", "export", "join", "to_lerobot"]


def __getattr__(name):
    if name != "dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .loading import dataset  # it imports PyTorch

    return dataset
