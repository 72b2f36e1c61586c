"""The messages of the ROS package `robocache_ros`."""

from __future__ import annotations

from typing import Any


def messages(user: str) -> Any:
    """The messages of `robocache_ros`, for a class that the error names."""
    try:
        from robocache_ros import msg
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "robocache_ros":
            raise
        raise ModuleNotFoundError(
            f"{user}: expected the ROS package robocache_ros, found none: source a workspace in which"
            " it is built (install/setup.bash)",
            name=error.name,
        ) from None
    return msg
