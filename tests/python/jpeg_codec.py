"""Rows of images with loss, as zarr-python reads them."""

import zarr

from robocache import zarr_jpeg


def rows(store, stream):
    """The rows of a stream, and the codecs of a chunk by their names."""
    zarr_jpeg.register()
    array = zarr.open_array(store / "streams" / stream / "0" / "rows", mode="r")
    (shards,) = array.metadata.codecs
    return array[:], [codec.to_dict()["name"] for codec in shards.codecs]
