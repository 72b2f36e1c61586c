"""Episodes as rows at their own stamps, and windows of them: what training reads."""

from .training.cache import NO_AGE, EpisodeCache, WindowPlan, Windows, WindowSegment

__all__ = ["NO_AGE", "EpisodeCache", "WindowPlan", "WindowSegment", "Windows"]
