"""The codec `imagecodecs_jpeg` for zarr-python: that of imagecodecs, or of an older imagecodecs the same call."""

import imagecodecs
import zarr
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import register_codec

#: By the word of a newer imagecodecs.
_ORDERS = {None: None, "BGR": imagecodecs.JPEG8.CS.EXT_BGR}


class _Jpeg(ArrayBytesCodec):
    """Reads an image per chunk, with the settings of `zarr.json`."""

    is_fixed_size = False

    def __init__(self, level, subsampling, colorspace_data=None):
        self.level, self.subsampling, self.colorspace_data = level, subsampling, colorspace_data

    @classmethod
    def from_dict(cls, data):
        return cls(**data["configuration"])

    def to_dict(self):
        known = {"level": self.level, "subsampling": self.subsampling}
        if self.colorspace_data is not None:
            known["colorspace_data"] = self.colorspace_data
        return {"name": "imagecodecs_jpeg", "configuration": known}

    async def _decode_single(self, chunk_bytes, chunk_spec):
        image = imagecodecs.jpeg8_decode(
            chunk_bytes.to_bytes(), outcolorspace=_ORDERS[self.colorspace_data]
        )
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(image.reshape(chunk_spec.shape))

    def compute_encoded_size(self, input_byte_length, chunk_spec):
        raise NotImplementedError


def rows(store, stream):
    """The rows of a stream as zarr-python reads them, and the codecs of a chunk by their names."""
    try:
        from imagecodecs.zarr import register_codecs
    except ImportError:
        register_codec("imagecodecs_jpeg", _Jpeg)
    else:
        register_codecs(verbose=False)
    array = zarr.open_array(store / "streams" / stream / "0" / "rows", mode="r")
    (shards,) = array.metadata.codecs
    return array[:], [codec.to_dict()["name"] for codec in shards.codecs]
