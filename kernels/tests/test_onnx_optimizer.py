"""The passes before the fusions, files, errors and the command."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from ascend_ops.onnx_optimizer import OnnxModelError, format_report, optimize, read_model
from onnx import ModelProto, TensorProto, helper, numpy_helper

DENSE = "float[N,4] x, float[4,3] w, float[3] b"


def parse(text: str) -> ModelProto:
    """A model of opset 17."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')


def test_constants_become_initializers_and_unused_ones_go() -> None:
    original = parse(
        "(float[2] x) => (float[2] y) <float[2] dead = {1.0, 2.0}> "
        "{ c = Constant<value = float[2] {3.0, 4.0}>() y = Add(x, c) }"
    )
    optimized, report = optimize(original)
    assert [node.op_type for node in optimized.graph.node] == ["Add"]
    assert [tensor.name for tensor in optimized.graph.initializer] == ["c"]
    assert numpy_helper.to_array(optimized.graph.initializer[0]).tolist() == [3, 4]
    removed = {p.name: (p.nodes_removed, p.initializers_removed) for p in report.passes}
    assert removed["extract_constant_to_initializer"] == (1, -1)
    assert removed["eliminate_unused_initializer"] == (0, 1)
    assert [tensor.name for tensor in original.graph.initializer] == ["dead"]


def test_an_initializer_that_only_a_body_uses_stays() -> None:
    body = (
        "then_branch = t () => (float[2] p) { p = Add(x, used) }, "
        "else_branch = e () => (float[2] q) { q = Neg(x) }"
    )
    original = parse(
        "(float[2] x, bool cond) => (float[2] y) <float[2] used = {1.0, 2.0}> "
        f"{{ y = If <{body}> (cond) }}"
    )
    optimized, _ = optimize(original)
    assert [tensor.name for tensor in optimized.graph.initializer] == ["used"]


def test_dead_nodes_and_identities_go() -> None:
    original = parse("(float[2] x) => (float[2] y) { a = Identity(x) n = Neg(x) y = Relu(a) }")
    optimized, _ = optimize(original)
    assert [(n.op_type, list(n.input)) for n in optimized.graph.node] == [("Relu", ["x"])]


def test_metadata_of_the_model_is_kept() -> None:
    original = parse("(float[2] x) => (float[2] y) { y = Relu(x) }")
    helper.set_model_props(original, {"author": "somebody"})
    original.producer_name = "a program"
    optimized, _ = optimize(original)
    assert optimized.metadata_props == original.metadata_props
    assert (optimized.producer_name, optimized.ir_version) == ("a program", 8)


def test_bfloat16_constants_keep_their_bits() -> None:
    value = helper.make_tensor("v", TensorProto.BFLOAT16, [2], [1.0, -2.5])
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["c"], value=value),
            helper.make_node("Neg", ["c"], ["y"]),
        ],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2])],
    )
    original = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    optimized, _ = optimize(original)
    kept = numpy_helper.to_array(optimized.graph.initializer[0]).astype(np.float32)
    assert kept.tolist() == [1.0, -2.5]


def test_weights_in_other_files_are_refused_unless_loaded(tmp_path: Path) -> None:
    original = parse(f"({DENSE}) => (float[N,3] y) {{ a = MatMul(x, w) y = Add(a, b) }}")
    weight = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    del original.graph.input[1]
    original.graph.initializer.append(weight)
    path = tmp_path / "model.onnx"
    onnx.save(original, str(path), save_as_external_data=True, size_threshold=0)
    with pytest.raises(OnnxModelError, match="weights are in external files; load it with them"):
        optimize(onnx.load(str(path), load_external_data=False))
    assert len(optimize(read_model(path))[1].fusions) == 1


@pytest.mark.parametrize("content", [b"\x00\x01 no model", b"", b"\x08"])
def test_a_file_that_is_no_model_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(OnnxModelError, match=r"(cannot read .*damaged|is no valid ONNX model)"):
        read_model(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(OnnxModelError, match=r"there is no such file\. Correct its path"):
        read_model(tmp_path / "model.onnx")


def test_an_opset_that_nobody_knows_yet_is_refused() -> None:
    newest = onnx.defs.onnx_opset_version()
    model = parse(f"({DENSE}) => (float[N,3] y) {{ a = MatMul(x, w) y = Add(a, b) }}")
    model.opset_import[0].version = newest
    assert optimize(model)[1].opset == newest
    for version in (newest + 1, 99):
        model.opset_import[0].version = version
        told = rf"opset {version}, and onnx .* knows opsets up to {newest}: .* export the model"
        with pytest.raises(OnnxModelError, match=told):
            optimize(model)


def test_the_command_writes_the_model_and_prints_the_report(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = f"({DENSE}) => (float[N,3] y) {{ a = MatMul(x, w) c = Add(a, b) y = Relu(c) }}"
    onnx.save(parse(text), str(source))
    command = [sys.executable, "-m", "ascend_ops.onnx_optimizer", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["nodes_before"], report["nodes_after"]) == (3, 1)
    assert "MatMul+Add+Relu → CustomFusedMatMul (y)" in done.stderr
    assert [node.op_type for node in onnx.load(str(target)).graph.node] == ["CustomFusedMatMul"]


def test_the_command_refuses_a_damaged_file_and_writes_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(b"\x00\x01 no model")
    command = [sys.executable, "-m", "ascend_ops.onnx_optimizer", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["outcome"] == "error"
    assert not target.exists()


def test_the_report_tells_what_was_left_alone() -> None:
    original = parse(
        f"({DENSE}) => (float[N,3] y, float[N,3] a) {{ a = MatMul(x, w) y = Add(a, b) }}"
    )
    text = format_report(optimize(original)[1])
    assert text.splitlines() == [
        "nodes 2 → 2 (opset 17); fused nothing",
        "  left alone: MatMul+Add (y): a is an output of the graph",
    ]
