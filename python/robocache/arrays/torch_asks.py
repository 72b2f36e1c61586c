"""Asks torch if something wants more of a call than its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

_library = torch.library.Library("robocache", "FRAGMENT")
_library.define("is_watched() -> bool")
_library.impl("is_watched", lambda: False, "CompositeExplicitAutograd")
# At these keys of its dispatcher, modes of torch, transforms such as `vmap`, and traces take operators.
for _key in ("Python", "FuncTorchDynamicLayerFrontMode", "Tracer"):
    _library.impl("is_watched", lambda: True, _key)

#: `() -> bool`: true if something takes operators before they are computed. Only the dispatcher knows all that may.
is_watched = torch.ops.robocache.is_watched.default


def expect_no_tangent(rows: Sequence[Any]) -> None:
    """Raises RuntimeError if the caller asks for a forward-mode gradient."""
    for own in rows:
        if isinstance(own, Tensor) and forward_ad.unpack_dual(own).tangent is not None:
            raise RuntimeError(
                "rows: expected no tangent, as there is no forward-mode gradient; use backward"
            )
