"""Builders of TensorFlow Datasets, in a package because tfds looks for files beside them."""
