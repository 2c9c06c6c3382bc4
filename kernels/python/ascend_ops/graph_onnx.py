"""The graph benchmark's Keras models as ONNX models with the same weights, for ONNX Runtime.

`python -m ascend_ops.graph_onnx MODEL.onnx --batch N` prints the memory that a run takes at most,
in a process of its own, as `ascend_ops.graph_peak` does for TensorFlow.

Each operation is a node, as exporters write them. Images come as the TensorFlow model takes them,
with their channels last, and are turned once: ONNX's convolutions have them first.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ascend_ops.errors import AscendOpsError
from ascend_ops.memory import measure_memory
from ascend_ops.onnx_feeds import make_feeds
from ascend_ops.onnx_models import IR_VERSION, OPSET

ACTIVATIONS: Final = {"relu": "Relu", "sigmoid": "Sigmoid"}
TYPES: Final = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32}


@dataclass
class _Graph:
    """Nodes and weights so far; `last` is the value that the next layer takes."""

    last: str
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)

    def weight(self, values: Any) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, op_type: str, inputs: list[str], **attributes: Any) -> None:
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        self.last = name

    def activate(self, layer: Any) -> None:
        name = layer.activation.__name__
        if name != "linear":
            self.node(ACTIVATIONS[name], [self.last])


def _dense(graph: _Graph, layer: Any) -> None:
    kernel, bias = layer.get_weights()
    graph.node("MatMul", [graph.last, graph.weight(kernel)])
    graph.node("Add", [graph.last, graph.weight(bias)])
    graph.activate(layer)


def _convolution(graph: _Graph, layer: Any) -> None:
    kernel, bias = layer.get_weights()
    turned = graph.weight(kernel.transpose(3, 2, 0, 1))
    graph.node(
        "Conv",
        [graph.last, turned, graph.weight(bias)],
        strides=list(layer.strides),
        auto_pad={"same": "SAME_UPPER", "valid": "VALID"}[layer.padding],
    )
    graph.activate(layer)


def _mean(graph: _Graph, layer: Any) -> None:
    graph.node("GlobalAveragePool", [graph.last])
    graph.node("Flatten", [graph.last], axis=1)


def _lookup(graph: _Graph, layer: Any) -> None:
    graph.node("Gather", [graph.weight(layer.get_weights()[0]), graph.last])


def _flatten(graph: _Graph, layer: Any) -> None:
    graph.node("Flatten", [graph.last], axis=1)


LAYERS: Final = {
    "Dense": _dense,
    "Conv2D": _convolution,
    "GlobalAveragePooling2D": _mean,
    "Embedding": _lookup,
    "Flatten": _flatten,
}


def export(model: Any) -> ModelProto:
    """A chain of the layers in LAYERS as ONNX; KeyError for a layer that is none of them."""
    (given,) = model.inputs
    graph = _Graph("x")
    if len(given.shape) == 4:
        graph.node("Transpose", ["x"], perm=[0, 3, 1, 2])
    for layer in model.layers:
        if type(layer).__name__ != "InputLayer":
            LAYERS[type(layer).__name__](graph, layer)
    graph.nodes[-1].output[0] = "y"
    x = helper.make_tensor_value_info("x", TYPES[given.dtype], ["N", *given.shape[1:]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", model.output_shape[-1]])
    body = helper.make_graph(graph.nodes, "model", [x], [y], graph.weights)
    opset = [helper.make_opsetid("", OPSET)]
    done = helper.make_model(body, opset_imports=opset, ir_version=IR_VERSION)
    onnx.checker.check_model(done, full_check=True)
    return done


class OnnxArm:
    """The model in ONNX Runtime, its own optimisation at the highest level, on its own threads."""

    def __init__(self, model: ModelProto, threads: int, values: NDArray[Any]) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # it warns that what is written here is for this CPU only
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "optimised.onnx"
            options.optimized_model_filepath = str(written)
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            self.nodes = len(onnx.load(str(written)).graph.node)
        self._feeds = {"x": values}

    def __call__(self, *tensors: Any) -> Any:
        """Runs on the values that the arm holds; those of other arms are not looked at."""
        return self._session.run(None, self._feeds)


def measure_peak(model: ModelProto, batch: int) -> int:
    """Bytes that a run takes at most beyond what the session holds, without a memory arena."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        command = [sys.executable, "-m", "ascend_ops.graph_onnx", str(path), f"--batch={batch}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return int(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise AscendOpsError(f"cannot measure the memory of a run: {reason[0]}") from error


def _peak(path: Path, batch: int) -> int:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = make_feeds(onnx.load(str(path)), batch)
    session.run(None, {name: values[:1] for name, values in feeds.items()})
    return measure_memory(session.run, None, feeds).peak_increase_bytes


def main() -> None:
    """Prints the bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    a = parser.parse_args()
    print(_peak(a.model, a.batch))


if __name__ == "__main__":
    main()
