"""The operators as PyTorch ops, `torch.ops.ascend_c.*`, with derivatives and fake kernels.

Importing this module registers them. The kernels run on the tensors' own memory through the C
interface of the operator library, which holds no lock of Python's: no C++ extension, so that one
build serves every PyTorch, and nothing is copied. CPU tensors only.
"""

from typing import Any, Final

import torch

from ascend_ops.torch_lookup import LOOKUP_OPERATORS
from ascend_ops.torch_matmul import MATMUL_OPERATORS
from ascend_ops.torch_registration import TorchOperator, register
from ascend_ops.torch_support import DTYPES, INDEX_DTYPES, check_dtype, run_operator

__all__ = ["DTYPES", "INDEX_DTYPES", "OPERATORS"]


def _sigmoid_fake(x: Any) -> Any:
    check_dtype("sigmoid", x)
    return x.new_empty(x.shape)


def _sigmoid(x: Any) -> Any:
    y = _sigmoid_fake(x)
    run_operator("sigmoid", [x.contiguous(), y], [x.numel()])
    return y


def _sigmoid_save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(output)


def _sigmoid_backward(ctx: Any, grad: Any) -> Any:
    (y,) = ctx.saved_tensors
    return torch.ops.ascend_c.sigmoid_grad(y, grad)


def _sigmoid_grad_fake(y: Any, dy: Any) -> Any:
    check_dtype("sigmoid_grad", y)
    if y.shape != dy.shape or y.dtype != dy.dtype:
        raise ValueError(
            f"sigmoid_grad: y and dy must have one shape and dtype, not {tuple(y.shape)} {y.dtype} "
            f"and {tuple(dy.shape)} {dy.dtype}"
        )
    return y.new_empty(y.shape)


def _sigmoid_grad(y: Any, dy: Any) -> Any:
    dx = _sigmoid_grad_fake(y, dy)
    run_operator("sigmoid_grad", [y.contiguous(), dy.contiguous(), dx], [y.numel()])
    return dx


def _sigmoid_grad_save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _sigmoid_grad_backward(ctx: Any, grad: Any) -> tuple[Any, Any]:
    """Derivatives of y·(1 − y)·dy: (1 − 2y)·dy for y, and y·(1 − y) for dy."""
    y, dy = ctx.saved_tensors
    return (1 - 2 * y) * dy * grad, torch.ops.ascend_c.sigmoid_grad(y, grad)


OPERATORS: Final = (
    TorchOperator(
        "sigmoid", "(Tensor x) -> Tensor", _sigmoid, _sigmoid_fake, _sigmoid_save, _sigmoid_backward
    ),
    TorchOperator(
        "sigmoid_grad",
        "(Tensor y, Tensor dy) -> Tensor",
        _sigmoid_grad,
        _sigmoid_grad_fake,
        _sigmoid_grad_save,
        _sigmoid_grad_backward,
    ),
    *LOOKUP_OPERATORS,
    *MATMUL_OPERATORS,
)


for _operator in OPERATORS:
    register(_operator)
