"""The custom operators in ONNX Runtime: types, shapes, threads, errors."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ascend_ops import onnx_tuning
from ascend_ops.build_record import read_build_record
from ascend_ops.errors import LibraryError
from ascend_ops.onnx_benchmark import format_table, measure
from ascend_ops.onnx_fusion import DOMAIN, DOMAIN_VERSION, GATHER_ADD_RELU
from ascend_ops.onnx_models import MODELS, make_feeds
from ascend_ops.onnx_optimizer import optimize
from ascend_ops.onnx_runtime import compare, make_session, session_options
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

HAS_MATMUL = "matmul_bias_act" in read_build_record().operators
needs_matmul = pytest.mark.skipif(not HAS_MATMUL, reason="this build has no matmul_bias_act")
TYPES = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16]
# Bits of the fraction, for the error of one rounding.
ERROR: dict[int, float] = dict(zip(map(int, TYPES), (2.0**-22, 2.0**-10, 2.0**-7), strict=True))


def one_node(op_type: str, inputs: dict[str, int], dtype: int, **attributes: Any) -> ModelProto:
    """A model of one custom node on dynamic shapes; floats come and go as float32.

    `inputs` maps a name to its element type; those of `dtype` are cast to it in the graph.
    """
    nodes, names = [], []
    for name, element_type in inputs.items():
        names.append(name if element_type != dtype else f"{name}_cast")
        if element_type == dtype:
            nodes.append(helper.make_node("Cast", [name], [names[-1]], to=dtype))
    nodes.append(helper.make_node(op_type, names, ["y_cast"], domain=DOMAIN, **attributes))
    nodes.append(helper.make_node("Cast", ["y_cast"], ["y"], to=TensorProto.FLOAT))
    values = [
        helper.make_tensor_value_info(
            name, TensorProto.FLOAT if element_type == dtype else element_type, None
        )
        for name, element_type in inputs.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, DOMAIN_VERSION)]
    graph = helper.make_graph(nodes, "g", values, [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def gather_model(dtype: int = TensorProto.FLOAT, index_type: int = TensorProto.INT64) -> ModelProto:
    """CustomFusedGatherAddRelu alone."""
    inputs = {"t": dtype, "i": index_type, "r": dtype}
    return one_node("CustomFusedGatherAddRelu", inputs, dtype)


def matmul_model(dtype: int = TensorProto.FLOAT, **attributes: Any) -> ModelProto:
    """CustomFusedMatMul alone."""
    return one_node("CustomFusedMatMul", {"x": dtype, "w": dtype, "b": dtype}, dtype, **attributes)


def run(model: ModelProto, **feeds: NDArray[Any]) -> NDArray[Any]:
    """The output of a model."""
    y: NDArray[Any] = make_session(model).run(None, feeds)[0]
    return y


def floats(*shape: int, seed: int = 0) -> NDArray[Any]:
    """Small whole numbers: exact in each type, and so are their sums."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("index_type", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lookups", [(), (0,), (7,), (40, 9), (3000, 17)], ids=str)
def test_gather_takes_each_type_and_shape(
    lookups: tuple[int, ...], dtype: int, index_type: int
) -> None:
    table = floats(50, 3, 7)
    indices = np.random.default_rng(1).integers(-50, 50, lookups)
    typed = indices.astype(helper.tensor_dtype_to_np_dtype(index_type))
    for shape in ((3, 7), (*lookups, 3, 7)):
        addend = floats(*shape, seed=2)
        got = run(gather_model(dtype, index_type), t=table, i=typed, r=addend)
        assert np.array_equal(got, np.maximum(table[indices] + addend, 0))


@needs_matmul
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("activation", ["none", "relu", "sigmoid"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [(0,), (1,), (64,), (5, 33)], ids=str)
def test_matmul_takes_each_type_activation_and_shape(
    rows: tuple[int, ...], dtype: int, activation: str, transposed: int
) -> None:
    x, weight, bias = floats(*rows, 31), floats(31, 45, seed=1), floats(45, seed=2)
    given = weight.T.copy() if transposed else weight
    model = matmul_model(dtype, activation=activation, transB=transposed)
    total = x.astype(np.float64) @ weight + bias
    exact = {"none": total, "relu": np.maximum(total, 0), "sigmoid": 1 / (1 + np.exp(-total))}
    got = run(model, x=x, w=given, b=bias)
    np.testing.assert_allclose(got, exact[activation], rtol=ERROR[dtype], atol=1e-7)


@pytest.mark.parametrize("index", [50, -51, 2**40])
def test_an_index_outside_the_table_is_refused(index: int) -> None:
    message = f"index {index} at position 1 is outside the table of 50 rows; correct the index"
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match=message):
        run(gather_model(), t=floats(50, 4), i=np.array([0, index]), r=floats(4))


def test_wrong_shapes_are_refused() -> None:
    invalid = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument
    indices = np.array([0])
    with pytest.raises(invalid, match=r"the addend has shape \[3\]; it must have that of a row"):
        run(gather_model(), t=floats(50, 4), i=indices, r=floats(3))
    with pytest.raises(invalid, match="the table is a scalar and has no rows"):
        run(gather_model(), t=floats(), i=indices, r=floats())


