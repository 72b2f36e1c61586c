"""Recorded bags as a LeRobot dataset: `robocache to-lerobot`.

    from robocache.lerobot import to_lerobot
    to_lerobot(["recordings/"], "robot.yaml", "dataset/", action=["command"])

It needs pyarrow, PyAV and zarr, but no LeRobot: `pip install 'dist/WHEEL.whl[lerobot]'`, with the wheel of `make wheel`.
docs/lerobot.md explains the columns.
"""

from .exporting import LAYOUTS, EpisodesFailed, export, to_lerobot
from .run import Export, join

__all__ = ["LAYOUTS", "EpisodesFailed", "Export", "export", "join", "to_lerobot"]
