"""`opsctl model optimize` of an ONNX file: what is written, what is refused, made inputs."""

import argparse
from pathlib import Path
from typing import Any

import onnx
import pytest
from ascend_ops import onnx_command
from ascend_ops.errors import InvalidInputError
from ascend_ops.onnx_atc import ATC_DOMAIN
from ascend_ops.onnx_feeds import make_feeds
from ascend_ops.onnx_fusion import DOMAIN, GATHER_ADD_RELU
from ascend_ops.onnx_optimizer import optimize, read_model
from ascend_ops.onnx_runtime import compare
from ascend_ops.tool import Answer
from onnx import ModelProto

TABLE = ", ".join(str(value) for value in range(-14, 14))
# Rows of a table of 7, a row added, Relu; an Identity that goes.
LOOKUP = (
    f"(int64[N,5] i) => (float[N,5,4] y) <float[7,4] t = {{{TABLE}}}, "
    "float[4] c = {1, -2, 3, -4}>"
    " { h = Identity(i) g = Gather(t, h) s = Add(g, c) y = Relu(s) }"
)


def parse(text: str) -> ModelProto:
    """A model of opset 17."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')


def run(folder: Path, text: str = LOOKUP, **options: Any) -> Answer:
    """The command on a model in a file."""
    path = folder / "model.onnx"
    onnx.save(parse(text), str(path))
    given = {
        "model": path, "to": folder / "new.onnx", "dry_run": False, "without_custom_ops": False,
        "for_atc": False, "no_compare": False, "batch": 4, **options,
    }  # fmt: skip
    return onnx_command.act(argparse.Namespace(**given))


def ops(path: Path) -> list[tuple[str, str]]:
    """Domain and type of each node of a file."""
    return [(node.domain, node.op_type) for node in onnx.load(str(path)).graph.node]


def test_a_model_is_written_after_its_answers_were_compared(tmp_path: Path) -> None:
    answer = run(tmp_path)
    new = tmp_path / "new.onnx"
    assert (answer.outcome, answer.data["written"]) == ("optimised", str(new))
    (output,) = answer.data["comparison"]["outputs"]
    assert (output["output"], output["absolute"]) == ("y", 0.0)
    assert "time against ONNX Runtime's own optimisation" in answer.text
    # Either form may be the faster one here; what was left out is told.
    fused = [(DOMAIN, GATHER_ADD_RELU)]
    assert ops(new) == fused or f"{GATHER_ADD_RELU} is slower here" in answer.text
    original = parse(LOOKUP)
    assert compare(original, read_model(new), make_feeds(original, 3))[0].absolute == 0.0


def test_without_custom_ops_any_onnx_runtime_loads_the_model(tmp_path: Path) -> None:
    answer = run(tmp_path, without_custom_ops=True)
    assert ops(tmp_path / "new.onnx") == [("", "Gather"), ("", "Add"), ("", "Relu")]
    assert answer.data["fusions"] == ()


def test_for_atc_every_fusion_stays_and_each_domain_is_named(tmp_path: Path) -> None:
    answer = run(
        tmp_path,
        "(float[N,4] x, float[4,3] w, float[3] b) => (float[N,3] y) "
        "{ m = MatMul(x, w) a = Add(m, b) y = Neg(a) }",
        for_atc=True,
    )
    assert ops(tmp_path / "new.onnx") == [(DOMAIN, "CustomFusedMatMul"), (ATC_DOMAIN, "Neg")]
    assert answer.data["comparison"]["ratio"] is None


def test_a_dry_run_writes_nothing_and_nothing_is_overwritten(tmp_path: Path) -> None:
    assert run(tmp_path, dry_run=True).text.endswith("nothing written")
    assert not (tmp_path / "new.onnx").exists()
    with pytest.raises(InvalidInputError, match=r"model.onnx is there already; nothing is over"):
        run(tmp_path, to=tmp_path / "model.onnx")
    with pytest.raises(InvalidInputError, match=r"there is no folder .*none; make it first"):
        run(tmp_path, to=tmp_path / "none/new.onnx")
    with pytest.raises(InvalidInputError, match="--batch is at least 1"):
        run(tmp_path, batch=0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("(seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }", "x is no tensor of a known"),
        ("(string[2] x) => (string[2] y) { y = Identity(x) }", "x is of type object: no values"),
        (
            "(float[A,B] x, float[C,D] w) => (float[A,D] y) { y = MatMul(x, w) }",
            "does not run on inputs made from its shapes",
        ),
    ],
)
def test_what_no_inputs_can_be_made_for_is_told_with_the_way_out(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(InvalidInputError, match=rf"{told}.*[Uu]se --no-compare"):
        run(tmp_path, text)
    assert run(tmp_path, text, no_compare=True).outcome == "optimised"


def test_a_model_that_answers_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(model: ModelProto, *arguments: Any) -> Any:
        done, report = optimize(model, *arguments)
        done.graph.node[-1].op_type = "Abs"
        return done, report

    monkeypatch.setattr(onnx_command, "optimize", spoil)
    with pytest.raises(onnx_command.DifferentOnnxAnswersError, match="output y differs by"):
        run(tmp_path, without_custom_ops=True)
    assert not (tmp_path / "new.onnx").exists()


def test_made_inputs_fit_the_table_and_axes_of_one_name_are_equal() -> None:
    model = parse(
        "(int32[N,M] i, float[M,N] x) => (float[N,M,4] y, float[M,N] z) "
        f"<float[7,4] t = {{{TABLE}}}>"
        " { j = Cast<to=7>(i) y = Gather(t, j) z = Neg(x) }"
    )
    feeds = make_feeds(model, 400)
    assert {name: value.shape for name, value in feeds.items()} == {"i": (400, 16), "x": (16, 400)}
    assert [feeds[name].dtype.name for name in "ix"] == ["int32", "float32"]
    assert set(feeds["i"].ravel().tolist()) == set(range(7))
