"""Lookups as PyTorch operators: the embedding with its gradient; gather, add and relu."""

from typing import Any, Final

import torch

from ascend_ops.torch_registration import TorchOperator
from ascend_ops.torch_support import check_dtype, check_indices, check_range, run_operator


def _embedding_dense_grad_fake(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    check_dtype("embedding_dense_grad", grad)
    check_indices("embedding_dense_grad", indices)
    if grad.dim() == 0 or grad.shape[:-1] != indices.shape:
        raise ValueError(
            f"embedding_dense_grad: grad has shape {tuple(grad.shape)}, which is not the shape of "
            f"the indices, {tuple(indices.shape)}, and a width"
        )
    return grad.new_empty((num_weights, grad.shape[-1]))


def _embedding_dense_grad(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    table = _embedding_dense_grad_fake(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
    check_range("embedding_dense_grad", indices, 0, num_weights)
    run_operator(
        "embedding_dense_grad",
        [grad.contiguous(), indices.to(torch.int32).contiguous(), table],
        [indices.numel(), num_weights, grad.shape[-1], padding_idx, int(scale_grad_by_freq)],
    )
    return table


def _embedding_dense_grad_save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, indices, ctx.num_weights, ctx.padding_idx, ctx.scale_grad_by_freq = inputs
    ctx.save_for_backward(indices)


def _embedding_dense_grad_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """The operation is linear in its first argument: the derivative looks the rows up again.

    Rows that were dropped as padding, or divided by their frequency, pass on as much.
    """
    (indices,) = ctx.saved_tensors
    flat = indices.reshape(-1).to(torch.int64)
    rows = grad.index_select(0, flat)
    if ctx.scale_grad_by_freq:
        ones = torch.ones(flat.shape, dtype=torch.float32, device=grad.device)
        counts = ones.new_zeros(ctx.num_weights).index_add(0, flat, ones)
        rows = rows / counts.index_select(0, flat).to(rows.dtype)[:, None]
    kept = (flat != ctx.padding_idx).to(rows.dtype)
    rows = rows * kept[:, None]
    return rows.reshape((*indices.shape, grad.shape[-1])), None, None, None, None


def _embedding_fake(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    check_dtype("embedding", weight)
    check_indices("embedding", indices)
    if weight.dim() != 2:
        raise ValueError(
            f"embedding: the weight has shape {tuple(weight.shape)}; it must be [rows, width]"
        )
    return weight.new_empty((*indices.shape, weight.shape[1]))


def _embedding(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    y = _embedding_fake(weight, indices, padding_idx, scale_grad_by_freq)
    check_range("embedding", indices, 0, weight.shape[0])
    # A copy of rows: there is nothing to gain over PyTorch's own.
    flat = indices.reshape(-1).to(torch.int64)
    torch.index_select(weight, 0, flat, out=y.view(len(flat), weight.shape[1]))
    return y


def _embedding_save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    weight, indices, ctx.padding_idx, ctx.scale_grad_by_freq = inputs
    ctx.num_weights = weight.shape[0]
    ctx.save_for_backward(indices)


def _embedding_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    (indices,) = ctx.saved_tensors
    table = torch.ops.ascend_c.embedding_dense_grad(
        grad, indices, ctx.num_weights, ctx.padding_idx, ctx.scale_grad_by_freq
    )
    return table, None, None, None


def _gather_add_relu_fake(table: Any, indices: Any, addend: Any) -> Any:
    check_dtype("gather_add_relu", table)
    check_indices("gather_add_relu", indices)
    if table.dim() == 0 or addend.dtype != table.dtype:
        raise ValueError(
            f"gather_add_relu: the table has shape {tuple(table.shape)} and dtype {table.dtype}, "
            f"the addend dtype {addend.dtype}; the table needs rows, and both one dtype"
        )
    row = table.shape[1:]
    shape = (*indices.shape, *row)
    if tuple(addend.shape) not in (tuple(row), shape):
        raise ValueError(
            f"gather_add_relu: the addend has shape {tuple(addend.shape)}; it must have that of a "
            f"row, {tuple(row)}, or of the result, {shape}"
        )
    return table.new_empty(shape)


def _gather_add_relu(table: Any, indices: Any, addend: Any) -> Any:
    y = _gather_add_relu_fake(table, indices, addend)
    rows = table.shape[0]
    check_range("gather_add_relu", indices, -rows, rows)
    one_row = addend.shape == table.shape[1:]
    width = table[0].numel() if rows else 0
    run_operator(
        "gather_add_relu",
        [table.contiguous(), indices.contiguous(), addend.contiguous(), y],
        [indices.numel(), rows, width, int(one_row), indices.element_size()],
    )
    return y


def _gather_add_relu_save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    table, indices, addend = inputs
    ctx.table_shape, ctx.addend_rank = table.shape, addend.dim()
    ctx.save_for_backward(indices, output)


def _gather_add_relu_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    indices, y = ctx.saved_tensors
    rows = ctx.table_shape[0]
    passed = grad * (y > 0).to(grad.dtype)
    flat = passed.flatten(indices.dim()) if passed.dim() > indices.dim() else passed[..., None]
    wrapped = torch.where(indices < 0, indices + rows, indices)
    table = torch.ops.ascend_c.embedding_dense_grad(flat, wrapped, rows, -1, False)
    leading = list(range(passed.dim() - ctx.addend_rank))
    return table.reshape(ctx.table_shape), None, passed.sum(leading) if leading else passed


LOOKUP_OPERATORS: Final = (
    TorchOperator(
        "embedding_dense_grad",
        "(Tensor grad, Tensor indices, SymInt num_weights, int padding_idx, "
        "bool scale_grad_by_freq) -> Tensor",
        _embedding_dense_grad,
        _embedding_dense_grad_fake,
        _embedding_dense_grad_save,
        _embedding_dense_grad_backward,
    ),
    TorchOperator(
        "embedding",
        "(Tensor weight, Tensor indices, int padding_idx, bool scale_grad_by_freq) -> Tensor",
        _embedding,
        _embedding_fake,
        _embedding_save,
        _embedding_backward,
    ),
    TorchOperator(
        "gather_add_relu",
        "(Tensor table, Tensor indices, Tensor addend) -> Tensor",
        _gather_add_relu,
        _gather_add_relu_fake,
        _gather_add_relu_save,
        _gather_add_relu_backward,
    ),
)
