"""A reader of LeRobot datasets by their own files, without LeRobot. It needs pyarrow."""

from .datasets.lerobot import Dataset, Episode, Video

__all__ = ["Dataset", "Episode", "Video"]
