"""The operations of the node on arrays of any library, with gradients and tracing for torch."""
