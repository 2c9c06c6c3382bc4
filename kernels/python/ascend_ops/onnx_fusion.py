"""Fusing Gather+Add+Relu and MatMul+Add(+Relu, +Sigmoid) in ONNX graphs.

A group of nodes becomes one node of the domain `ascend_ops` when the result is the same for every
input, and no value that vanishes is seen by anybody else. The conditions are checked on the graph;
what is not known (a dynamic dimension without a name) is a no.
"""

from dataclasses import dataclass
from typing import Final

import onnx
from onnx import ModelProto, NodeProto, TensorProto

from ascend_ops.onnx_graph import GraphIndex, attribute, same_shape

DOMAIN: Final = "ascend_ops"
DOMAIN_VERSION: Final = 1
GATHER_ADD_RELU: Final = "CustomFusedGatherAddRelu"
MATMUL: Final = "CustomFusedMatMul"
KINDS: Final[tuple[str, ...]] = (GATHER_ADD_RELU, MATMUL)
FLOAT_TYPES: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
RANK_MAX: Final = 8  # also that of the NPU's tensor descriptors
# Before opset 11 indices of Gather could not be negative.
OPSET_MIN: Final = 11


@dataclass(frozen=True)
class Fusion:
    """Nodes that became one: its type, the types of the nodes, and the output that it makes."""

    fused: str
    replaced: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Refusal:
    """Nodes that look like a group and are none, with the reason."""

    candidate: str
    output: str
    reason: str


@dataclass(frozen=True)
class _Match:
    """A group: its nodes from first to last, and the node in their place."""

    nodes: tuple[NodeProto, ...]
    fused: NodeProto


# A group, the reason why it is none, or None where nothing looks like one.
_Outcome = _Match | Refusal | None


def _fused_node(
    op_type: str, inputs: list[str], last: NodeProto, **attributes: str | int
) -> NodeProto:
    name = f"{last.name or last.output[0]}_fused"
    node = onnx.helper.make_node(op_type, inputs, [last.output[0]], name=name, domain=DOMAIN)
    made = [onnx.helper.make_attribute(key, value) for key, value in attributes.items()]
    node.attribute.extend(made)
    return node


def _split_add(add: NodeProto, index: GraphIndex, *op_types: str) -> tuple[NodeProto, str] | None:
    """The node that makes one side of an Add, and the other side."""
    for side, other in ((0, 1), (1, 0)):
        node = index.maker(add.input[side], *op_types)
        if node is not None:
            return node, add.input[other]
    return None


def _vanishing(nodes: list[NodeProto], index: GraphIndex) -> str:
    """Why a value between these nodes must stay; empty when none must."""
    for node in nodes:
        value = node.output[0]
        if value in index.outputs:
            return f"{value} is an output of the graph"
        if not index.only_here(value):
            return f"{value} has {index.uses[value]} users"
    return ""


def _gather_refusal(gather: NodeProto, addend: str, index: GraphIndex) -> str:
    table, indices = (index.type_of(name) for name in gather.input)
    added = index.type_of(addend)
    if table.element_type not in FLOAT_TYPES:
        return "the table's type is not float, float16 or bfloat16"
    if table.shape is None or indices.shape is None or added.shape is None:
        return "the rank of the table, the indices or the addend is not known"
    axis = attribute(gather, "axis", 0)
    if axis not in (0, -len(table.shape)):
        return f"axis is {axis}, and only rows along the first axis are gathered"
    row = table.shape[1:]
    if same_shape(added.shape, row) or same_shape(added.shape, indices.shape + row):
        return ""
    return (
        f"the addend has shape {list(added.shape)}, which is not known to be that of a row, "
        f"{list(row)}, or of the result, {list(indices.shape + row)}"
    )


def _match_gather(relu: NodeProto, index: GraphIndex) -> _Outcome:
    add = index.maker(relu.input[0], "Add")
    split = None if add is None else _split_add(add, index, "Gather")
    if add is None or split is None:
        return None
    gather, addend = split
    reason = _vanishing([gather, add], index) or _gather_refusal(gather, addend, index)
    if reason:
        return Refusal("Gather+Add+Relu", relu.output[0], reason)
    fused = _fused_node(GATHER_ADD_RELU, [*gather.input, addend], relu)
    return _Match((gather, add, relu), fused)


def _product_refusal(x: str, weight: str, bias: str, columns: int, index: GraphIndex) -> str:
    """Why these are no fused product; `columns` is the weight's axis of columns."""
    left, right, added = (index.type_of(name) for name in (x, weight, bias))
    if right.element_type not in FLOAT_TYPES:
        return "the weight's type is not float, float16 or bfloat16"
    if left.shape is None or right.shape is None or added.shape is None:
        return "the rank of x, the weight or the bias is not known"
    if not 2 <= len(left.shape) <= index.x_rank_max or len(right.shape) != 2:
        ranks = f"x has rank {len(left.shape)} and the weight {len(right.shape)}"
        return f"{ranks}; they must be [..., k] (rank at most {index.x_rank_max}) and [k, n]"
    if not same_shape(added.shape, (right.shape[columns],)):
        return (
            f"the bias has shape {list(added.shape)}, which is not known to be "
            f"[{right.shape[columns]}], one number a column"
        )
    return ""


