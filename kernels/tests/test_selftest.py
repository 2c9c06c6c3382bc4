"""The self-test that opsctl runs inside a candidate's environment."""

import json
import subprocess
import sys

import ascend_ops
import pytest
from ascend_ops import accuracy
from ascend_ops.spec import OperatorSpec, all_specs


def test_every_operator_passes_in_every_type() -> None:
    report = ascend_ops.selftest("numpy")
    assert report.outcome == "pass"
    assert len(report.rows) == 3 * len(all_specs())
    assert all(row.max_error_ulps <= row.tolerance_ulps for row in report.rows)


def test_the_command_prints_json_and_exits_0() -> None:
    command = [sys.executable, "-m", "ascend_ops.selftest", "--front-end", "numpy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "pass"
    assert done.stderr == ""


def test_a_wrong_result_fails_the_selftest(monkeypatch: pytest.MonkeyPatch) -> None:
    right = accuracy._numpy_compute

    def wrong(spec: OperatorSpec, arrays: tuple[object, ...]) -> object:
        return right(spec, arrays) * 1.001

    monkeypatch.setattr(accuracy, "_numpy_compute", wrong)
    report = ascend_ops.selftest("numpy")
    assert report.outcome == "fail"
    assert not any(row.passed for row in report.rows if row.dtype == "float32")
