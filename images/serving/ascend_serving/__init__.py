"""Serves a TensorFlow or Ascend model in TensorFlow Serving's REST protocol."""

__version__ = "0.1.0"
