"""Operations on arrays: what the node computes, for whole batches."""

from .arrays.operations import Resampled, Stream, fuse, resample

__all__ = ["Resampled", "Stream", "fuse", "resample"]
