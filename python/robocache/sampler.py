"""Which windows a batch has: an order that is a pure function of (seed, epoch), in any process."""

from .training.sampler import WindowSampler

__all__ = ["WindowSampler"]
