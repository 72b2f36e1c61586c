"""The code that called this package."""

import sys


def outside():
    """The stack level, for the caller, of the first line outside this package: warnings name it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("robocache."):
        level, frame = level + 1, frame.f_back
    return level
