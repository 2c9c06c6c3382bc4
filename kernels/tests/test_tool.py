"""What the command-line tools say where a package that they need is not installed."""

import json
import sys
from collections.abc import Callable

import pytest
from ascend_ops import graph, onnx_model, tool


@pytest.mark.parametrize(
    ("main", "package", "extra"),
    [
        (graph.main, "tensorflow", "tensorflow"),
        (onnx_model.main, "onnx and onnxoptimizer and onnxruntime", "onnx"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_way_to_have_it(
    main: Callable[[], int],
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tool, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["tool", "--json", "model"])
    assert main() == 4
    assert json.loads(capsys.readouterr().out) == {
        "outcome": "error",
        "message": f"this needs {package}, which {sys.executable} does not have. Install there: "
        f"pip install 'ascend-ops[{extra}]', or choose another Python: --python PATH",
    }
