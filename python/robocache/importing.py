"""Datasets as rows, tensors or MCAP files: `robocache import`."""

from .datasets.importing import import_dataset, import_rows, opened, recordings, remarks

__all__ = ["import_dataset", "import_rows", "opened", "recordings", "remarks"]
