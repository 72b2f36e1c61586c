"""Ranks: the number of this process among all that train one policy."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["checked", "expect_given", "of_share"]


def checked(rank: int | None, world: int | None) -> tuple[int, int]:
    """The rank and the number of ranks; those of a single process if neither is given.

    Raises ValueError if one is given without the other, or the rank is not below their number.
    """
    if rank is None and world is None:
        return 0, 1
    if rank is None or world is None:
        raise ValueError(f"rank: expected rank and world together, found {rank} and {world}")
    if not 0 <= rank < world:
        raise ValueError(f"rank: expected 0 to {world - 1}, found {rank}")
    return int(rank), int(world)


def of_share(share: tuple[int, int] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a sampler of a cache. If the cache is a share, all its items are this rank's, in an order of its own.

    Raises ValueError if it is a share, and a rank is given.
    """
    if share is None:
        return dict(options)
    if "rank" in options or "world" in options:
        raise ValueError("rank: expected none for a cache that is a share already")
    rank, world = share
    return {**options, "seed": options.get("seed", 0) * world + rank, "rank": 0, "world": 1}


def expect_given() -> None:
    """Raises ValueError if several processes train, for a sampler that was not told its rank: all would have the same
    batches."""
    processes = _processes()
    if processes > 1:
        raise ValueError(
            f"rank: expected rank and world, because {processes} processes train (torch.distributed or WORLD_SIZE), found "
            "neither: without them, all have the same batches. If that is wanted, give rank=0, world=1"
        )


def _processes() -> int:
    """How many processes train: those of torch.distributed, or else those that torchrun says."""
    group = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return int(group.get_world_size())
    told = os.environ.get("WORLD_SIZE", "")
    return int(told) if told.isdecimal() else 1
