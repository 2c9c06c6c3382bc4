"""What the PyTorch operators share: checks of their arguments, and running a kernel on tensors."""

from typing import Any, Final

import torch

from ascend_ops.abi import Operator, load_library
from ascend_ops.arguments import CORRECT
from ascend_ops.numpy_ops import ELEMENTS_A_THREAD

# Types in the order of the C interface's numbers.
DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
INDEX_DTYPES: Final = (torch.int32, torch.int64)


def check_dtype(operator: str, tensor: Any) -> None:
    """TypeError unless the operators have kernels for the tensor's type."""
    if tensor.dtype not in DTYPES:
        raise TypeError(
            f"{operator}: dtype {tensor.dtype} is not supported; cast to float32, float16 or "
            "bfloat16"
        )


def check_indices(operator: str, indices: Any) -> None:
    """TypeError unless the tensor is of one of the types of indices."""
    if indices.dtype not in INDEX_DTYPES:
        raise TypeError(
            f"{operator}: indices have dtype {indices.dtype}; cast them to int32 or int64"
        )


def check_range(operator: str, indices: Any, lowest: int, rows: int) -> None:
    """IndexError that names the first index below `lowest`, or not below `rows`."""
    outside = torch.nonzero((indices.reshape(-1) < lowest) | (indices.reshape(-1) >= rows))
    if len(outside):
        position = int(outside[0])
        raise IndexError(
            f"{operator}: index {int(indices.reshape(-1)[position])} at position {position} is "
            f"outside the table of {rows} rows{CORRECT}"
        )


def _find(operator: str) -> Operator:
    return load_library().operators[operator]


def run_operator(operator: str, tensors: list[Any], sizes: list[int]) -> None:
    """Computes into the last of `tensors`, all contiguous; its type is that of the first."""
    memory = [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
    work = max(tensor.numel() for tensor in tensors)
    threads = max(1, min(torch.get_num_threads(), work // ELEMENTS_A_THREAD))
    _find(operator).run_memory(memory, DTYPES.index(tensors[0].dtype), sizes, threads)
