"""A TensorFlow graph as nodes and edges: who feeds whom, and what nobody may take away."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import attr_value_pb2

CONTROL: Final = "^"


@dataclass
class Model:
    """A frozen graph with its signature: names that callers use → tensors like "dense/Relu:0"."""

    graph: Any
    inputs: dict[str, str]
    outputs: dict[str, str]
    signature: str = "serving_default"
    specs: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> "Model":
        """The same model with a graph of its own."""
        graph = tf.compat.v1.GraphDef()
        graph.CopyFrom(self.graph)
        return Model(graph, dict(self.inputs), dict(self.outputs), self.signature, self.specs)


def split(edge: str) -> tuple[str, int | None]:
    """A node's input as (node, output); the output of a control edge is None."""
    if edge.startswith(CONTROL):
        return edge[1:], None
    name, _, index = edge.partition(":")
    return name, int(index or 0)


def join(name: str, index: int | None) -> str:
    """The input of a node that reads that output."""
    if index is None:
        return CONTROL + name
    return f"{name}:{index}" if index else name


class View:
    """Look-ups over one graph; make a new one after a change."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes: dict[str, Any] = {node.name: node for node in model.graph.node}
        self.kept = {split(edge)[0] for edge in (*model.inputs.values(), *model.outputs.values())}
        self.users: dict[str, list[Any]] = {name: [] for name in self.nodes}
        for node in model.graph.node:
            for edge in node.input:
                self.users.setdefault(split(edge)[0], []).append(node)

    def source(self, node: Any, position: int) -> Any:
        """The node that feeds an input by its first output, or None."""
        data = data_inputs(node)
        if position >= len(data):
            return None
        name, index = split(data[position])
        return self.nodes.get(name) if index == 0 else None

    def only_user(self, node: Any) -> Any:
        """The one node that uses `node`, once and for its data; None for any other case.

        Also None when the signature names it, and when it takes part in control edges: what waits
        for it, or what it waits for, would lose its order.
        """
        if node.name in self.kept or has_control(node):
            return None
        users = self.users[node.name]
        if len(users) != 1 or [split(e) for e in users[0].input].count((node.name, 0)) != 1:
            return None
        if any(split(edge) == (node.name, None) for edge in users[0].input):
            return None
        return users[0]


def data_inputs(node: Any) -> list[str]:
    """The inputs of a node that are no control edges."""
    return [edge for edge in node.input if not edge.startswith(CONTROL)]


def has_control(node: Any) -> bool:
    """Whether the node waits for another one without using its result."""
    return any(edge.startswith(CONTROL) for edge in node.input)


def attribute(node: Any, name: str) -> Any:
    """An attribute, or an empty one; reading `node.attr[name]` would add it to the node."""
    return node.attr[name] if name in node.attr else attr_value_pb2.AttrValue()


def waits(view: View, node: Any) -> bool:
    """Whether the node waits for another: by a control edge of its own, or of a constant it reads.

    TensorFlow gives the edge to the constant when both are made in one scope.
    """
    sources = [view.nodes.get(split(edge)[0]) for edge in data_inputs(node)]
    return has_control(node) or any(
        source is not None and source.op == "Const" and has_control(source) for source in sources
    )


def constant(node: Any) -> NDArray[Any] | None:
    """The value of a Const node, or None."""
    if node is None or node.op != "Const":
        return None
    value: NDArray[Any] = tf.make_ndarray(node.attr["value"].tensor)
    return value


def remove(model: Model, names: Iterable[str]) -> None:
    """Takes nodes out of the graph."""
    gone = set(names)
    kept = [node for node in model.graph.node if node.name not in gone]
    copies = [type(node)() for node in kept]
    for copy, node in zip(copies, kept, strict=True):
        copy.CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)


def make_callable(model: Model) -> Any:
    """A function of the input tensors, in the signature's order, that returns the outputs' list."""
    wrapped = tf.compat.v1.wrap_function(
        lambda: tf.import_graph_def(model.graph, name=""), signature=[]
    )
    graph = wrapped.graph
    feeds = [graph.as_graph_element(name) for name in model.inputs.values()]
    fetches = [graph.as_graph_element(name) for name in model.outputs.values()]
    return wrapped.prune(feeds, fetches)


def shapes(model: Model) -> dict[str, Any]:
    """The static shape of each node's first output, as TensorFlow infers it."""
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(model.graph, name="")
    return {node.name: node.outputs[0].shape for node in graph.get_operations() if node.outputs}
