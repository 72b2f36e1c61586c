"""A batch of windows: what `EpisodeCache.windows` gives."""

from .training.windows import WindowPlan, Windows, WindowSegment, WindowStream

__all__ = ["WindowPlan", "WindowSegment", "WindowStream", "Windows"]
