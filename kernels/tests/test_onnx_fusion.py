"""Which nodes become one, and which never do; that the fused model gives the original's results.

Graphs are written in ONNX's own text form. The right results are those of ONNX Runtime with every
optimisation off.
"""

from typing import Any

import numpy as np
import onnx
import pytest
from ascend_ops.build_record import read_build_record
from ascend_ops.onnx_fusion import DOMAIN, fuse
from ascend_ops.onnx_optimizer import optimize
from ascend_ops.onnx_runtime import compare
from numpy.typing import NDArray
from onnx import ModelProto

HAS_MATMUL = "matmul_bias_act" in read_build_record().operators
GATHER, MATMUL = "CustomFusedGatherAddRelu", "CustomFusedMatMul"
# Inputs that the graphs below choose from, with rows of 4.
DENSE = "float[N,4] x, float[4,3] w, float[3] b"
LOOKUP = "float[7,4] t, int64[N,5] i, float[4] r"

# name → inputs, outputs, nodes, and the types of the nodes that are left.
FUSED: dict[str, tuple[str, str, str, list[str]]] = {
    "dense": (DENSE, "float[N,3] y", "a = MatMul(x, w) y = Add(a, b)", [MATMUL]),
    "bias first": (DENSE, "float[N,3] y", "a = MatMul(x, w) y = Add(b, a)", [MATMUL]),
    "dense relu": (DENSE, "float[N,3] y", "a = MatMul(x, w) c = Add(a, b) y = Relu(c)", [MATMUL]),
    "dense sigmoid": (
        DENSE,
        "float[N,3] y",
        "a = MatMul(x, w) c = Add(a, b) y = Sigmoid(c)",
        [MATMUL],
    ),
    "rank 3": (
        "float[N,M,4] x, float[4,3] w, float[3] b",
        "float[N,M,3] y",
        "a = MatMul(x, w) c = Add(a, b) y = Relu(c)",
        [MATMUL],
    ),
    "gemm relu": (DENSE, "float[N,3] y", "a = Gemm(x, w, b) y = Relu(a)", [MATMUL]),
    "gemm transposed": (
        "float[N,4] x, float[3,4] w, float[3] b",
        "float[N,3] y",
        "a = Gemm<transB=1>(x, w, b) y = Sigmoid(a)",
        [MATMUL],
    ),
    "sum with two users": (
        DENSE,
        "float[N,3] y, float[N,3] z",
        "a = MatMul(x, w) c = Add(a, b) y = Relu(c) z = Neg(c)",
        [MATMUL, "Relu", "Neg"],
    ),
    "sum that is an output": (
        DENSE,
        "float[N,3] y, float[N,3] c",
        "a = MatMul(x, w) c = Add(a, b) y = Relu(c)",
        [MATMUL, "Relu"],
    ),
    "relu 6": (
        DENSE,
        "float[N,3] y",
        (
            "a = MatMul(x, w) c = Add(a, b) lo = Constant<value_float=0.0>() "
            "hi = Constant<value_float=6.0>() y = Clip(c, lo, hi)"
        ),
        [MATMUL, "Constant", "Constant", "Clip"],
    ),
    "leaky relu": (
        DENSE,
        "float[N,3] y",
        "a = MatMul(x, w) c = Add(a, b) y = LeakyRelu(c)",
        [MATMUL, "LeakyRelu"],
    ),
    "shared weight and bias": (
        "float[N,3] x, float[3,3] w, float[3] b",
        "float[N,3] y",
        "a = MatMul(x, w) c = Add(a, b) d = Relu(c) e = MatMul(d, w) y = Add(e, b)",
        [MATMUL, MATMUL],
    ),
    "lookup": (LOOKUP, "float[N,5,4] y", "g = Gather(t, i) s = Add(g, r) y = Relu(s)", [GATHER]),
    "row first": (LOOKUP, "float[N,5,4] y", "g = Gather(t, i) s = Add(r, g) y = Relu(s)", [GATHER]),
    "axis from the end": (
        LOOKUP,
        "float[N,5,4] y",
        "g = Gather<axis=-2>(t, i) s = Add(g, r) y = Relu(s)",
        [GATHER],
    ),
    "addend of the result's shape": (
        "float[7,4] t, int64[N,5] i, float[N,5,4] r",
        "float[N,5,4] y",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s)",
        [GATHER],
    ),
    "rows of rank 2": (
        "float[7,2,3] t, int32[5] i, float[2,3] r",
        "float[5,2,3] y",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s)",
        [GATHER],
    ),
    "two lookups added": (
        "float[7,4] t, int64[N] i, int64[N] j",
        "float[N,4] y",
        "g = Gather(t, i) h = Gather(t, j) s = Add(g, h) y = Relu(s)",
        ["Gather", GATHER],
    ),
}

