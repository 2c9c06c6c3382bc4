"""What ATC reads: the parser plug-in of the fused nodes, and the form of the model.

The plug-in is compiled against declarations that match CANN's public headers, and run.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
from ascend_ops.onnx_atc import for_atc
from ascend_ops.onnx_fusion import DOMAIN, DOMAIN_VERSION, GATHER_ADD_RELU
from ascend_ops.onnx_graph import nested_graphs
from ascend_ops.onnx_optimizer import optimize
from onnx import GraphProto, ModelProto

KERNELS = Path(__file__).resolve().parent.parent
PLUGIN = KERNELS / "cann/framework/onnx_plugin.cc"
# Prints each registration as JSON: operator, framework's number, types that it is parsed from.
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


def test_each_fused_node_has_a_parser_that_names_its_operator(tmp_path: Path) -> None:
    source = tmp_path / "plugin.cpp"
    source.write_text(PROGRAM.format(plugin=PLUGIN), encoding="utf-8")
    program = str(tmp_path / "plugin")
    include = f"-I{KERNELS / 'runtime/tests/ge'}"
    command = ["g++", "-std=c++17", "-Wall", "-Werror", include, str(source), "-o", program]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = [tuple(json.loads(line)) for line in printed.splitlines()]
    origin = f"{DOMAIN}::{DOMAIN_VERSION}::{GATHER_ADD_RELU}"
    assert ("AscendGatherAddRelu", 5, origin) in rows
    # Each operator is one of the package, by its prototype.
    for operator, _, _ in rows:
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
