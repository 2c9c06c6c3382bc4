"""Inputs for an ONNX model that nobody gave any: random, of the shapes and types that it says."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, ValueInfoProto

from ascend_ops.errors import InvalidInputError

BATCH: Final = 32  # for a first axis that the model leaves open
OPEN_AXIS: Final = 16  # for any other
SEED: Final = 42
INDEXING: Final = ("Gather", "GatherElements", "GatherND")
# Through these an input is still the index that it was.
PASSING: Final = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten")
NO_VALUES: Final = "no values can be made for it; use --no-compare"


def make_feeds(model: ModelProto, batch: int = BATCH) -> dict[str, NDArray[Any]]:
    """Normal(0, 1) numbers, and indices that each table has; a named axis has one size everywhere.

    InvalidInputError for an input that is no tensor of numbers, or has no known rank.
    """
    generator = np.random.default_rng(SEED)
    weights = {tensor.name for tensor in model.graph.initializer}
    named: dict[str, int] = {}
    rows = _table_rows(model)
    feeds = {}
    for value in model.graph.input:
        if value.name not in weights:
            sizes = _sizes(value, batch, named)
            feeds[value.name] = _values(value, sizes, generator, rows.get(value.name, 2))
    return feeds


def _sizes(value: ValueInfoProto, batch: int, named: dict[str, int]) -> list[int]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        raise InvalidInputError(f"input {value.name} is no tensor of a known rank: {NO_VALUES}")
    sizes = []
    for axis, dim in enumerate(tensor.shape.dim):
        free = batch if axis == 0 else OPEN_AXIS
        if dim.HasField("dim_value"):
            sizes.append(int(dim.dim_value))
        else:
            sizes.append(named.setdefault(dim.dim_param, free) if dim.dim_param else free)
    return sizes


def _values(
    value: ValueInfoProto, sizes: Sequence[int], generator: np.random.Generator, rows: int
) -> NDArray[Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype.kind == "f":
        return generator.normal(size=sizes).astype(dtype)
    if dtype.kind in "iu":
        return generator.integers(0, min(rows, np.iinfo(dtype).max), sizes).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, sizes).astype(bool)
    raise InvalidInputError(f"input {value.name} is of type {dtype}: {NO_VALUES}")


def _table_rows(model: ModelProto) -> dict[str, int]:
    """Input → rows of the smallest constant table that it indexes."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    inputs = {value.name for value in graph.input}
    rows: dict[str, int] = {}
    for node, size in _indexed_tables(model):
        name = node.input[1]
        while name not in inputs and name in makers and makers[name].op_type in PASSING:
            name = makers[name].input[0]
        if name in inputs:
            rows[name] = min(rows.get(name, size), size)
    return rows


def _indexed_tables(model: ModelProto) -> Iterator[tuple[NodeProto, int]]:
    """Nodes that index a constant, and how many things there are to index."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in INDEXING or not shapes.get(node.input[0]):
            continue
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        yield node, shapes[node.input[0]][axis]
