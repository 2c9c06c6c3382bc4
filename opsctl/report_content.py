"""Pure: the records of a rollout, turned into the report that report_schema.json publishes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from opsctl.model import Json
from opsctl.redact import hide_by_name

FORMAT = 1
"""Version of the report's JSON form."""

ARM_FIGURES = (
    "requests",
    "errors",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "mean_ms",
    "instances_per_s",
)
"""What of an arm's benchmark a report shows; histograms stay in the gate's own files."""

ELSEWHERE = ("gate", "smoke", "live", "hooks", "warnings", "log_lines", "events")
"""Parts of a step's result that have a section of their own."""


@dataclass(frozen=True)
class RolloutRecords:
    """All that a report is made from.

    `records` are the journal's, oldest first, as plain maps {seq, epoch, time, kind, data}.
    `difference` is what `ReleaseStore.difference` gives. `gates` are the gate's own reports, the
    last one newest: a gate that failed left nothing in the journal but its error.
    """

    number: int
    records: Sequence[Mapping[str, Any]]
    difference: Mapping[str, Any] | None = None
    gates: Sequence[Mapping[str, Any]] = ()
    logs: Mapping[str, Sequence[str]] | None = None
    hooks: Sequence[Mapping[str, Any]] = ()
    notifications: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


def report_of(rollout: RolloutRecords) -> Json:
    """The report as JSON. Times are unix seconds, durations seconds."""
    opened = rollout.records[0]
    closed = next((r for r in reversed(rollout.records) if r["kind"] == "closed"), None)
    start, end = opened["data"], closed["data"] if closed else {}
    steps = _steps(rollout.records)
    results = [*(step["result"] for step in steps if step["result"]), end]
    return {
        "format": FORMAT,
        "rollout": rollout.number,
        "op": start["op"],
        "service": start.get("service", ""),
        "environment": start.get("environment", ""),
        "actor": start.get("actor", ""),
        "strategy": start.get("strategy", ""),
        "candidate": start["candidate"],
        "base": start["base"],
        "started": opened["time"],
        "finished": closed["time"] if closed else None,
        "duration_s": _span(opened, closed or rollout.records[-1]),
        "outcome": end.get("outcome", "open"),
        "exit_code": end.get("exit_code"),
        "serving_release": end.get("serving_release"),
        "decision": {
            "reason": end.get("reason", ""),
            "requests": _all(rollout.records, "requested"),
            "guard": [r for r in _all(rollout.records, "requested") if r["request"] == "guard"],
            "takeovers": _takeovers(rollout.records),
            "interruptions": _all(rollout.records, "interrupted"),
            "waits": _all(rollout.records, "waiting"),
        },
        "changes": hide_by_name(dict(rollout.difference)) if rollout.difference else None,
        "steps": [{**step, "result": _rest(step["result"])} for step in steps],
        "smoke": _smoke(steps),
        "benchmark": _benchmark(results, rollout.gates),
        "switch": _switch(start, end, results),
        "hooks": [dict(h) for h in [*_joined(results, "hooks"), *rollout.hooks]],
        "notifications": [dict(delivery) for delivery in rollout.notifications],
        "warnings": [*_joined(results, "warnings"), *rollout.warnings],
        "logs": _logs(start["candidate"], results, rollout.logs or {}),
        "journal_ms": end.get("journal_ms"),
    }


def performance_of(report: Mapping[str, Any]) -> Json | None:
    """The release report of the field: latencies by batch size; None without a benchmark."""
    benchmark = report["benchmark"]
    if benchmark is None:
        return None
    return {
        "format": FORMAT,
        "service": report["service"],
        "environment": report["environment"],
        "rollout": report["rollout"],
        "release": report["candidate"],
        "base": report["base"],
        "time": report["finished"] or report["started"],
        "outcome": report["outcome"],
        "gate": benchmark["outcome"],
        "batch_sizes": {
            str(row["batch_size"]): {
                "release": row["candidate"],
                "base": row["baseline"],
                "change_p50_percent": row["change_p50_percent"],
                "change_p99_percent": row["change_p99_percent"],
            }
            for row in benchmark["batch_sizes"]
        },
    }


