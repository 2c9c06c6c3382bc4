"""Reports: made from the journal's records alone, valid by their schema, without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from opsctl.redact import Redactor
from opsctl.report import Written, forget_reports, read_report, schema, write_report
from opsctl.report_content import RolloutRecords

SECRET = "swordfish-4711"
BEFORE: dict[str, Any] = {"shares": []}
PLAN: list[dict[str, Any]] = [
    {"id": "build", "kind": "build", "title": "build release r13", "state": None, "params": {}},
    {"id": "smoke", "kind": "smoke", "title": "smoke tests", "state": None, "params": {}},
    {"id": "gate", "kind": "gate", "title": "benchmark r13", "state": None, "params": {}},
    {"id": "shift-5", "kind": "shift", "title": "5 % of traffic", "state": None, "params": {}},
    {"id": "promote", "kind": "promote", "title": "all traffic", "state": None, "params": {}},
]
COLLECT: dict[str, Any] = {
    "id": "undo-collect",
    "kind": "collect",
    "title": "save logs",
    "state": None,
    "params": {},
}


class Records:
    """Builds the records of one rollout, a second apart."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.epoch = 3

    def add(self, kind: str, **data: Any) -> Records:
        number = len(self.all)
        record = {"seq": 100 + number, "epoch": self.epoch, "time": 1000.0 + number}
        self.all.append({**record, "kind": kind, "data": data})
        return self

    def opened(self, **more: Any) -> Records:
        data: dict[str, Any] = {
            "op": "deploy",
            "candidate": "r13",
            "base": "r12",
            "before": BEFORE,
            "plan": PLAN,
            "actor": "ada@host",
            "environment": "production",
            "service": "light",
            "strategy": "canary",
            "front": {"requests": 500, "errors": 2},
        }
        return self.add("opened", **{**data, **more})

    def step(self, number: int, result: dict[str, Any], elapsed_s: float = 0.5) -> Records:
        self.add("began", step=PLAN[number])
        return self.add("passed", step=PLAN[number]["id"], result=result, elapsed_s=elapsed_s)

    def closed(self, outcome: str, exit_code: int, reason: str, **more: Any) -> Records:
        ended = {"outcome": outcome, "exit_code": exit_code, "reason": reason}
        front = {"requests": 900, "errors": 3}
        return self.add("closed", **ended, serving_release="r13", front=front, **more)


def live(
    requests: int, errors: int, answered_by: dict[str, int], failed: Iterable[Any] = ()
) -> Any:
    probes = {
        "probes": sum(answered_by.values()),
        "failures": len(list(failed)),
        "slowest_ms": 12.5,
        "answered_by": answered_by,
        "failed": list(failed),
    }
    return {
        "live": {
            "release": "r13",
            "duration_s": 1.0,
            "requests": requests,
            "errors": errors,
            "restarts": 0,
            "front_requests": 100,
            "front_errors": 0,
            "probes": probes,
        }
    }


def arm(p50: float, p99: float) -> dict[str, Any]:
    return {
        "requests": 400,
        "errors": 0,
        "p50_ms": p50,
        "p90_ms": p99,
        "p99_ms": p99,
        "p999_ms": p99,
        "mean_ms": p50,
        "instances_per_s": 100.0,
        "histogram": "HISTFAAAA",
        "failures": {},
    }


GATE = {
    "format": 1,
    "kind": "gate",
    "outcome": "pass",
    "reason": "no regression",
    "reason_kind": "proved",
    "batch_sizes": {
        "1": {"baseline": arm(2.0, 8.0), "candidate": arm(2.1, 6.0)},
        "32": {"baseline": arm(0.0, 8.0), "candidate": arm(2.1, 8.0)},
    },
}
SMOKE = {
    "test": "predicts",
    "replica": "r13-1",
    "ok": True,
    "duration_ms": 3.25,
    "problems": [],
    "mismatches": [],
    "output": "",
}
HOOK = {
    "when": "before",
    "step": "promote",
    "command": "./announce",
    "exit_code": 0,
    "output": "",
    "warning": "",
    "ok": True,
}


def deployed() -> Records:
    probe = {
        "time": 1007.0,
        "release": "r12",
        "status": 503,
        "duration_ms": 1.0,
        "failed": True,
        "what": "status 503",
    }
    records = Records().opened()
    records.step(0, {"release": "r13", "digest": "abc"})
    records.step(1, {"smoke": [SMOKE]})
    records.step(2, {"gate": GATE})
    records.step(3, live(20, 0, {"r12": 19, "r13": 1}, [probe]))
    records.step(4, {**live(200, 1, {"r13": 10}), "hooks": [HOOK]})
    after = {**HOOK, "when": "after", "step": "deploy", "exit_code": 1, "warning": "exit code 1"}
    hooks = [{**after, "ok": False}]
    return records.closed("deployed", 0, "all steps passed", hooks=hooks, journal_ms=4.5)


def write(
    folder: Path, records: Records, secrets: dict[str, str] | None = None, **more: Any
) -> Written:
    rollout = RolloutRecords(7, records.all, **more)
    return write_report(folder, rollout, Redactor(secrets or {}), keep=50)


def valid(written: Written) -> Any:
    report = json.loads(written.json.read_text())
    jsonschema.Draft202012Validator(schema()).validate(report)
    return report


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


def rolled_back() -> Records:
    records = Records().opened().step(0, {})
    records.add("began", step=PLAN[1])
    error = {
        "type": "SmokeFailed",
        "exit_code": 13,
        "what": "1 of 1 smoke tests of r13 failed",
        "why": "'predicts' on r13-1: expected 0.5, got 0.6",
        "next_step": "Repair it",
        "results": [{**SMOKE, "ok": False, "problems": ["expected 0.5, got 0.6"]}],
    }
    records.add("failed", step="smoke", error=error)
    records.add("began", step=COLLECT)
    lines = {
        "log_lines": ["r13-1 | loading", f"r13-1 | token {SECRET}"],
        "events": ["r13-1 started"],
    }
    records.add("passed", step="undo-collect", result=lines, elapsed_s=0.1)
    return records.closed("rolled_back", 10, "smoke: 1 of 1 smoke tests of r13 failed")


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
    assert len(files) == 4
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


DIFFERENCE = {
    "base": "r12",
    "release": "r13",
    "digest": {"from": "a" * 64, "to": "b" * 64},
    "app": {"added": ["new.py"], "removed": [], "changed": ["main.py"]},
    "model": {
        "from": {"name": "m", "digest": "c" * 64, "path": "/p", "source": "/s"},
        "to": {"name": "m", "digest": "d" * 64, "path": "/q", "source": "/t"},
    },
    "config": {"env": {"from": {"API_TOKEN": "old"}, "to": {"API_TOKEN": "new", "MODE": "fast"}}},
}


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
