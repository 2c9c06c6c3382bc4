"""What makes a frozen graph smaller without changing what it computes.

Constants that can be computed now, nodes that pass on what they get, and nodes that nothing needs.
"""

from typing import Any, Final

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from ascend_ops.graph_view import Model, View, data_inputs, has_control, remove, split

PASS_ON: Final = ("Identity", "StopGradient", "PreventGradient", "Snapshot")
FOLDED_BYTES_MAX: Final = 10 << 20  # a larger constant costs more to load than to compute
# Not computed ahead: their result is no tensor of numbers, or they call functions.
NOT_FOLDED: Final = ("Const", "Placeholder", "PlaceholderWithDefault", "NoOp", *PASS_ON)


def remove_dead(model: Model) -> int:
    """Takes out nodes that no output needs; inputs of the signature stay. How many."""
    view = View(model)
    alive: set[str] = set()
    waiting = list(view.kept)
    while waiting:
        name = waiting.pop()
        if name in alive or name not in view.nodes:
            continue
        alive.add(name)
        waiting += [split(edge)[0] for edge in view.nodes[name].input]
    dead = [name for name in view.nodes if name not in alive]
    remove(model, dead)
    return len(dead)


def remove_idle_control(model: Model) -> int:
    """Takes out control edges from what only passes constants on: they order nothing. How many.

    Freezing leaves them: what waited for a variable to be read.
    """
    view = View(model)
    idle = {name for name, node in view.nodes.items() if node.op == "Const" and not node.input}
    waiting = list(idle)
    missing = {name: len(node.input) for name, node in view.nodes.items()}
    while waiting:
        for user in view.users[waiting.pop()]:
            missing[user.name] -= 1
            if missing[user.name] == 0 and user.op in ("NoOp", *PASS_ON):
                idle.add(user.name)
                waiting.append(user.name)
    count = 0
    for node in model.graph.node:
        kept = [edge for edge in node.input if not (edge[0] == "^" and edge[1:] in idle)]
        count += len(node.input) - len(kept)
        del node.input[:]
        node.input.extend(kept)
    return count


def remove_identities(model: Model) -> int:
    """Takes out nodes that pass on their input; those that order others by control edges stay."""
    view = View(model)
    target: dict[str, str] = {}
    for node in model.graph.node:
        if node.op not in PASS_ON or node.name in view.kept or has_control(node):
            continue
        if any(split(e) == (node.name, None) for user in view.users[node.name] for e in user.input):
            continue
        target[node.name] = data_inputs(node)[0]
    for node in model.graph.node:
        for position, edge in enumerate(node.input):
            node.input[position] = _follow(edge, target)
    remove(model, target)
    return len(target)


def _follow(edge: str, target: dict[str, str]) -> str:
    while not edge.startswith("^") and (found := target.get(split(edge)[0])) is not None:
        edge = found
    return edge


def fold_constants(model: Model) -> int:
    """Computes what depends on constants alone, once, now. How many nodes became constants."""
    view = View(model)
    foldable = _foldable(view)
    wanted = [
        name
        for name in sorted(foldable)
        if _one_output(view, name)
        and (name in view.kept or any(user.name not in foldable for user in view.users[name]))
    ]
    values = _evaluate(model, wanted)
    for name, value in values.items():
        node = view.nodes[name]
        dtype = tf.as_dtype(value.dtype)
        node.Clear()
        node.name, node.op = name, "Const"
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, value.shape))
    return len(values)


def _foldable(view: View) -> set[str]:
    """Nodes whose data comes from constants alone, without state, order or functions."""
    missing = {name: len(node.input) for name, node in view.nodes.items()}
    # A Const that waits for something has an input, and comes when that has happened.
    ready = [name for name, node in view.nodes.items() if node.op == "Const" and not node.input]
    found: set[str] = set()
    while ready:
        for user in view.users[ready.pop()]:  # one entry for each edge
            missing[user.name] -= 1
            if missing[user.name] == 0 and _pure(user):
                found.add(user.name)
                ready.append(user.name)
    return found


def _pure(node: Any) -> bool:
    definition = op_def_registry.get(node.op)
    if definition is None or definition.is_stateful or node.op in NOT_FOLDED or has_control(node):
        return False
    calls = any(attr.WhichOneof("value") == "func" for attr in node.attr.values())
    return bool(node.input) and not calls


def _one_output(view: View, name: str) -> bool:
    """A Const has one output: nodes whose others are used stay."""
    edges = [edge for user in view.users[name] for edge in user.input if split(edge)[0] == name]
    edges += [edge for edge in view.model.outputs.values() if split(edge)[0] == name]
    return all(split(edge)[1] == 0 for edge in edges)


def _evaluate(model: Model, wanted: list[str]) -> dict[str, Any]:
    if not wanted:
        return {}
    part = Model(model.graph, {}, {name: f"{name}:0" for name in wanted}).copy()
    remove_dead(part)
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(part.graph, name=""), [])
    tensors = [wrapped.graph.as_graph_element(f"{name}:0") for name in wanted]
    plain = [(n, t) for n, t in zip(wanted, tensors, strict=True) if not _opaque(t.dtype)]
    try:
        results = wrapped.prune([], [tensor for _, tensor in plain])()
    except tf.errors.OpError:
        return {}  # what fails when it is computed may fail when it is served, and not before
    sizes = {name: result.numpy() for (name, _), result in zip(plain, results, strict=True)}
    return {name: value for name, value in sizes.items() if value.nbytes <= FOLDED_BYTES_MAX}


def _opaque(dtype: Any) -> bool:
    return dtype in (tf.resource, tf.variant) or bool(dtype._is_ref_dtype)
