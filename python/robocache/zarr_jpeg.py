"""The codec of rows of images with loss, for zarr-python: `imagecodecs_jpeg`.

    from robocache.zarr_jpeg import register
    register()
    rows = zarr.open_array("data/rows.zarr/streams/camera/0/rows", mode="r")

It needs zarr and imagecodecs.
"""

from __future__ import annotations

from typing import Any

import imagecodecs
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import register_codec

#: By the word of imagecodecs for an order of colours.
_ORDERS = {None: None, "BGR": imagecodecs.JPEG8.CS.EXT_BGR}


def register() -> None:
    """Registers the codec: that of imagecodecs, or of an imagecodecs without it the same call."""
    try:
        from imagecodecs.zarr import register_codecs
    except ImportError:
        register_codec("imagecodecs_jpeg", _Jpeg)
    else:
        register_codecs(verbose=False)


class _Jpeg(ArrayBytesCodec):
    """Reads an image per chunk, with the settings of `zarr.json`."""

    is_fixed_size = False

    def __init__(self, level: Any, subsampling: Any, colorspace_data: Any = None) -> None:
        self.level, self.subsampling, self.colorspace_data = level, subsampling, colorspace_data

    @classmethod
    def from_dict(cls, data: Any) -> _Jpeg:
        return cls(**data["configuration"])

    def to_dict(self) -> Any:
        known = {"level": self.level, "subsampling": self.subsampling}
        if self.colorspace_data is not None:
            known["colorspace_data"] = self.colorspace_data
        return {"name": "imagecodecs_jpeg", "configuration": known}

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        image = imagecodecs.jpeg8_decode(
            chunk_bytes.to_bytes(), outcolorspace=_ORDERS[self.colorspace_data]
        )
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(image.reshape(chunk_spec.shape))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError
