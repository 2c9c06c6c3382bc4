"""Serves a TensorFlow or Ascend model in TensorFlow Serving's protocols."""

__version__ = "0.1.0"
