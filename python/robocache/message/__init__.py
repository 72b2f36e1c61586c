"""Tensor messages: their bytes, and the tensors as NumPy, torch and GPU arrays see them."""
