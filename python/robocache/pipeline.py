"""`Pipeline`: messages in, fused tensors out, in the process of the policy."""

from .node.pipeline import Pipeline, PushResult

__all__ = ["Pipeline", "PushResult"]
