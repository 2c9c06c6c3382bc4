"""The fused matrix product as a PyTorch operator: activation(a · b + bias)."""

from typing import Any, Final

import torch

from ascend_ops.fused_ops import ACTIVATIONS
from ascend_ops.torch_registration import TorchOperator
from ascend_ops.torch_support import check_dtype, run_operator

NAME: Final = "matmul_bias_act"


def _shape(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> tuple[Any, Any, Any, Any]:
    """Rows, columns, and the depth of both matrices."""
    m, left = (a.shape[1], a.shape[0]) if transpose_a else (a.shape[0], a.shape[1])
    right, n = (b.shape[1], b.shape[0]) if transpose_b else (b.shape[0], b.shape[1])
    return m, n, left, right


def _matmul_fake(
    a: Any, b: Any, bias: Any, activation: str, transpose_a: bool, transpose_b: bool
) -> Any:
    check_dtype(NAME, a)
    if activation not in ACTIVATIONS:
        raise ValueError(f"{NAME}: no activation {activation!r}; use one of {ACTIVATIONS}")
    ranks = (a.dim(), b.dim(), bias.dim())
    fits = ranks == (2, 2, 1) and a.dtype == b.dtype == bias.dtype
    if fits:
        m, n, left, right = _shape(a, b, transpose_a, transpose_b)
        if left == right and bias.shape[0] == n:
            return a.new_empty((m, n))
    given = ", ".join(f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in (a, b, bias))
    raise ValueError(
        f"{NAME}: the arguments are {given}; they must be [m, k], [k, n] (each transposed where it "
        "is asked for) and [n], all of one dtype"
    )


def _matmul(
    a: Any, b: Any, bias: Any, activation: str, transpose_a: bool, transpose_b: bool
) -> Any:
    y = _matmul_fake(a, b, bias, activation, transpose_a, transpose_b)
    m, n, k, _ = _shape(a, b, transpose_a, transpose_b)
    number = ACTIVATIONS.index(activation)
    run_operator(
        NAME,
        [a.contiguous(), b.contiguous(), bias.contiguous(), y],
        [m, n, k, int(transpose_a), int(transpose_b), number],
    )
    return y


def _matmul_save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    a, b, _, ctx.activation, ctx.transpose_a, ctx.transpose_b = inputs
    ctx.save_for_backward(a, b, output)


def _matmul_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """For both matrices, as they lie, and for the bias."""
    a, b, y = ctx.saved_tensors
    if ctx.activation == "relu":
        grad = grad * (y > 0).to(grad.dtype)
    elif ctx.activation == "sigmoid":
        grad = torch.ops.ascend_c.sigmoid_grad(y, grad)
    left = a.t() if ctx.transpose_a else a
    right = b.t() if ctx.transpose_b else b
    for_a, for_b = grad @ right.t(), left.t() @ grad
    return (
        for_a.t() if ctx.transpose_a else for_a,
        for_b.t() if ctx.transpose_b else for_b,
        grad.sum(0),
        None,
        None,
        None,
    )


MATMUL_OPERATORS: Final = (
    TorchOperator(
        NAME,
        "(Tensor a, Tensor b, Tensor bias, str activation, bool transpose_a, bool transpose_b) "
        "-> Tensor",
        _matmul,
        _matmul_fake,
        _matmul_save,
        _matmul_backward,
    ),
)