# name → inputs, outputs, nodes, and what the reason for leaving it alone contains (None: none is
# given, as nothing looks like a group).
LEFT_ALONE: dict[str, tuple[str, str, str, str | None]] = {
    "product with two users": (
        DENSE,
        "float[N,3] y, float[N,3] z",
        "a = MatMul(x, w) y = Add(a, b) z = Neg(a)",
        "a has 2 users",
    ),
    "product that is an output": (
        DENSE,
        "float[N,3] y, float[N,3] a",
        "a = MatMul(x, w) y = Add(a, b)",
        "a is an output of the graph",
    ),
    "product added to itself": (
        "float[N,4] x, float[4,3] w",
        "float[N,3] y",
        "a = MatMul(x, w) y = Add(a, a)",
        "a has 2 users",
    ),
    "bias of rank 2": (
        "float[N,4] x, float[4,3] w, float[1,3] b",
        "float[N,3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "the bias has shape [1, 3]",
    ),
    "bias a column": (
        "float[5,4] x, float[4,3] w, float[5,1] b",
        "float[5,3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "the bias has shape [5, 1]",
    ),
    "bias of one number": (
        "float[N,4] x, float[4,3] w, float[1] b",
        "float[N,3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "the bias has shape [1]",
    ),
    "bias that makes the result wider": (
        "float[N,4] x, float[4,1] w, float[3] b",
        "float[N,3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "the bias has shape [3]",
    ),
    "bias of unknown length": (
        "float[N,4] x, float[4,K] w, float[L] b",
        "float[N,K] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "the bias has shape ['L']",
    ),
    "a product of batches": (
        "float[2,5,4] x, float[2,4,3] w, float[3] b",
        "float[2,5,3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "x has rank 3 and the weight 3",
    ),
    "a vector": (
        "float[4] x, float[4,3] w, float[3] b",
        "float[3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "x has rank 1",
    ),
    "double": (
        "double[N,4] x, double[4,3] w, double[3] b",
        "double[N,3] y",
        "a = MatMul(x, w) y = Add(a, b)",
        "type is not float",
    ),
    "gemm that scales": (
        DENSE,
        "float[N,3] y",
        "a = Gemm<alpha=2.0>(x, w, b) y = Relu(a)",
        "alpha or beta is not 1",
    ),
    "gemm of a transposed left": (
        "float[4,5] x, float[4,3] w, float[3] b",
        "float[5,3] y",
        "a = Gemm<transA=1>(x, w, b) y = Relu(a)",
        "the left matrix is transposed",
    ),
    "gemm without bias": (
        "float[N,4] x, float[4,3] w",
        "float[N,3] y",
        "a = Gemm(x, w) y = Relu(a)",
        "there is no bias",
    ),
    "gemm alone": (DENSE, "float[N,3] y", "y = Gemm(x, w, b)", None),
    "a subtraction": (DENSE, "float[N,3] y", "a = MatMul(x, w) y = Sub(a, b)", None),
    "channels first": (
        "float[1,3,5,5] x, float[8,3,1,1] w, float[8,1,1] b",
        "float[1,8,5,5] y",
        "a = Conv(x, w) c = Add(a, b) y = Relu(c)",
        None,
    ),
    "lookup with two users": (
        LOOKUP,
        "float[N,5,4] y, float[N,5,4] z",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s) z = Neg(g)",
        "g has 2 users",
    ),
    "lookup whose sum is an output": (
        LOOKUP,
        "float[N,5,4] y, float[N,5,4] s",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s)",
        "s is an output of the graph",
    ),
    "lookup along another axis": (
        "float[4,7] t, int64[5] i, float[5] r",
        "float[4,5] y",
        "g = Gather<axis=1>(t, i) s = Add(g, r) y = Relu(s)",
        "axis is 1",
    ),
    "addend that is a column": (
        "float[7,4] t, int64[5] i, float[5,1] r",
        "float[5,4] y",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s)",
        "the addend has shape [5, 1]",
    ),
    "addend of another dynamic size": (
        "float[7,4] t, int64[N] i, float[M,4] r",
        "float[N,4] y",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s)",
        "the addend has shape ['M', 4]",
    ),
    "lookup that is clipped": (
        LOOKUP,
        "float[N,5,4] y",
        "g = Gather(t, i) s = Add(g, r) hi = Constant<value_float=6.0>() y = Clip(s, hi)",
        None,
    ),
    "lookup of integers": (
        "int32[7,4] t, int64[N] i, int32[4] r",
        "int32[N,4] y",
        "g = Gather(t, i) s = Add(g, r) y = Relu(s)",
        "the table's type is not float",
    ),
}


