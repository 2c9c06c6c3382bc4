"""What a fusion needs to know of an ONNX graph: who makes and uses a value, its type and shape."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

STANDARD_DOMAINS = ("", "ai.onnx")
# A dimension: a number, the name of one that is known to be the same elsewhere, or nothing.
Dimension = int | str | None
Shape = tuple[Dimension, ...]


@dataclass(frozen=True)
class ValueType:
    """Element type (onnx.TensorProto's number, 0: unknown) and shape (None: rank unknown)."""

    element_type: int = 0
    shape: Shape | None = None


def nested_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """The bodies of If, Loop and Scan."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nested_uses(graph: GraphProto) -> Iterator[str]:
    """Every name that a body uses: those of its own, and those of the graph around it."""
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from node.input
        for body in nested_graphs(node):
            yield from nested_uses(body)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def _value_type(value: onnx.ValueInfoProto) -> ValueType:
    if not value.type.HasField("tensor_type"):
        return ValueType()
    tensor = value.type.tensor_type
    shape = tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None
    return ValueType(int(tensor.elem_type), shape)


class GraphIndex:
    """Makers, numbers of uses and types of the values of a model's main graph.

    A use is an input of a node, here or in a body, or being an output of the graph. Types are
    those that ONNX's shape inference finds; a graph that it cannot work out has unknown ones.
    `x_rank_max` is the highest rank that a product's left side may have.
    """

    def __init__(self, model: ModelProto, x_rank_max: int) -> None:
        graph = model.graph
        self.x_rank_max = x_rank_max
        self.makers: dict[str, NodeProto] = {
            name: node for node in graph.node for name in node.output if name
        }
        self.uses: Counter[str] = Counter(output.name for output in graph.output)
        self.outputs = {output.name for output in graph.output}
        for node in graph.node:
            self.uses.update(name for name in node.input if name)
            for body in nested_graphs(node):
                self.uses.update(nested_uses(body))
        self._types = self._infer(model)

    @staticmethod
    def _infer(model: ModelProto) -> dict[str, ValueType]:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        types = {
            value.name: _value_type(value)
            for value in (*inferred.value_info, *inferred.input, *inferred.output)
        }
        for tensor in model.graph.initializer:
            types.setdefault(tensor.name, ValueType(int(tensor.data_type), tuple(tensor.dims)))
        return types

    def type_of(self, name: str) -> ValueType:
        """The value's type, or an unknown one."""
        return self._types.get(name, ValueType())

    def maker(self, name: str, *op_types: str) -> NodeProto | None:
        """The node of ONNX's own domain that makes the value, when it is of one of these types."""
        node = self.makers.get(name)
        if node is None or node.domain not in STANDARD_DOMAINS or node.op_type not in op_types:
            return None
        return node

    def only_here(self, name: str) -> bool:
        """Whether the value has one use and is no output, so that it may vanish."""
        return self.uses[name] == 1 and name not in self.outputs


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """The attribute's value, or the default of ONNX where the node has none."""
    for candidate in node.attribute:
        if candidate.name == name:
            return onnx.helper.get_attribute_value(candidate)
    return default


def same_shape(first: Shape, second: Shape) -> bool:
    """Whether two shapes are known to be equal: by numbers, or by the same names."""
    return len(first) == len(second) and all(
        a is not None and a == b for a, b in zip(first, second, strict=True)
    )
