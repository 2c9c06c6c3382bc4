"""What ATC reads: the parser plug-in of the fused nodes, and the form of the model.

The plug-in is compiled against declarations that match CANN's public headers, and run.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from ascend_ops.onnx_atc import ATC_RANK, for_atc
from ascend_ops.onnx_fusion import DOMAIN, DOMAIN_VERSION, GATHER_ADD_RELU, MATMUL
from ascend_ops.onnx_graph import nested_graphs
from ascend_ops.onnx_optimizer import optimize
from onnx import GraphProto, ModelProto

KERNELS = Path(__file__).resolve().parent.parent
PLUGIN = KERNELS / "cann/framework/onnx_plugin.cc"
# Prints each registration as JSON: operator, framework's number, type that it is parsed from. Then
# each line of input, the text of a node's attributes, goes through the parser of the product.
PROGRAM = """
#include <cstdio>
#include "{plugin}"
domi::Status domi::AutoMappingByOpFn(const ge::Operator&, ge::Operator&) {{ return SUCCESS; }}
int main() {{
    for (const auto& op : domi::Registered()) {{
        for (const auto& origin : op.origins_) {{
            std::printf("[\\"%s\\", %d, \\"%s\\"]\\n", op.om_optype_.c_str(), op.framework_,
                        origin.c_str());
        }}
    }}
    char line[1000];
    while (std::fgets(line, sizeof line, stdin) != nullptr) {{
        for (const auto& op : domi::Registered()) {{
            if (op.om_optype_ != "AscendMatmulBiasAct") continue;
            ge::Operator source, target;
            if (line[0] != '\\n') source.SetAttr("attribute", line);
            const domi::Status status = op.parse_(source, target);
            std::printf("[%d, \\"%s\\", %d, %d]\\n", status == domi::SUCCESS,
                        target.texts["activation"].c_str(), target.booleans["transpose_a"],
                        target.booleans["transpose_b"]);
        }}
    }}
}}
"""
LOOKUP = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[7,4] t, int64[N] i, float[4] r, bool c) => '
    "(float[N,4] z) { g = Gather(t, i) s = Add(g, r) y = Relu(s) "
    "z = If <then_branch = a () => (float[N,4] p) { p = Neg(y) }, "
    "else_branch = e () => (float[N,4] q) { q = Abs(y) }> (c) }"
)


def all_domains(graph: GraphProto) -> set[str]:
    """The domains of the nodes, those in bodies too."""
    domains = {node.domain for node in graph.node}
    for node in graph.node:
        for body in nested_graphs(node):
            domains |= all_domains(body)
    return domains


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first time on a machine it installs Debian
def test_each_fused_node_has_a_parser_that_names_its_operator(
    torch_root: Callable[[str], Path], tmp_path: Path
) -> None:
    # CANN has the JSON library among its headers; here it is that of a root of Debian.
    library = torch_root("trixie") / "usr/include/nlohmann"
    shutil.copytree(library, tmp_path / "include/nlohmann")
    source = tmp_path / "plugin.cpp"
    source.write_text(PROGRAM.format(plugin=PLUGIN), encoding="utf-8")
    program = str(tmp_path / "plugin")
    include = [f"-I{KERNELS / 'runtime/tests/ge'}", "-isystem", str(tmp_path / "include")]
    command = ["g++", "-std=c++17", "-Wall", "-Werror", *include, str(source), "-o", program]
    subprocess.run(command, check=True)
    nodes = [
        {"attribute": [{"name": "activation", "s": "relu", "type": 3}]},
        {"attribute": [{"name": "transB", "i": 1, "type": 2}, {"name": "activation", "s": "none"}]},
    ]
    given = "\n".join([*map(json.dumps, nodes), "", "{no JSON", "{}"]) + "\n"
    done = subprocess.run([program], input=given, check=True, capture_output=True, text=True)
    rows = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    origins = {operator: (framework, origin) for operator, framework, origin in rows[:2]}
    assert origins == {
        "AscendGatherAddRelu": (5, f"{DOMAIN}::{DOMAIN_VERSION}::{GATHER_ADD_RELU}"),
        "AscendMatmulBiasAct": (5, f"{DOMAIN}::{DOMAIN_VERSION}::{MATMUL}"),
    }
    assert rows[2:] == [
        (1, "relu", 0, 0),
        (1, "none", 0, 1),
        (1, "none", 0, 0),
        (0, "", 0, 0),
        (0, "", 0, 0),
    ]
    # Each operator is one of the package, by its prototype.
    for operator in origins:
        words = re.findall("[A-Z][a-z]*", operator)[1:]
        folder = "_".join(word.lower() for word in words)
        host = (KERNELS / folder / f"op_host/ascend_{folder}_host.cpp").read_text(encoding="utf-8")
        assert f"OP_ADD({operator});" in host


def test_the_plugin_is_part_of_the_operator_package() -> None:
    project = (KERNELS / "cann/CMakeLists.txt").read_text(encoding="utf-8")
    assert "npu_op_library(cust_onnx_parsers ONNX_PLUGIN framework/onnx_plugin.cc)" in project
    assert "cust_onnx_parsers" in project.split("npu_op_package_add")[1].split(")")[0]


def test_a_model_of_two_opsets_names_the_domain_of_every_node() -> None:
    optimized, report = optimize(onnx.parser.parse_model(LOOKUP))
    assert len(report.fusions) == 1
    named = for_atc(optimized)
    assert all_domains(named.graph) == {"ai.onnx", DOMAIN}
    assert {opset.domain: opset.version for opset in named.opset_import} == {
        "ai.onnx": 17,
        DOMAIN: 1,
    }
    # And the one that is given stays as ONNX Runtime reads it.
    assert all_domains(optimized.graph) == {"", DOMAIN}


def test_a_model_of_one_opset_stays_as_it_is() -> None:
    model = onnx.parser.parse_model(LOOKUP)
    copy: ModelProto = for_atc(model)
    assert copy == model
    assert copy is not model


def test_the_command_writes_the_form_for_atc(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(LOOKUP), str(source))
    command = [sys.executable, "-m", "ascend_ops.onnx_optimizer", "--for-atc"]
    subprocess.run([*command, str(source), str(target)], check=True, capture_output=True)
    assert all_domains(onnx.load(str(target)).graph) == {"ai.onnx", DOMAIN}


def test_for_atc_only_products_of_matrices_are_fused() -> None:
    parts = "(float[{x},4] x, float[4,3] w, float[3] b) => (float[{x},3] y)"
    nodes = "{ a = MatMul(x, w) y = Add(a, b) }"
    for x, fused in (("N", 1), ("N,M", 0)):
        head = '<ir_version: 8, opset_import: ["" : 17]> g '
        model = onnx.parser.parse_model(head + parts.format(x=x) + nodes)
        assert len(optimize(model, ATC_RANK)[1].fusions) == fused
        assert len(optimize(model)[1].fusions) == 1
