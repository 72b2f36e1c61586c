"""Finds `robocache.arrays.torch`, which serves the tensors of torch. It is imported at the first tensor."""

import sys
from typing import Any


def torch_operations() -> Any:
    """The module `robocache.arrays.torch`; torch is imported."""
    # An import statement takes longer than this, and waits for a thread that imports it now. A function that is being
    # compiled would be compiled again because of the import.
    if not sys.modules["torch"].compiler.is_compiling():
        known = sys.modules.get("robocache.arrays.torch")
        if known is not None and hasattr(known, "complete"):
            return known
    from . import torch

    return torch