def model(inputs: str, outputs: str, nodes: str, opset: int = 17) -> ModelProto:
    """A model from the parts of its text."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    parsed = onnx.parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {nodes} }}")
    onnx.checker.check_model(parsed)
    return parsed


def types(graph_model: ModelProto) -> list[str]:
    """The types of the nodes, in order."""
    return [node.op_type for node in graph_model.graph.node]


def feeds(graph_model: ModelProto, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Random inputs; dynamic dimensions get 6, or what their letter says the same everywhere."""
    generator = np.random.default_rng(seed)
    values: dict[str, NDArray[Any]] = {}
    for value in graph_model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 6 for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        integers = np.issubdtype(dtype, np.integer)
        made = generator.integers(-7, 7, shape) if integers else generator.normal(size=shape)
        values[value.name] = np.asarray(made).astype(dtype)
    return values


def assert_same_results(original: ModelProto, fused: ModelProto) -> None:
    """Within the rounding of sums of four products."""
    if MATMUL in types(fused) and not HAS_MATMUL:
        pytest.skip("this build has no matmul_bias_act")
    for comparison in compare(original, fused, feeds(original)):
        assert comparison.relative <= 1e-6, comparison


@pytest.mark.parametrize("name", FUSED)
def test_a_group_becomes_one_node_with_the_same_results(name: str) -> None:
    inputs, outputs, nodes, left = FUSED[name]
    original = model(inputs, outputs, nodes)
    fused = ModelProto.FromString(original.SerializeToString())
    fusions, _ = fuse(fused)
    assert types(fused) == left
    assert [fusion.fused for fusion in fusions] == [kind for kind in left if "Custom" in kind]
    onnx.checker.check_model(fused)
    assert_same_results(original, fused)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_no_group_is_left_alone_and_the_reason_told(name: str) -> None:
    inputs, outputs, nodes, reason = LEFT_ALONE[name]
    original = model(inputs, outputs, nodes)
    fused = ModelProto.FromString(original.SerializeToString())
    fusions, refusals = fuse(fused)
    assert fusions == ()
    assert fused == original
    told = [refusal.reason for refusal in refusals]
    assert (told == []) if reason is None else any(reason in text for text in told), told


