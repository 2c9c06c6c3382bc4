"""PyTorch modules on the Ascend C operators; `ascend_ops.torch` has the operators themselves."""

from typing import Any

import torch

import ascend_ops.torch  # noqa: F401  # registers torch.ops.ascend_c
from ascend_ops.arguments import check_counts
from ascend_ops.fused_ops import ACTIVATIONS


class AscendSigmoid(torch.nn.Module):  # type: ignore[misc]  # PyTorch may be missing
    """1 / (1 + e^-x), elementwise: a drop-in for torch.nn.Sigmoid in float32, half and bfloat16."""

    def forward(self, x: Any) -> Any:
        """The result has the shape and type of `x`."""
        return torch.ops.ascend_c.sigmoid(x)


class AscendEmbedding(torch.nn.Module):  # type: ignore[misc]
    """A table of rows by index: torch.nn.Embedding's arguments, initial values and state.

    The gradient reaches `weight` through the embedding_dense_grad kernel, which sums in float32 in
    the order of the lookups, so that it is the same each time. The row `padding_idx` starts at
    zero and gets no gradient; a negative one counts from the end. ValueError when it is no row.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        scale_grad_by_freq: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_counts(
            "AscendEmbedding", 0, num_embeddings=num_embeddings, embedding_dim=embedding_dim
        )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"AscendEmbedding: padding_idx is {padding_idx}, which is not a row of the table "
                f"of {num_embeddings} rows"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.scale_grad_by_freq = scale_grad_by_freq
        self.weight = torch.nn.Parameter(torch.empty(num_embeddings, embedding_dim, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fills the table with normal values, and the padding row with zeros."""
        torch.nn.init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, indices: Any) -> Any:
        """Rows of the table: the shape of `indices` (int32 or int64) and one axis more."""
        padding = -1 if self.padding_idx is None else self.padding_idx
        return torch.ops.ascend_c.embedding(self.weight, indices, padding, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        """What print shows of the module."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class AscendLinear(torch.nn.Module):  # type: ignore[misc]
    """A dense layer with its activation in one kernel: torch.nn.Linear's state, and an activation.

    `activation` is "none", "relu" or "sigmoid"; ValueError for another. Sums are float32 for each
    type. Inputs have any rank from 1 on; the last axis is `in_features` long.
    """

    def __init__(
        self, in_features: int, out_features: int, activation: str = "none", *, dtype: Any = None
    ) -> None:
        super().__init__()
        check_counts("AscendLinear", 0, in_features=in_features, out_features=out_features)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"AscendLinear: no activation {activation!r}; use one of {ACTIVATIONS}"
            )
        self.activation = activation
        linear = torch.nn.Linear(in_features, out_features, dtype=dtype)  # its initial values
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Any) -> Any:
        """activation(x · weightᵀ + bias): the shape of `x` with `out_features` as last axis."""
        rows = x.reshape((x.shape[:-1].numel(), x.shape[-1]))
        y = torch.ops.ascend_c.matmul_bias_act(
            rows, self.weight, self.bias, self.activation, False, True
        )
        return y.reshape((*x.shape[:-1], self.weight.shape[0]))

    def extra_repr(self) -> str:
        """What print shows of the module."""
        out_features, in_features = self.weight.shape
        return f"{in_features}, {out_features}, activation={self.activation}"