def _steps(records: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Every planned step in order, then the steps of an undo as they began."""
    plan = records[0]["data"]["plan"]
    steps: dict[str, Json] = {step["id"]: _step(step, "not_taken") for step in plan}
    current: Json = {}
    for record in records:
        kind, data = record["kind"], record["data"]
        if kind == "began":
            current = _begin(steps, record)
        elif kind in ("passed", "failed") and data["step"] in steps:
            _end(steps[data["step"]], record, kind)
        elif kind in ("interrupted", "waiting") and current and current["outcome"] == "open":
            _end(current, record, kind)
    return list(steps.values())


def _step(step: Mapping[str, Any], outcome: str) -> Json:
    return {
        "id": step["id"],
        "kind": step["kind"],
        "title": step["title"],
        "outcome": outcome,
        "attempts": 0,
        "began": None,
        "ended": None,
        "duration_s": None,
        "error": None,
        "result": None,
    }


def _begin(steps: dict[str, Json], record: Mapping[str, Any]) -> Json:
    planned = record["data"]["step"]
    step = steps.setdefault(planned["id"], _step(planned, "open"))
    step.update(outcome="open", attempts=step["attempts"] + 1, ended=None, error=None)
    step["began"] = record["time"]
    return step


def _end(step: Json, record: Mapping[str, Any], outcome: str) -> None:
    data = record["data"]
    # Wall time may jump; the loop's own measure may not.
    elapsed = data.get("elapsed_s", record["time"] - step["began"])
    step.update(outcome=outcome, ended=record["time"], duration_s=round(max(0.0, elapsed), 3))
    step.update(error=data.get("error"), result=data.get("result"))


def _span(first: Mapping[str, Any], last: Mapping[str, Any]) -> float:
    seconds: float = last["time"] - first["time"]
    return round(max(0.0, seconds), 3)


def _all(records: Iterable[Mapping[str, Any]], kind: str) -> list[Json]:
    return [{"time": r["time"], **r["data"]} for r in records if r["kind"] == kind]


def _takeovers(records: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Each writer has an epoch of its own: a higher one is another opsctl that took over."""
    return [
        {"time": new["time"], "epoch": new["epoch"]}
        for old, new in pairwise(records)
        if new["epoch"] != old["epoch"]
    ]


def _rest(result: Mapping[str, Any] | None) -> Json | None:
    if not result:
        return None
    return {key: value for key, value in result.items() if key not in ELSEWHERE} or None


def _joined(results: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    return [item for result in results for item in result.get(key, [])]


def _smoke(steps: Iterable[Mapping[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for step in steps:
        found.extend((step["result"] or {}).get("smoke", []))
        if step["kind"] == "smoke" and step["error"]:
            found.extend(step["error"].get("results", []))
    return found


def _benchmark(
    results: Iterable[Mapping[str, Any]], gates: Sequence[Mapping[str, Any]]
) -> Json | None:
    passed = [result["gate"] for result in results if "gate" in result]
    if not gates and not passed:
        return None
    gate = gates[-1] if gates else passed[-1]  # the journal keeps only the verdict
    return {
        "outcome": gate["outcome"],
        "reason": gate.get("reason", ""),
        "measurements": len(gates) or 1,
        "batch_sizes": [
            _batch(int(size), arms) for size, arms in gate.get("batch_sizes", {}).items()
        ],
    }


def _batch(size: int, arms: Mapping[str, Any]) -> Json:
    candidate, baseline = _arm(arms.get("candidate")), _arm(arms.get("baseline"))
    return {
        "batch_size": size,
        "candidate": candidate,
        "baseline": baseline,
        "change_p50_percent": _change_percent(baseline, candidate, "p50_ms"),
        "change_p99_percent": _change_percent(baseline, candidate, "p99_ms"),
    }


def _arm(figures: Mapping[str, Any] | None) -> Json | None:
    if figures is None:
        return None
    return {key: figures[key] for key in ARM_FIGURES if key in figures}


def _change_percent(old: Json | None, new: Json | None, key: str) -> float | None:
    """Positive is slower; None when there is nothing to compare with."""
    if not old or not new or not old.get(key) or key not in new:
        return None
    ratio: float = new[key] / old[key]
    return round((ratio - 1) * 100, 2)


def _switch(start: Json, end: Json, results: Iterable[Mapping[str, Any]]) -> Json:
    """What users met while the traffic moved: counters of the front door, and our own probes.

    The balancer counts the probes as well, as they are made to be like a user's request.
    """
    live = [result["live"] for result in results if "live" in result]
    answered: Counter[str] = Counter()
    for report in live:
        answered.update(report["probes"]["answered_by"])
    return {
        "requests": _front(start, end, live, "requests"),
        "failed_requests": _front(start, end, live, "errors"),
        "candidate_requests": sum(report["requests"] for report in live),
        "candidate_errors": sum(report["errors"] for report in live),
        "probes": sum(report["probes"]["probes"] for report in live),
        "failed_probes": [f for report in live for f in report["probes"]["failed"]],
        "answered_by": dict(answered),
        "slowest_probe_ms": max((r["probes"]["slowest_ms"] for r in live), default=None),
    }


def _front(start: Json, end: Json, live: Iterable[Mapping[str, Any]], key: str) -> int | None:
    """Growth of a front-door counter over the whole rollout; None when it was not recorded."""
    seen: int = sum(report[f"front_{key}"] for report in live)
    if "front" not in start or "front" not in end:
        return seen or None
    first, last = start["front"][key], end["front"][key]
    # The counters start again when the balancer does: then what was seen live is the least.
    return int(max(last - first if last >= first else last, seen))


def _logs(
    candidate: str, results: Iterable[Mapping[str, Any]], files: Mapping[str, Sequence[str]]
) -> Json:
    logs: Json = {name: list(lines) for name, lines in files.items()}
    for result in results:
        for key, name in (("log_lines", f"{candidate}.log"), ("events", f"{candidate}.events")):
            if result.get(key) and name not in logs:
                logs[name] = list(result[key])
    return logs