@pytest.mark.parametrize("opset", range(11, 22))
def test_every_opset_from_11_to_21_fuses(opset: int) -> None:
    inputs, outputs, nodes, left = FUSED["lookup"]
    original = model(inputs, outputs, nodes, opset)
    optimized, report = optimize(original)
    assert types(optimized) == left
    assert report.opset == opset
    assert [p.skipped for p in report.passes] == [""] * len(report.passes)
    assert_same_results(original, optimized)
    inputs, outputs, nodes, left = FUSED["dense sigmoid"]
    assert types(optimize(model(inputs, outputs, nodes, opset))[0]) == left


def test_an_opset_before_11_is_left_alone() -> None:
    original = model(*FUSED["dense"][:3], opset=10)
    fusions, refusals = fuse(original)
    assert (fusions, refusals[0].reason) == ((), "opset 10 is older than 11")


def test_a_value_that_a_body_uses_stays() -> None:
    body = (
        "then_branch = t () => (float[N,3] p) { p = Neg(a) }, "
        "else_branch = e () => (float[N,3] q) { q = Abs(a) }"
    )
    nodes = f"a = MatMul(x, w) y = Add(a, b) z = If <{body}> (cond)"
    original = model(f"{DENSE}, bool cond", "float[N,3] y, float[N,3] z", nodes)
    fusions, refusals = fuse(original)
    assert fusions == ()
    assert refusals[0].reason == "a has 3 users"


def test_what_stands_in_a_body_is_left_alone() -> None:
    body = (
        "then_branch = t () => (float[N,3] p) { a = MatMul(x, w) p = Add(a, b) }, "
        "else_branch = e () => (float[N,3] q) { q = MatMul(x, w) }"
    )
    original = model(f"{DENSE}, bool cond", "float[N,3] y", f"y = If <{body}> (cond)")
    optimized, report = optimize(original)
    assert (types(optimized), report.fusions) == (["If"], ())


def test_functions_of_the_model_are_left_alone_and_kept() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
    g (float[N,4] x, float[4,3] w, float[3] b) => (float[N,3] y) {
        d = mine.Dense(x, w, b)
        y = Relu(d)
    }
    <domain: "mine", opset_import: ["" : 17]>
    Dense (x, w, b) => (y) { a = MatMul(x, w) y = Add(a, b) }
    """
    original = onnx.parser.parse_model(text)
    optimized, report = optimize(original)
    assert report.fusions == ()
    assert optimized.functions == original.functions
    assert [node.domain for node in optimized.graph.node] == ["mine", ""]


def test_an_op_of_the_same_name_in_another_domain_is_not_taken_for_it() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
    g (float[N,4] x, float[4,3] w, float[3] b) => (float[N,3] y) {
        a = mine.MatMul(x, w)
        c = Add(a, b)
        y = Relu(c)
    }
    """
    original = onnx.parser.parse_model(text)
    assert fuse(original) == ((), ())


def test_a_fused_model_names_its_domain_once_and_is_not_fused_again() -> None:
    once, first = optimize(model(*FUSED["lookup"][:3]))
    twice, second = optimize(once)
    assert len(first.fusions) == 1
    assert second.fusions == ()
    assert [opset.domain for opset in twice.opset_import].count(DOMAIN) == 1
    assert twice.graph == once.graph


def test_two_groups_in_a_row_both_fuse_and_keep_their_order() -> None:
    original = model(
        "float[7,4] t, int64[N] i, float[4] r, float[4,3] w, float[3] b",
        "float[N,3] y",
        "g = Gather(t, i) s = Add(g, r) h = Relu(s) a = MatMul(h, w) c = Add(a, b) y = Relu(c)",
    )
    optimized, report = optimize(original)
    assert types(optimized) == [GATHER, MATMUL]
    assert (report.nodes_before, report.nodes_after) == (6, 2)
    assert_same_results(original, optimized)
