"""The form of a fused ONNX model that ATC reads.

ATC looks a node's parser up by `domain::version::type`. For a node without a domain it takes the
model's only opset, and refuses a model of several (E16005); so here each node of ONNX's own
operators says `ai.onnx`. ONNX's checker and ONNX Runtime know that domain by the empty name only:
they read the other form.
"""

from typing import Final

from onnx import GraphProto, ModelProto

from ascend_ops.onnx_graph import STANDARD_DOMAINS, nested_graphs

ATC_DOMAIN: Final = "ai.onnx"
ATC_RANK: Final = 2  # the operator of the package multiplies matrices


def _name_domains(graph: GraphProto) -> None:
    for node in graph.node:
        if node.domain in STANDARD_DOMAINS:
            node.domain = ATC_DOMAIN
        for body in nested_graphs(node):
            _name_domains(body)


def for_atc(model: ModelProto) -> ModelProto:
    """A copy with the domain of every node named; of a model of one opset, a plain copy."""
    copy = ModelProto()
    copy.CopyFrom(model)
    if len(copy.opset_import) > 1:
        _name_domains(copy.graph)
        for opset in copy.opset_import:
            if opset.domain in STANDARD_DOMAINS:
                opset.domain = ATC_DOMAIN
    return copy
