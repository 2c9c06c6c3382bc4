"""opsctl: deploy, prove and roll back TensorFlow services on Ascend NPUs."""

__version__ = "0.1.0"
