"""Conv2D + BiasAdd + Relu → CustomFusedConv, MatMul + BiasAdd (+ Relu or Sigmoid) →
CustomFusedMatMul.

A chain is fused only when nothing else can see its middle: one user each, not named by the
signature, no control edges, one device. What TensorFlow itself fuses and these ops cannot (Relu6,
Elu, …) is left to it whole, as a part of it would be slower.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from ascend_ops.graph_view import Model, View, attribute, remove, shapes, waits

CONV: Final = "CustomFusedConv"
MATMUL: Final = "CustomFusedMatMul"
TYPES: Final = (tf.float32, tf.half, tf.bfloat16)
MATMUL_ACTIVATIONS: Final = {"Relu": "relu", "Sigmoid": "sigmoid"}
# Fused by TensorFlow's own remapper with the product before them.
LEFT_TO_TENSORFLOW: Final = ("Relu6", "Elu", "LeakyRelu", "Tanh", "Gelu")


@dataclass(frozen=True)
class Fused:
    """One fused chain: the new op, the name it has, the ops that it replaces."""

    op: str
    name: str
    replaced: tuple[str, ...]
    activation: str


@dataclass(frozen=True)
class _Chain:
    product: Any
    bias: Any
    bias_edge: str
    activation: Any | None
    constant_right: bool


def fuse(model: Model) -> list[Fused]:
    """Fuses every chain that may be; the list of them, in the graph's order."""
    known = shapes(model)
    found: list[Fused] = []
    gone: set[str] = set()
    view = View(model)
    for node in list(model.graph.node):
        rule = RULES.get(node.op)
        chain = rule(view, node, known) if rule else None
        if chain is not None:
            found.append(_replace(chain))
            gone |= {n.name for n in _members(chain)[:-1]}
    remove(model, gone)
    return found


def _members(chain: _Chain) -> list[Any]:
    return [n for n in (chain.product, chain.bias, chain.activation) if n is not None]


def _conv_chain(view: View, node: Any, known: Mapping[str, Any]) -> _Chain | None:
    if not _plain(view, node) or attribute(node, "data_format").s not in (b"NHWC", b""):
        return None
    if attribute(node, "padding").s not in (b"SAME", b"VALID") or not _whole_channels(node, known):
        return None
    bias = view.only_user(node)
    if bias is None or bias.op != "BiasAdd" or not _is_bias(view, bias, node, known):
        return None
    activation = view.only_user(bias)
    if activation is None or activation.op != "Relu" or not _joins(view, bias, activation):
        return None
    return _Chain(node, bias, bias.input[1], activation, _constant_right(view, node))


def _whole_channels(node: Any, known: Mapping[str, Any]) -> bool:
    """Whether the filter has all channels of the input: otherwise it is a grouped convolution."""
    x, weight = (_shape(edge, known) for edge in node.input[:2])
    if x is None or weight is None or x.rank != 4 or weight.rank != 4:
        return False
    return x[3] is not None and x[3] == weight[2]


def _matmul_chain(view: View, node: Any, known: Mapping[str, Any]) -> _Chain | None:
    if not _plain(view, node):
        return None
    bias = view.only_user(node)
    edge = None if bias is None else _bias_edge(view, bias, node, known)
    if edge is None or not _joins(view, node, bias):
        return None
    user = view.only_user(bias)
    if user is not None and user.op in LEFT_TO_TENSORFLOW:
        return None
    if user is None or user.op not in MATMUL_ACTIVATIONS or not _joins(view, bias, user):
        return _Chain(node, bias, edge, None, _constant_right(view, node))
    return _Chain(node, bias, edge, user, _constant_right(view, node))


def _constant_right(view: View, product: Any) -> bool:
    """Whether the right operand is a constant, of which the kernel may keep what it packs."""
    source = view.source(product, 1)
    return source is not None and source.op == "Const"


def _bias_edge(view: View, bias: Any, product: Any, known: Mapping[str, Any]) -> str | None:
    if bias.op == "BiasAdd":
        return bias.input[1] if _is_bias(view, bias, product, known) else None
    if bias.op in ("Add", "AddV2"):
        return _added_row(bias, product, known)
    return None


def _is_bias(view: View, bias: Any, product: Any, known: Mapping[str, Any]) -> bool:
    """BiasAdd of NHWC whose first operand is the product, and its bias is known as a vector."""
    shape = _shape(bias.input[1], known)
    layout = attribute(bias, "data_format").s in (b"NHWC", b"")
    first = bias.input[0] in (product.name, f"{product.name}:0")
    return (
        layout and first and shape is not None and shape.rank == 1 and _joins(view, product, bias)
    )


def _added_row(bias: Any, product: Any, known: Mapping[str, Any]) -> str | None:
    """The other operand of an addition, when it is a vector of the product's known width.

    Anything else broadcasts otherwise: a column, a scalar, a matrix, a vector of one.
    """
    others = [edge for edge in bias.input if edge not in (product.name, f"{product.name}:0")]
    if len(others) != 1:
        return None
    shape, width = _shape(others[0], known), known[product.name]
    if shape is None or shape.rank != 1 or width.rank != 2 or width[1] is None:
        return None
    return others[0] if shape[0] == width[1] else None


def _shape(edge: str, known: Mapping[str, Any]) -> Any | None:
    name, _, index = edge.partition(":")
    return known.get(name) if index in ("", "0") else None


def _plain(view: View, node: Any) -> bool:
    return tf.as_dtype(attribute(node, "T").type) in TYPES and not waits(view, node)


def _joins(view: View, before: Any, node: Any) -> bool:
    """Whether `node` can be one op with the one before: on its device, and waiting for nobody."""
    return bool(before.device == node.device) and not waits(view, node)


RULES: Final[dict[str, Callable[[View, Any, Mapping[str, Any]], _Chain | None]]] = {
    "Conv2D": _conv_chain,
    "MatMul": _matmul_chain,
}


def _replace(chain: _Chain) -> Fused:
    """The chain's last node becomes the fused op, so that its users find it by its name."""
    members = _members(chain)
    last, product = members[-1], chain.product
    activation = MATMUL_ACTIVATIONS[last.op] if chain.activation is not None else "none"
    names = tuple(member.name for member in members)
    convolution = product.op == "Conv2D"
    inputs = [*product.input[:2], chain.bias_edge]
    attributes = {"T": attribute(product, "T"), **_attributes(product)}
    copies = {name: type(value)() for name, value in attributes.items()}
    for name, value in attributes.items():
        copies[name].CopyFrom(value)
    name, device = last.name, last.device
    last.Clear()
    last.name, last.op, last.device = name, CONV if convolution else MATMUL, device
    last.input.extend(inputs)
    for key, value in copies.items():
        last.attr[key].CopyFrom(value)
    last.attr["activation"].s = activation.encode()
    if chain.constant_right and not convolution:
        last.attr["constant_b"].b = True
    return Fused(last.op, name, names, activation)


def _attributes(product: Any) -> dict[str, Any]:
    if product.op == "MatMul":
        return {key: attribute(product, key) for key in ("transpose_a", "transpose_b")}
    kept = {key: attribute(product, key) for key in ("strides", "padding")}
    if attribute(product, "dilations").list.i:
        kept["dilations"] = attribute(product, "dilations")
    return kept
