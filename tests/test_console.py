"""Console: data on stdout, progress on stderr, nothing secret anywhere."""

from __future__ import annotations

import io
import json

import pytest

from opsctl.console import Console
from opsctl.errors import GateFailed
from opsctl.redact import Redactor


def console(output: str) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(output, out=out, err=err), out, err  # type: ignore[arg-type]


def test_text_puts_progress_on_stderr_and_the_outcome_on_stdout() -> None:
    shown, out, err = console("text")
    shown.step("smoke tests", "[4/9]", None)
    shown.step_done("smoke tests", "[4/9]", 0.25)
    shown.result({"outcome": "deployed"}, "deployed: r2 serves")
    assert out.getvalue() == "deployed: r2 serves\n"
    assert err.getvalue().splitlines()[-1] == "[4/9] smoke tests: ok (0.2 s)"


def test_json_prints_one_object_and_nothing_else_on_stdout() -> None:
    shown, out, err = console("json")
    shown.tell("copying")
    shown.result({"outcome": "deployed", "exit_code": 0, "serving_release": "r2"}, "text")
    assert json.loads(out.getvalue()) == {
        "outcome": "deployed", "exit_code": 0, "serving_release": "r2"
    }  # fmt: skip
    assert err.getvalue() == "copying\n"


def test_ndjson_prints_an_object_an_event_and_the_result_last() -> None:
    shown, out, err = console("ndjson")
    shown.step("build", "[2/9]", 1.0)
    shown.step_done("build", "[2/9]", 0.5)
    shown.warn("low on disk")
    shown.result({"outcome": "deployed", "exit_code": 0}, "")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        "step_began", "step_ended", "warning", "result"
    ]  # fmt: skip
    assert events[1]["elapsed_s"] == 0.5
    assert err.getvalue() == ""


@pytest.mark.parametrize("output", ["text", "json", "ndjson"])
def test_a_secret_is_masked_in_every_form_of_output(output: str) -> None:
    shown, out, err = console(output)
    shown.redact = Redactor({"TOKEN": "s3cr3t-sentinel"})
    shown.tell("using s3cr3t-sentinel")
    shown.step("with s3cr3t-sentinel", "[1/1]", None)
    shown.step_done("with s3cr3t-sentinel", "[1/1]", 0.1, note="s3cr3t-sentinel")
    shown.error(GateFailed("s3cr3t-sentinel", why="s3cr3t-sentinel"))
    shown.line("log s3cr3t-sentinel")
    shown.result({"reason": "s3cr3t-sentinel"}, "s3cr3t-sentinel")
    assert "s3cr3t" not in out.getvalue() + err.getvalue()
    assert "***" in out.getvalue()


def test_github_gets_annotations_with_newlines_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown, _, err = console("text")
    shown.error(GateFailed("p50 is 20% slower", why="line one\nline two"))
    assert "::error title=opsctl::p50 is 20%25 slower: line one%0Aline two" in err.getvalue()
