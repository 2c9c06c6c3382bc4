"""Layout: convolutions of NCHW become NHWC, which CPU kernels and the fused ops compute in.

Each op of NCHW gets a transposition before and after it; these move down through elementwise ops
and cancel, so that a chain keeps one at its beginning and one at its end.
"""

from typing import Any, Final

import numpy as np
import tensorflow as tf

from ascend_ops.graph_view import Model, View, attribute, constant, has_control, shapes, split

TO_NHWC: Final = (0, 2, 3, 1)
TO_NCHW: Final = (0, 3, 1, 2)
# Ops with data_format, and their attributes that have one number an axis.
LAYOUT_OPS: Final = {
    "Conv2D": ("strides", "dilations"),
    "DepthwiseConv2dNative": ("strides", "dilations"),
    "BiasAdd": (),
    "MaxPool": ("strides", "ksize"),
    "AvgPool": ("strides", "ksize"),
}
ELEMENTWISE: Final = ("Relu", "Relu6", "Elu", "Sigmoid", "Tanh", "LeakyRelu", "Selu", "Softplus")


def to_nhwc(model: Model) -> int:
    """Turns the ops of NCHW; how many. Explicit paddings and NCHW elsewhere stay as they are."""
    view = View(model)
    turned = [node for node in model.graph.node if _can_turn(node)]
    ranks = _ranks(model) if turned else {}
    for node in turned:
        if node.op == "BiasAdd" and ranks.get(node.name) != 4:
            continue
        _turn(model, view, node)
    while _sink(model) or _cancel(model):
        pass
    return len(turned)


def _ranks(model: Model) -> dict[str, int | None]:
    return {name: shape.rank for name, shape in shapes(model).items()}


def _can_turn(node: Any) -> bool:
    if node.op not in LAYOUT_OPS or attribute(node, "data_format").s != b"NCHW":
        return False
    return not has_control(node) and attribute(node, "padding").s != b"EXPLICIT"


def _turn(model: Model, view: View, node: Any) -> None:
    """Transpose → the op in NHWC → Transpose, which takes the op's name for its users."""
    name = node.name
    before = _transpose(model, f"{name}/to_nhwc", node.input[0], TO_NHWC, node.attr["T"].type)
    inner = model.graph.node.add()
    inner.CopyFrom(node)
    inner.name = f"{name}/nhwc"
    inner.input[0] = before
    inner.attr["data_format"].s = b"NHWC"
    for name_of_list in LAYOUT_OPS[node.op]:
        numbers = attribute(inner, name_of_list).list.i
        if len(numbers) == 4:
            numbers[:] = [numbers[axis] for axis in TO_NHWC]
    dtype = node.attr["T"].type
    node.Clear()
    node.name = name
    _fill_transpose(model, node, inner.name, TO_NCHW, dtype)


def _transpose(model: Model, name: str, edge: str, order: tuple[int, ...], dtype: int) -> str:
    node = model.graph.node.add()
    node.name = name
    _fill_transpose(model, node, edge, order, dtype)
    return name


def _fill_transpose(model: Model, node: Any, edge: str, order: tuple[int, ...], dtype: int) -> None:
    numbers = model.graph.node.add()
    numbers.name, numbers.op = f"{node.name}/order", "Const"
    numbers.attr["dtype"].type = tf.int32.as_datatype_enum
    numbers.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.array(order, np.int32)))
    node.op = "Transpose"
    node.input.extend([edge, numbers.name])
    node.attr["T"].type = dtype
    node.attr["Tperm"].type = tf.int32.as_datatype_enum


def _order(view: View, node: Any) -> tuple[int, ...] | None:
    if node is None or node.op != "Transpose" or has_control(node):
        return None
    value = constant(view.source(node, 1))
    return None if value is None else tuple(int(number) for number in value)


def _sink(model: Model) -> bool:
    """Elementwise(Transpose(x)) → Transpose(elementwise(x)), once; whether there was one."""
    view = View(model)
    for node in model.graph.node:
        if node.op not in ELEMENTWISE or has_control(node):
            continue
        above = view.source(node, 0)
        order = _order(view, above)
        if order != TO_NCHW or view.only_user(above) is not node:
            continue
        inner = model.graph.node.add()
        inner.CopyFrom(node)
        inner.name = f"{node.name}/nhwc"
        inner.input[0] = above.input[0]
        name, dtype = node.name, node.attr["T"].type
        node.Clear()
        node.name = name
        _fill_transpose(model, node, inner.name, order, dtype)
        return True
    return False


def _cancel(model: Model) -> bool:
    """Users of a transposition of a transposition back read what was before both; whether any."""
    view = View(model)
    for node in model.graph.node:
        second = _order(view, node)
        above = view.source(node, 0) if second else None
        first = _order(view, above)
        if (
            above is None
            or not (first and second)
            or [first[axis] for axis in second] != list(range(len(first)))
        ):
            continue
        if node.name in view.kept or not view.users[node.name]:
            continue
        for user in view.users[node.name]:
            for position, edge in enumerate(user.input):
                if split(edge) == (node.name, 0):
                    user.input[position] = above.input[0]
        return True
    return False
