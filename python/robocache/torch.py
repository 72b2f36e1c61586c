"""The operations on torch tensors, which `robocache.resample` and the others call. It imports torch."""

from .arrays.torch import fuse, is_plain, place_of, resample

__all__ = ["fuse", "is_plain", "place_of", "resample"]