@needs_matmul
def test_a_product_of_wrong_shapes_is_refused() -> None:
    invalid = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument
    with pytest.raises(invalid, match=r"x has shape \[2, 3\], the weight \[4, 5\] and the bias"):
        run(matmul_model(), x=floats(2, 3), w=floats(4, 5), b=floats(5))
    with pytest.raises(invalid, match=r"they must be \[..., k\], \[k, n\] and \[n\]"):
        run(matmul_model(), x=floats(3), w=floats(3, 5), b=floats(5))


@needs_matmul
def test_an_unknown_activation_is_refused_when_the_session_is_made() -> None:
    with pytest.raises(Exception, match="activation is tanh; it must be none, relu or sigmoid"):
        make_session(matmul_model(activation="tanh"))
    with pytest.raises(Exception, match="activation is longer than any that is known"):
        make_session(matmul_model(activation="relu" * 20))


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "file too short"), (b"junk" * 100, "invalid ELF header")]
)
def test_a_damaged_library_is_told_with_what_to_do(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    file = tmp_path / "libascend_onnxruntime.so"
    with pytest.raises(LibraryError, match=rf"{file} is missing\. Build it again: pip install"):
        session_options(tmp_path)
    file.write_bytes(content)
    told = rf"^ONNX Runtime cannot load {file}: .*{reason}.*\. Build it again: pip install"
    with pytest.raises(LibraryError, match=told):
        session_options(tmp_path)


def test_threads_may_run_one_session_at_once() -> None:
    session = make_session(gather_model())
    cases = [(floats(500, 64, seed=i), floats(64, seed=i + 9)) for i in range(4)]
    indices = np.random.default_rng(3).integers(-500, 500, 2000)

    def work(case: tuple[NDArray[Any], NDArray[Any]]) -> bool:
        table, addend = case
        exact = np.maximum(table[indices] + addend, 0)
        feeds = {"t": table, "i": indices, "r": addend}
        return all(np.array_equal(session.run(None, feeds)[0], exact) for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, cases)) == [True] * 4


@needs_matmul
def test_a_weight_of_the_model_serves_calls_of_every_size_from_every_thread() -> None:
    weight, bias = floats(70, 45, seed=1), floats(45, seed=2)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ascend_ops" : 1]> g (float[N,70] x) => '
        "(float[N,45] y) { y = ascend_ops.CustomFusedMatMul(x, w, b) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(bias, "b"))
    session = make_session(model)

    def work(rows: int) -> bool:
        x = floats(rows, 70, seed=rows)
        # Small whole numbers: each sum is exact, in any order.
        return np.array_equal(session.run(None, {"x": x})[0], x @ weight + bias)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, [1, 300, 2, 64, 27, 28, 0, 1000, 1, 64] * 3))


def test_many_sessions_come_and_go() -> None:
    for _ in range(20):
        got = run(gather_model(), t=floats(5, 4), i=np.array([1]), r=floats(4))
        assert got.shape == (1, 4)


@needs_matmul
@pytest.mark.parametrize("name", MODELS)
def test_each_model_of_the_benchmark_gives_the_same_results(name: str) -> None:
    original = MODELS[name]()
    onnx.checker.check_model(original)
    optimized, report = optimize(original)
    assert len(report.fusions) == {"mlp": 4, "cnn": 2, "embedding": 3}[name]
    (comparison,) = compare(original, optimized, make_feeds(original, 3))
    # Sums of at most 1,024 products in another order, four layers deep.
    assert comparison.relative <= 1e-5


@needs_matmul
@pytest.mark.long
def test_the_benchmark_measures_all_three_arms() -> None:
    result = measure("embedding", batch=4, pairs=2, threads=2)
    assert set(result.median_us) == {"original", "onnxruntime", "optimized"}
    assert (result.nodes_before, result.nodes_after, result.fused) == (10, 4, 3)
    assert all(microseconds > 0 for microseconds in result.median_us.values())
    assert "embedding" in format_table([result])


def test_tuning_tries_each_set_of_fusions_and_keeps_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[7,4] t, int64[N] i, float[4] r) => '
        "(float[N,4] y) { g = Gather(t, i) s = Add(g, r) y = Relu(s) }"
    )
    feeds = {"t": floats(7, 4), "i": np.array([1, 2]), "r": floats(4)}
    fused = (GATHER_ADD_RELU,)
    for seconds, best in (({(): 2.0, fused: 1.0}, fused), ({(): 1.0, fused: 2.0}, ())):
        times = {kinds: [value] for kinds, value in seconds.items()}
        monkeypatch.setattr(onnx_tuning, "time_alternately", lambda runs, pairs, t=times: t)
        choice = onnx_tuning.choose(original, feeds)
        assert choice.kinds == best
        assert choice.median_us == {kinds: value * 1e6 for kinds, value in seconds.items()}
        assert len(choice.report.fusions) == len(best)


def test_alternate_timing_calls_each_run_as_often() -> None:
    calls: list[str] = []
    times = onnx_tuning.time_alternately(
        {name: partial(calls.append, name) for name in "ab"}, pairs=3
    )
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 3, "b": 3}
    assert calls.count("a") == calls.count("b") == 3 + onnx_tuning.WARM_UP
