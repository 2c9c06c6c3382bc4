"""Three models to measure with: a multilayer perceptron, a convolutional network, an embedding.

Random weights of fixed seeds; layers as PyTorch and TensorFlow export them, each operation a node.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET: Final = 17
IR_VERSION: Final = 8  # that of ONNX 1.12, which every ONNX Runtime since reads
BATCH: Final = 64
SEED: Final = 42


@dataclass
class _Builder:
    """Nodes and weights of a graph under construction."""

    generator: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)

    def weight(self, *shape: int) -> str:
        name = f"weight_{len(self.weights)}"
        # The variance keeps sums of any length near 1.
        scale = 1.0 / np.sqrt(max(1, int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]))
        values = self.generator.normal(scale=scale, size=shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op_type: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        name = output or f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def dense(self, x: str, width: tuple[int, int], activation: str, output: str = "") -> str:
        product = self.node("MatMul", [x, self.weight(*width)])
        total = self.node("Add", [product, self.weight(width[1])])
        return self.node(activation, [total], output)

    def convolution(self, x: str, channels: tuple[int, int], stride: int) -> str:
        kernel, bias = self.weight(channels[1], channels[0], 3, 3), self.weight(channels[1])
        made = self.node("Conv", [x, kernel, bias], strides=[stride] * 2, pads=[1] * 4)
        return self.node("Relu", [made])

    def model(self, name: str, x: Any, y: Any) -> ModelProto:
        graph = helper.make_graph(self.nodes, name, [x], [y], self.weights)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


def _tensor(name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def mlp() -> ModelProto:
    """Four dense layers, 512 → 1024 → 1024 → 1024 → 256."""
    build = _Builder(np.random.default_rng(SEED))
    x = build.dense("x", (512, 1024), "Relu")
    x = build.dense(x, (1024, 1024), "Relu")
    x = build.dense(x, (1024, 1024), "Relu")
    build.dense(x, (1024, 256), "Sigmoid", "y")
    return build.model("mlp", _tensor("x", "N", 512), _tensor("y", "N", 256))


def cnn() -> ModelProto:
    """Three convolutions over images of 32 × 32, the mean of each channel, two dense layers."""
    build = _Builder(np.random.default_rng(SEED))
    x = build.convolution("x", (3, 32), 1)
    x = build.convolution(x, (32, 64), 2)
    x = build.convolution(x, (64, 128), 2)
    x = build.node("GlobalAveragePool", [x])
    x = build.node("Flatten", [x], axis=1)
    x = build.dense(x, (128, 512), "Relu")
    build.dense(x, (512, 10), "Sigmoid", "y")
    return build.model("cnn", _tensor("x", "N", 3, 32, 32), _tensor("y", "N", 10))


def embedding() -> ModelProto:
    """20,000 rows of 128, looked up 64 times an example, a row added; two dense layers."""
    build = _Builder(np.random.default_rng(SEED))
    rows = build.node("Gather", [build.weight(20000, 128), "x"])
    total = build.node("Add", [rows, build.weight(128)])
    rows = build.node("Relu", [total])
    x = build.dense(rows, (128, 128), "Relu")
    x = build.node("ReduceMean", [x], axes=[1], keepdims=0)
    build.dense(x, (128, 10), "Sigmoid", "y")
    ids = _tensor("x", "N", 64, dtype=TensorProto.INT64)
    return build.model("embedding", ids, _tensor("y", "N", 10))


def make_feeds(model: ModelProto, batch: int = BATCH) -> dict[str, NDArray[Any]]:
    """An input for one of the models, of a fixed seed."""
    generator = np.random.default_rng(SEED)
    tensor = model.graph.input[0].type.tensor_type
    shape = [batch, *(dim.dim_value for dim in tensor.shape.dim[1:])]
    if tensor.elem_type == TensorProto.INT64:
        return {"x": generator.integers(0, 20000, shape)}
    return {"x": generator.normal(size=shape).astype(np.float32)}


MODELS: Final[dict[str, Callable[[], ModelProto]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "embedding": embedding,
}
