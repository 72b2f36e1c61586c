"""`FusedTensor` and its segments, from a message's bytes or from a deserialized message."""

from .message.tensor import NO_AGE, SEGMENT_ALIGN, FusedTensor, Segment, decode, digest_of, from_msg

__all__ = ["NO_AGE", "SEGMENT_ALIGN", "FusedTensor", "Segment", "decode", "digest_of", "from_msg"]
