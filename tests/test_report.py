"""Reports: made from the journal's records alone, valid by their schema, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from opsctl.report import forget_reports, read_report, schema
from tests.report_records import (
    DIFFERENCE,
    GATE,
    HOOK,
    PLAN,
    SECRET,
    SMOKE,
    Records,
    deployed,
    live,
    rolled_back,
    valid,
    write,
)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_schema_refuses_what_is_no_report(tmp_path: Path) -> None:
    report = valid(write(tmp_path, deployed()))
    for wrong in ({**report, "more": 1}, {**report, "format": 2}, {**report, "steps": [{}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema()).validate(wrong)


def test_a_deploy_is_told_from_beginning_to_end(tmp_path: Path) -> None:
    report = valid(write(tmp_path, deployed()))
    assert (report["rollout"], report["op"], report["candidate"]) == (7, "deploy", "r13")
    assert (report["outcome"], report["exit_code"]) == ("deployed", 0)
    assert (report["started"], report["finished"], report["duration_s"]) == (1000.0, 1011.0, 11.0)
    assert [(step["id"], step["outcome"]) for step in report["steps"]] == [
        ("build", "passed"),
        ("smoke", "passed"),
        ("gate", "passed"),
        ("shift-5", "passed"),
        ("promote", "passed"),
    ]
    assert report["steps"][0]["result"] == {"release": "r13", "digest": "abc"}
    assert report["steps"][1]["result"] is None
    assert report["smoke"] == [SMOKE]
    assert [hook["ok"] for hook in report["hooks"]] == [True, False]
    assert report["journal_ms"] == 4.5


def test_failed_requests_during_the_switch_are_what_the_front_door_counted(tmp_path: Path) -> None:
    switch = valid(write(tmp_path, deployed()))["switch"]
    # 500 requests with 2 errors before, 900 with 3 after.
    assert (switch["requests"], switch["failed_requests"]) == (400, 1)
    assert (switch["candidate_requests"], switch["candidate_errors"]) == (220, 1)
    assert switch["probes"] == 30
    assert switch["answered_by"] == {"r12": 19, "r13": 11}
    assert [probe["what"] for probe in switch["failed_probes"]] == ["status 503"]


def test_a_balancer_that_started_again_does_not_hide_failed_requests(tmp_path: Path) -> None:
    records = Records().opened(front={"requests": 10_000, "errors": 50})
    records.step(3, live(20, 0, {"r13": 1}))
    switch = valid(write(tmp_path, records.closed("deployed", 0, "")))["switch"]
    assert (switch["requests"], switch["failed_requests"]) == (900, 3)


def test_what_was_seen_live_is_the_least_that_is_told(tmp_path: Path) -> None:
    records = Records().opened(front={"requests": 850, "errors": 3})
    records.step(3, live(20, 0, {"r13": 1}))
    switch = valid(write(tmp_path, records.closed("deployed", 0, "")))["switch"]
    assert (switch["requests"], switch["failed_requests"]) == (100, 0)


def test_benchmark_figures_stand_by_batch_size(tmp_path: Path) -> None:
    benchmark = valid(write(tmp_path, deployed()))["benchmark"]
    first, second = benchmark["batch_sizes"]
    assert (benchmark["outcome"], first["batch_size"]) == ("pass", 1)
    assert (first["baseline"]["p50_ms"], first["candidate"]["p50_ms"]) == (2.0, 2.1)
    assert (first["change_p50_percent"], first["change_p99_percent"]) == (5.0, -25.0)
    assert second["change_p50_percent"] is None
    assert "histogram" not in first["candidate"]


def test_the_performance_report_is_kept_for_each_run_and_as_the_newest(tmp_path: Path) -> None:
    written = write(tmp_path, deployed())
    assert written.performance == tmp_path / "performance_production.json"
    newest = json.loads(written.performance.read_text())
    assert newest == json.loads((tmp_path / "0007" / "performance_production.json").read_text())
    assert (newest["release"], newest["base"], newest["rollout"]) == ("r13", "r12", 7)
    assert list(newest["batch_sizes"]) == ["1", "32"]
    assert newest["batch_sizes"]["1"]["release"]["p99_ms"] == 6.0


def test_without_a_benchmark_there_is_no_performance_report(tmp_path: Path) -> None:
    records = Records().opened().step(0, {}).closed("deployed", 0, "")
    written = write(tmp_path, records)
    assert written.performance is None
    assert valid(written)["benchmark"] is None
    assert list(tmp_path.glob("**/performance_*")) == []


def test_a_failure_is_told_with_its_results_and_logs(tmp_path: Path) -> None:
    report = valid(write(tmp_path, rolled_back()))
    by_id = {step["id"]: step for step in report["steps"]}
    assert by_id["smoke"]["outcome"] == "failed"
    assert by_id["smoke"]["error"]["exit_code"] == 13
    assert by_id["gate"]["outcome"] == "not_taken"
    assert [step["id"] for step in report["steps"]] == [
        *("build", "smoke", "gate", "shift-5", "promote", "undo-collect"),
    ]
    assert [result["ok"] for result in report["smoke"]] == [False]
    assert report["logs"] == {
        "r13.log": ["r13-1 | loading", f"r13-1 | token {SECRET}"],
        "r13.events": ["r13-1 started"],
    }


def test_a_gate_that_failed_is_read_from_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "0007"
    folder.mkdir()
    failed = {**GATE, "outcome": "fail", "reason": "p50 is 20 % slower"}
    (folder / "gate-1.json").write_text(json.dumps({**failed, "reason": "first"}))
    (folder / "gate-2.json").write_text(json.dumps(failed))
    report = valid(write(tmp_path, rolled_back()))
    assert (report["benchmark"]["outcome"], report["benchmark"]["reason"]) == (
        "fail",
        "p50 is 20 % slower",
    )
    assert report["benchmark"]["measurements"] == 2


def test_no_secret_gets_into_any_file_of_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "0007"
    folder.mkdir()
    (folder / "r13.log").write_text(f"r13-1 | {SECRET}\nr13-1 | ready\n")
    (folder / "smoke.json").write_text(json.dumps({"sent": SECRET}))
    written = write(
        tmp_path,
        rolled_back(),
        {"TOKEN": SECRET, "PIN": "12"},
        warnings=[f"told {SECRET}"],
        hooks=[{**HOOK, "output": SECRET}],
    )
    report = valid(written)
    assert report["logs"]["r13.log"] == ["r13-1 | ***", "r13-1 | ready"]
    assert report["warnings"] == [
        "told ***",
        "secret PIN is shorter than 4 characters and is not redacted",
    ]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 6
    assert [path.name for path in files if SECRET in path.read_text()] == []


def test_a_rollout_in_pieces_is_one_report(tmp_path: Path) -> None:
    records = Records().opened()
    records.add("began", step=PLAN[0])
    records.add("interrupted", signal=15, why="stopped by signal 15")
    records.epoch = 4
    records.step(0, {"release": "r13"}, elapsed_s=0.25)
    records.add("requested", id="1", request="abort", by="bob", reason="wrong day")
    report = valid(write(tmp_path, records.closed("aborted", 23, "abort by bob: wrong day")))
    (build, *_) = report["steps"]
    assert (build["outcome"], build["attempts"], build["duration_s"]) == ("passed", 2, 0.25)
    decision = report["decision"]
    assert decision["takeovers"] == [{"time": 1003.0, "epoch": 4}]
    assert [stop["signal"] for stop in decision["interruptions"]] == [15]
    assert [request["by"] for request in decision["requests"]] == ["bob"]
    assert decision["guard"] == []


def test_the_guard_and_waits_stand_in_the_decision(tmp_path: Path) -> None:
    records = Records().opened()
    records.add("began", step=PLAN[4])
    records.add("waiting", step="promote", reason="waiting for approval")
    records.add("requested", id="2", request="guard", by="guard", reason="2 % errors")
    report = valid(write(tmp_path, records))
    assert (report["outcome"], report["finished"], report["exit_code"]) == ("open", None, None)
    decision = report["decision"]
    assert [event["reason"] for event in decision["guard"]] == ["2 % errors"]
    assert [wait["reason"] for wait in decision["waits"]] == ["waiting for approval"]
    assert report["steps"][-1]["outcome"] == "waiting"


def test_a_rollout_that_was_cut_after_any_record_has_a_valid_report(tmp_path: Path) -> None:
    for whole in (deployed(), rolled_back()):
        for count in range(1, len(whole.all) + 1):
            cut = Records()
            cut.all = whole.all[:count]
            report = valid(write(tmp_path, cut))
            assert (report["outcome"] == "open") is (count < len(whole.all))
            passed = [r for r in cut.all if r["kind"] == "passed"]
            outcomes = [step["outcome"] for step in report["steps"]]
            assert outcomes.count("passed") == len(passed)


def test_a_torn_gate_file_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "0007").mkdir()
    (tmp_path / "0007" / "gate-1.json").write_text('{"outcome": "pa')
    report = valid(write(tmp_path, deployed()))
    assert report["warnings"] == ["gate-1.json is damaged and left out"]
    assert report["benchmark"]["outcome"] == "pass"


def test_figures_that_json_does_not_know_become_null(tmp_path: Path) -> None:
    records = Records().opened().step(0, {"a": [float("nan")], "b": float("inf"), "c": 1.5})
    report = valid(write(tmp_path, records.closed("deployed", 0, "")))
    assert report["steps"][0]["result"] == {"a": [None], "b": None, "c": 1.5}


def test_a_clock_that_was_set_back_gives_no_negative_times(tmp_path: Path) -> None:
    records = Records().opened().step(0, {}).closed("deployed", 0, "")
    for number, record in enumerate(records.all):
        record["time"] = 1000.0 - 100 * number
        record["data"].pop("elapsed_s", None)
    report = valid(write(tmp_path, records))
    assert (report["duration_s"], report["steps"][0]["duration_s"]) == (0.0, 0.0)


def test_writing_twice_gives_the_same(tmp_path: Path) -> None:
    first = write(tmp_path, deployed())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert write(tmp_path, deployed()) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_changed_is_told_without_credentials(tmp_path: Path) -> None:
    written = write(tmp_path, deployed(), difference=DIFFERENCE)
    changes = valid(written)["changes"]
    assert changes["app"] == {"added": ["new.py"], "removed": [], "changed": ["main.py"]}
    assert changes["config"]["env"] == {
        "from": {"API_TOKEN": "***"},
        "to": {"API_TOKEN": "***", "MODE": "fast"},
    }
    text = written.text.read_text()
    assert "model: m cccccccccccc -> m dddddddddddd" in text
    assert (
        'configuration:\n    env.API_TOKEN: "***" -> "***"\n    env.MODE: nothing -> "fast"\n'
    ) in text


def test_the_page_of_text_reads_from_the_top(tmp_path: Path) -> None:
    deliveries = [
        {
            "to": "chat.example",
            "event": "finished",
            "tries": 3,
            "status": 500,
            "warning": "webhook to chat.example failed: status 500",
            "ok": False,
        }
    ]
    page = write(tmp_path, deployed(), difference=DIFFERENCE, notifications=deliveries)
    lines = page.text.read_text().splitlines()
    assert lines[:5] == [
        "Rollout 7: deploy r13 (base r12) of light in production",
        "DEPLOYED (exit code 0)",
        "Reason: all steps passed",
        "Serving: r13",
        "1970-01-01 00:16:40 UTC by ada@host, 11.0 s, strategy canary",
    ]
    titles = [line for line in lines[5:] if line and not line.startswith(" ")]
    assert titles == [
        "What changed",
        "Steps",
        "Smoke tests",
        "Benchmark",
        "Requests during the switch",
        "Hooks",
        "Notifications",
    ]
    text = "\n".join(lines)
    assert "400 requests (opsctl's 30 probes among them), 1 failed" in text
    assert "30 probes, 1 failed, slowest 12 ms; answered by: r12 19, r13 11" in text
    assert "1970-01-01 00:16:47 UTC status 503 (answered by r12)" in text
    assert "FAILED  finished to chat.example after 3 tries" in text
    (row,) = [line for line in lines if line.split()[:1] == ["1"]]
    assert row.split() == [
        *("1", "2.00", "ms", "2.10", "ms", "(+5.0", "%)"),
        *("8.00", "ms", "6.00", "ms", "(-25.0", "%)", "0", "100"),
    ]


def test_the_page_of_a_failure_shows_error_and_log(tmp_path: Path) -> None:
    text = write(tmp_path, rolled_back()).text.read_text()
    assert text.splitlines()[1] == "ROLLED BACK (exit code 10)"
    assert "FAILED      1.0 s  smoke tests" in text
    assert "1 of 1 smoke tests of r13 failed: 'predicts' on r13-1: expected 0.5, got 0.6" in text
    assert "r13.log (last 2 of 2 lines)\n    r13-1 | loading" in text


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    for number in (1, 2, 9, 10, 12345):
        (tmp_path / f"{number:04d}.json").touch()
        (tmp_path / f"{number:04d}.txt").touch()
        (tmp_path / f"{number:04d}").mkdir()
        (tmp_path / f"{number:04d}" / "r1.log").touch()
    (tmp_path / "performance_production.json").touch()
    forget_reports(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0010",
        "0010.json",
        "0010.txt",
        "12345",
        "12345.json",
        "12345.txt",
        "performance_production.json",
    ]


def test_a_report_is_read_back(tmp_path: Path) -> None:
    written = write(tmp_path, deployed())
    assert read_report(tmp_path, 7) == valid(written)
    assert read_report(tmp_path, 8) is None
