"""Operators written in Ascend C, with front ends for NumPy and TensorFlow.

`ascend_ops.sigmoid` and its like take NumPy arrays; `ascend_ops.tensorflow` has the same
operators for tensors; `ascend_ops.selftest()` compares each with its reference on this machine.
TensorFlow is imported only by those who ask for it.
"""

from ascend_ops.accuracy import selftest
from ascend_ops.errors import AscendOpsError, BuildMismatchError, LibraryError, ViolationError
from ascend_ops.numpy_ops import (
    conv2d_bias_relu,
    embedding_dense_grad,
    gather_add_relu,
    matmul_bias_act,
    sigmoid,
    sigmoid_grad,
)

__version__ = "0.1.0"

__all__ = [
    "AscendOpsError",
    "BuildMismatchError",
    "LibraryError",
    "ViolationError",
    "__version__",
    "conv2d_bias_relu",
    "embedding_dense_grad",
    "gather_add_relu",
    "matmul_bias_act",
    "selftest",
    "sigmoid",
    "sigmoid_grad",
]