def _match_matmul_add(add: NodeProto, activation: NodeProto | None, index: GraphIndex) -> _Outcome:
    split = _split_add(add, index, "MatMul")
    if split is None:
        return None
    matmul, bias = split
    x, weight = matmul.input
    kind = "" if activation is None else activation.op_type
    last = add if activation is None else activation
    middle = [matmul] if activation is None else [matmul, add]
    reason = _vanishing(middle, index) or _product_refusal(x, weight, bias, 1, index)
    if reason:
        return Refusal("MatMul+Add" + (f"+{kind}" if kind else ""), last.output[0], reason)
    fused = _fused_node(MATMUL, [x, weight, bias], last, activation=kind.lower() or "none")
    return _Match((*middle, last), fused)


def _match_gemm(gemm: NodeProto, activation: NodeProto, index: GraphIndex) -> _Outcome:
    """Gemm with an activation; without one there is nothing to fuse."""
    candidate = f"Gemm+{activation.op_type}"
    transposed = int(attribute(gemm, "transB", 0) != 0)
    scales = (attribute(gemm, "alpha", 1.0), attribute(gemm, "beta", 1.0))
    reason = _vanishing([gemm], index)
    if not reason and (scales != (1.0, 1.0) or attribute(gemm, "transA", 0)):
        reason = "alpha or beta is not 1, or the left matrix is transposed"
    if not reason and (len(gemm.input) < 3 or not gemm.input[2]):
        reason = "there is no bias"
    if not reason:
        x, weight, bias = gemm.input
        reason = _product_refusal(x, weight, bias, 1 - transposed, index)
    if reason:
        return Refusal(candidate, activation.output[0], reason)
    fused = _fused_node(
        MATMUL,
        list(gemm.input),
        activation,
        activation=activation.op_type.lower(),
        transB=transposed,
    )
    return _Match((gemm, activation), fused)


def _match_activation(node: NodeProto, index: GraphIndex) -> _Outcome:
    outcome = _match_gather(node, index) if node.op_type == "Relu" else None
    if isinstance(outcome, _Match):
        return outcome
    add, gemm = index.maker(node.input[0], "Add"), index.maker(node.input[0], "Gemm")
    if add is not None:
        return _match_matmul_add(add, node, index) or outcome
    return outcome if gemm is None else _match_gemm(gemm, node, index)


def _find_matches(index: GraphIndex, nodes: list[NodeProto]) -> list[_Match | Refusal]:
    """Groups that end in an activation come first: they are the larger ones."""
    found: list[_Match | Refusal] = []
    taken: set[str] = set()
    for wanted in (("Relu", "Sigmoid"), ("Add",)):
        for node in nodes:
            if node.op_type not in wanted or node.domain not in ("", "ai.onnx"):
                continue
            if node.output[0] in taken:
                continue
            outcome = (
                _match_matmul_add(node, None, index)
                if node.op_type == "Add"
                else _match_activation(node, index)
            )
            if isinstance(outcome, _Match):
                taken.update(part.output[0] for part in outcome.nodes)
            if outcome is not None:
                found.append(outcome)
    return found


def _replace(model: ModelProto, matches: list[_Match]) -> None:
    """Puts each fused node in the place of its group's last, where all its inputs are made."""
    places = {match.nodes[-1].output[0]: match.fused for match in matches}
    gone = {node.output[0] for match in matches for node in match.nodes[:-1]}
    kept = [
        places.get(node.output[0], node) if node.output else node
        for node in model.graph.node
        if not node.output or node.output[0] not in gone
    ]
    copies = [NodeProto.FromString(node.SerializeToString()) for node in kept]
    infos = [value for value in model.graph.value_info if value.name not in gone]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    del model.graph.value_info[:]
    model.graph.value_info.extend(infos)
    if all(opset.domain != DOMAIN for opset in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, DOMAIN_VERSION))


def opset_version(model: ModelProto) -> int:
    """The version of ONNX's own operators that the model uses; 0 when it names none."""
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    return max(versions, default=0)


def fuse(
    model: ModelProto, x_rank_max: int = RANK_MAX, kinds: tuple[str, ...] = KINDS
) -> tuple[tuple[Fusion, ...], tuple[Refusal, ...]]:
    """Fuses in place; what was fused, and what looks like a group and is none.

    `x_rank_max` is the highest rank of a product's left side; NPUs take matrices, rank 2. Of
    `kinds` are the types of fused nodes that are made.

    Bodies of If, Loop and Scan and functions of the model stay as they are, and what they use
    counts as used. A model of an opset before 11 is left alone.
    """
    version = opset_version(model)
    if version < OPSET_MIN:
        reason = f"opset {version} is older than {OPSET_MIN}"
        return (), (Refusal("every group", "", reason),)
    found = _find_matches(GraphIndex(model, x_rank_max), list(model.graph.node))
    matches = [
        outcome
        for outcome in found
        if isinstance(outcome, _Match) and outcome.fused.op_type in kinds
    ]
    if matches:
        _replace(model, matches)
    fusions = tuple(
        Fusion(
            match.fused.op_type,
            tuple(node.op_type for node in match.nodes),
            match.fused.output[0],
        )
        for match in matches
    )
    return fusions, tuple(outcome for outcome in found if isinstance(outcome, Refusal))
