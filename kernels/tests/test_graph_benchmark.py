"""The graph benchmark: its ONNX models answer as Keras's do, and its table judges by both bars."""

from importlib.util import find_spec

import numpy as np
import pytest
from ascend_ops.build_record import read_build_record

if not read_build_record().tensorflow_version or find_spec("onnxruntime") is None:
    pytest.skip("this needs TensorFlow and ONNX Runtime", allow_module_level=True)

from ascend_ops.graph_benchmark import ARMS, MODELS, Row, format_rows
from ascend_ops.graph_compare import relative_error
from ascend_ops.graph_onnx import OnnxArm, export
from ascend_ops.paired import Ratio

DENSE = ["MatMul", "Add"]
CONVOLUTIONS = ["Transpose"] + ["Conv", "Relu"] * 4 + ["GlobalAveragePool", "Flatten"]
NODES = {
    "mlp": [*DENSE, "Relu"] * 3 + DENSE,
    "cnn": [*CONVOLUTIONS, *DENSE, "Sigmoid"],
    "embedding": ["Gather", "Flatten", *DENSE, "Relu", *DENSE, "Sigmoid"],
}


@pytest.mark.parametrize("name", MODELS)
def test_the_onnx_model_has_keras_s_layers_and_answers(name: str) -> None:
    network = MODELS[name]()
    generator = np.random.default_rng(5)
    (given,) = network.inputs
    sizes = (2, *given.shape[1:])
    x = generator.normal(size=sizes).astype(np.float32)
    if given.dtype == "int32":
        x = generator.integers(0, 5000, sizes).astype(np.int32)
    made = export(network)
    assert [node.op_type for node in made.graph.node] == NODES[name]
    (answer,) = OnnxArm(made, 1, x)()
    assert relative_error(network(x).numpy(), answer) < 1e-5


def row(better: Ratio, peaks: tuple[int, int, int, int]) -> Row:
    """A model of which only these differ."""
    other = Ratio(2.0, 1.9, 2.1)
    counts = dict(zip(ARMS, (9, 9, 4, 5), strict=True))
    times = dict(zip(ARMS, (400.0, 300.0, 200.0, 190.0), strict=True))
    taken = dict(zip(ARMS, peaks, strict=True))
    return Row("mlp", 3, counts, times, other, other, better, better, taken, 1e-6)


def test_the_table_counts_fused_nodes_and_judges_time_and_memory_by_their_bars() -> None:
    good = row(Ratio(1.05, 0.98, 1.1), (10_000_000, 9_000_000, 8_000_000, 5_000_000))
    bad = row(Ratio(0.8, 0.7, 0.9), (10_000_000, 9_000_000, 8_000_000, 6_000_000))
    assert (good.saving, bad.saving) == (0.5, 0.4)
    header, *lines = format_rows([good, bad]).splitlines()
    assert "onnxruntime µs" in header
    words = [line.split() for line in lines]
    assert words[0][:9] == ["mlp", "9", "→", "5", "3", "400", "300", "200", "190"]
    assert [words[0][-2], words[2][-2]] == ["reached", "missed"]
    assert words[1][:6] == ["peak", "MB", "10.0", "9.0", "8.0", "5.0"]
    assert "against the original -50% (bar −45%: reached)" in lines[1]
    assert "against the original -40% (bar −45%: missed)" in lines[3]
