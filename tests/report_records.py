"""The records of rollouts as the journal gives them, for the tests of reports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema

from opsctl.redact import Redactor
from opsctl.report import Written, schema, write_report
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
