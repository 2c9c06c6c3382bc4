"""Cycles by pipe that the profile analyser estimates for the package's own operators."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_ops.abi import load_library
from ascend_ops.profile import analyse_folder
from ascend_ops.profile_estimate import estimate_tasks
from ascend_ops.profile_read import read_profile

from kernels.tests import profile_samples as samples

SIGMOID: dict[str, Any] = samples.RELU | {
    "Op Name": "head/sigmoid",
    "OP Type": "AscendSigmoid",
    "Input Data Types": "FLOAT",
    "Output Data Types": "FLOAT",
    "Task Start Time(us)": 7,
}


def profile_of(folder: Path, *rows: dict[str, Any]) -> Path:
    """A PROF folder of CANN 8 with these tasks after those of a small model."""
    prof = samples.new_run(folder)
    summary = prof / "mindstudio_profiler_output/op_summary_20260101000000.csv"
    samples.write(summary, samples.NEW, [*samples.new_rows(1), *rows])
    return prof


def test_an_operator_of_ours_gets_the_checked_builds_estimate(tmp_path: Path) -> None:
    tasks = read_profile(profile_of(tmp_path, SIGMOID, SIGMOID)).tasks
    (estimate,), reason = estimate_tasks(tasks, 10)
    x = np.zeros(500_000, np.float32)
    operator = load_library("checked").operators["sigmoid"]
    own = operator.estimate([x, np.empty_like(x)], x.dtype, [x.size])
    assert reason == ""
    assert (estimate.type, estimate.dtype, estimate.elements) == (
        "AscendSigmoid",
        "float32",
        500000,
    )
    assert (estimate.cycles, estimate.cores) == (own.total, own.cores)
    assert estimate.busy["vector"] == pytest.approx(own.busy["vector"] / own.total / own.cores)
    # Both copies move as many bytes, and nothing goes through the cube unit.
    assert estimate.busy["copy_in"] == pytest.approx(estimate.busy["copy_out"])
    assert estimate.busy["cube"] == 0.0


def test_the_report_states_that_it_is_an_estimate(tmp_path: Path) -> None:
    options = argparse.Namespace(top=10, peak_gb_s=None, plot=None)
    answer = analyse_folder(options, profile_of(tmp_path, SIGMOID))
    line = answer.text.splitlines()[-1]
    assert line.startswith("estimate, no measurement: AscendSigmoid of 500000 float32: ")
    assert "vector" in line
    assert [row["type"] for row in answer.data["estimates"]] == ["AscendSigmoid"]


@pytest.mark.parametrize(
    "change",
    [
        {"OP Type": "Sigmoid"},
        {"Input Data Types": "INT8"},
        {"Input Shapes": "N/A"},
        {"Input Shapes": '"4194305"'},
        {"OP Type": "AscendMatmulBiasAct"},
    ],
    ids=str,
)
def test_what_cannot_be_estimated_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    tasks = read_profile(profile_of(tmp_path, SIGMOID | change)).tasks
    assert estimate_tasks(tasks, 10) == ([], "")


def test_only_the_longest_tasks_are_estimated(tmp_path: Path) -> None:
    short = SIGMOID | {"Input Shapes": '"3000"', "Task Duration(us)": 1}
    tasks = read_profile(profile_of(tmp_path, short, SIGMOID)).tasks
    assert [estimate.elements for estimate in estimate_tasks(tasks, 1)[0]] == [500000]
    assert [estimate.elements for estimate in estimate_tasks(tasks, 2)[0]] == [500000, 3000]
