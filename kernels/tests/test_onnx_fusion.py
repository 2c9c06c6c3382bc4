"""Which nodes become one, and which never do; that the fused model gives the original's results.

Graphs are written in ONNX's own text form, most of them in onnx_groups.toml. The right results are
those of ONNX Runtime with every optimisation off.
"""

import tomllib
from pathlib import Path
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
# Inputs of a dense layer.
DENSE = "float[N,4] x, float[4,3] w, float[3] b"

GROUPS = tomllib.loads((Path(__file__).parent / "onnx_groups.toml").read_text(encoding="utf-8"))
FUSED, LEFT_ALONE = GROUPS["fused"], GROUPS["alone"]


def model(inputs: str, outputs: str, nodes: str, opset: int = 17) -> ModelProto:
    """A model from the parts of its text."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    parsed = onnx.parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {nodes} }}")
    onnx.checker.check_model(parsed)
    return parsed


def read_group(group: dict[str, Any], opset: int = 17) -> ModelProto:
    """The model of an entry of onnx_groups.toml."""
    return model(group["inputs"], group["outputs"], group["nodes"], opset)


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
    original, left = read_group(FUSED[name]), FUSED[name]["left"]
    fused = ModelProto.FromString(original.SerializeToString())
    fusions, _ = fuse(fused)
    assert types(fused) == left
    assert [fusion.fused for fusion in fusions] == [kind for kind in left if "Custom" in kind]
    onnx.checker.check_model(fused)
    assert_same_results(original, fused)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_no_group_is_left_alone_and_the_reason_told(name: str) -> None:
    original, reason = read_group(LEFT_ALONE[name]), LEFT_ALONE[name]["reason"]
    fused = ModelProto.FromString(original.SerializeToString())
    fusions, refusals = fuse(fused)
    assert fusions == ()
    assert fused == original
    told = [refusal.reason for refusal in refusals]
    assert (told == []) if not reason else any(reason in text for text in told), told


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_all_passes_leave_the_results_of_what_is_no_group_as_they_are(name: str) -> None:
    original = read_group(LEFT_ALONE[name])
    optimized, report = optimize(original)
    assert report.fusions == ()
    assert_same_results(original, optimized)


def test_initializers_that_groups_and_others_share_stay() -> None:
    values = ", ".join(str(value) for value in range(9))
    text = f"""
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,3] x) => (float[N,3] y, float[3,3] z, float[3] n)
    <float[3,3] w = {{{values}}}, float[3] b = {{1, -2, 3}}> {{
        a = MatMul(x, w)
        c = Add(a, b)
        d = Relu(c)
        e = MatMul(d, w)
        y = Add(e, b)
        z = Transpose(w)
        n = Neg(b)
    }}
    """
    original = onnx.parser.parse_model(text)
    optimized, report = optimize(original)
    assert types(optimized) == [MATMUL, MATMUL, "Transpose", "Neg"]
    assert [tensor.name for tensor in optimized.graph.initializer] == ["w", "b"]
    assert [fusion.output for fusion in report.fusions] == ["d", "y"]
    assert_same_results(original, optimized)


@pytest.mark.parametrize("opset", range(11, 22))
def test_every_opset_from_11_to_21_fuses(opset: int) -> None:
    original = read_group(FUSED["lookup"], opset)
    optimized, report = optimize(original)
    assert types(optimized) == FUSED["lookup"]["left"]
    assert report.opset == opset
    assert [p.skipped for p in report.passes] == [""] * len(report.passes)
    assert_same_results(original, optimized)
    dense = read_group(FUSED["dense sigmoid"], opset)
    fused = optimize(dense)[0]
    assert types(fused) == FUSED["dense sigmoid"]["left"]
    assert_same_results(dense, fused)


def test_an_opset_before_11_is_left_alone() -> None:
    original = read_group(FUSED["dense"], 10)
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
    assert_same_results(original, optimize(original)[0])


def test_what_stands_in_a_body_is_left_alone() -> None:
    body = (
        "then_branch = t () => (float[N,3] p) { a = MatMul(x, w) p = Add(a, b) }, "
        "else_branch = e () => (float[N,3] q) { q = MatMul(x, w) }"
    )
    original = model(f"{DENSE}, bool cond", "float[N,3] y", f"y = If <{body}> (cond)")
    optimized, report = optimize(original)
    assert (types(optimized), report.fusions) == (["If"], ())
    assert_same_results(original, optimized)


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
    assert_same_results(original, optimized)


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
    once, first = optimize(read_group(FUSED["lookup"]))
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
