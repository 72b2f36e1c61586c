"""Point clouds and images to rows: what the node's encoders do, on arrays."""

from .arrays.encoders import Voxels, encode_image, voxelize

__all__ = ["Voxels", "encode_image", "voxelize"]
