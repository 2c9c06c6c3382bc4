"""Detection on a stream of lines, by the command, with the sample model."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest


@pytest.fixture
def detect(sample, environment):
    def run(lines: list[str], *options: str) -> tuple[int, list[dict], str]:
        done = subprocess.run(
            [sys.executable, "-m", "ascend_serving", "detect", "--model-path", sample, *options],
            env=environment(),
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    return run


def test_windows_are_scored_in_order_and_as_expected_json_says(detect, sample, load_json):
    expected = load_json(sample / "expected.json")["windows"] * 40
    code, answers, log = detect([json.dumps(one["instance"]) for one in expected])
    assert code == 0
    assert [answer["window"] for answer in answers] == list(range(len(expected)))
    assert [answer["score"] for answer in answers] == pytest.approx(
        [one["score"] for one in expected], abs=1e-4
    )
    assert log.startswith("280 windows in ")
    assert "240 anomalies, 0 failed" in log


def test_samples_become_overlapping_windows(detect, sample, load_json):
    windows = load_json(sample / "expected.json")["windows"]
    samples = [json.dumps(step) for one in windows[:2] for step in one["instance"]]
    code, answers, _ = detect(samples, "--stride", "16")
    assert code == 0
    assert len(answers) == 3  # of 64 samples: those that start at 0, 16 and 32
    assert answers[0]["score"] == pytest.approx(windows[0]["score"], abs=1e-4)
    assert answers[2]["score"] == pytest.approx(windows[1]["score"], abs=1e-4)


def test_a_bad_line_is_answered_with_its_error_and_the_rest_goes_on(detect, sample, load_json):
    good = json.dumps(load_json(sample / "expected.json")["windows"][0]["instance"])
    code, answers, log = detect([good, "{", "5", "[[1]]", "", good])
    assert code == 1
    assert ["error" in answer for answer in answers] == [False, True, True, True, False]
    assert "neither a window [32, 4] nor a sample [4]" in answers[2]["error"]
    assert "input window has shape [1,1,1]" in answers[3]["error"]
    assert "3 failed" in log


def test_answers_of_a_live_pipe_come_before_its_end(sample, environment, load_json):
    good = json.dumps(load_json(sample / "expected.json")["windows"][0]["instance"])
    process = subprocess.Popen(
        [sys.executable, "-m", "ascend_serving", "detect", "--model-path", str(sample)],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    watchdog = threading.Timer(30, process.kill)
    watchdog.start()
    for number in range(3):
        process.stdin.write(f"{good}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["window"] == number
    process.communicate()
    watchdog.cancel()
    assert process.returncode == 0


def test_a_model_with_several_inputs_is_refused(toys, environment):
    done = subprocess.run(
        [sys.executable, "-m", "ascend_serving", "detect", "--model-path", toys / "tensors"],
        env=environment(), input="", capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "does not have one input with a free first axis" in done.stderr
