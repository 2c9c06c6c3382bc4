"""Pure: a report as a page of text that a person reads from the top."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

LOG_LINES = 20
"""Last lines of each log on the page; the files beside it hold more."""

NAMES_MAX = 8
"""Changed files that are named; the rest is counted."""

DIGEST_DIGITS = 12

MARKS = {
    "passed": "ok",
    "failed": "FAILED",
    "interrupted": "stopped",
    "waiting": "waits",
    "open": "open",
    "not_taken": "-",
}

Report = Mapping[str, Any]


def text_of(report: Report) -> str:
    """The whole page, sections without content left out."""
    parts = [list(_head(report))]
    for title, section in SECTIONS:
        lines = [f"  {line}" if line else "" for line in section(report)]
        if lines:
            parts.append([title, *lines])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(report: Report) -> Iterator[str]:
    base = f" (base {report['base']})" if report["base"] else ""
    where = f" of {report['service']} in {report['environment']}" if report["service"] else ""
    yield f"Rollout {report['rollout']}: {report['op']} {report['candidate']}{base}{where}"
    code = "" if report["exit_code"] is None else f" (exit code {report['exit_code']})"
    yield f"{report['outcome'].replace('_', ' ').upper()}{code}"
    if report["decision"]["reason"]:
        yield f"Reason: {report['decision']['reason']}"
    yield f"Serving: {report['serving_release'] or 'nothing'}"
    by = f" by {report['actor']}" if report["actor"] else ""
    strategy = f", strategy {report['strategy']}" if report["strategy"] else ""
    yield f"{_clock(report['started'])}{by}, {report['duration_s']:.1f} s{strategy}"


def _changes(report: Report) -> Iterator[str]:
    changes = report["changes"]
    if changes is None:
        return
    digests = changes["digest"]
    old = f" (base {digests['from'][:DIGEST_DIGITS]})" if digests["from"] else ""
    yield f"release: {digests['to'][:DIGEST_DIGITS]}{old}"
    app = changes["app"]
    counts = [f"{len(app[kind])} {kind}" for kind in ("changed", "added", "removed") if app[kind]]
    yield f"application: {', '.join(counts) or 'unchanged'}"
    names = [*app["changed"], *app["added"], *app["removed"]]
    if names:
        more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
        yield f"  {', '.join(names[:NAMES_MAX])}{more}"
    yield f"model: {_model(changes['model'])}"
    config = changes["config"]
    if changes["base"] is None:
        yield "configuration: new"
        return
    yield f"configuration: {'unchanged' if not config else ''}".rstrip()
    for key, change in sorted(config.items()):
        yield from (f"  {line}" for line in _setting(key, change["from"], change["to"]))


def _setting(key: str, old: Any, new: Any) -> Iterator[str]:
    """A changed setting, entry by entry when it is a map."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield from _setting(f"{key}.{name}", old.get(name), new.get(name))
    else:
        yield f"{key}: {_value(old)} -> {_value(new)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return shlex.join(map(str, value)) or "nothing"
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _model(change: Mapping[str, Any] | None) -> str:
    if change is None:
        return "unchanged"
    return f"{_artefact(change['from'])} -> {_artefact(change['to'])}"


def _artefact(model: Mapping[str, Any] | None) -> str:
    return f"{model['name']} {model['digest'][:DIGEST_DIGITS]}" if model else "none"


def _steps(report: Report) -> Iterator[str]:
    for step in report["steps"]:
        took = "" if step["duration_s"] is None else f"{step['duration_s']:.1f} s"
        again = f" (attempt {step['attempts']})" if step["attempts"] > 1 else ""
        yield f"{MARKS[step['outcome']]:>8}  {took:>9}  {step['title']}{again}"
        if step["error"]:
            yield from _error(step["error"])


def _error(error: Mapping[str, Any]) -> Iterator[str]:
    for line in f"{error['what']}: {error['why']}".rstrip(": ").splitlines():
        yield f"{'':>21}{line}"
    if error["next_step"]:
        yield f"{'':>21}{error['next_step']}"


def _smoke(report: Report) -> Iterator[str]:
    for result in report["smoke"]:
        mark = "ok" if result["ok"] else "FAILED"
        name = f"{result['test']} on {result['replica']}"
        yield f"{mark:>8}  {result['duration_ms']:>6.0f} ms  {name}"
        for problem in result["problems"]:
            yield f"{'':>21}{problem}"


def _benchmark(report: Report) -> Iterator[str]:
    benchmark = report["benchmark"]
    if benchmark is None:
        return
    times = f", measured {benchmark['measurements']} times" if benchmark["measurements"] > 1 else ""
    yield f"{benchmark['outcome']}: {benchmark['reason']}{times}"
    yield (
        f"{'batch':>6} {'old p50':>10} {'new p50':>10} {'':>9} {'old p99':>10} {'new p99':>10}"
        f" {'':>9} {'errors':>7} {'new/s':>9}"
    )
    for row in benchmark["batch_sizes"]:
        new, old = row["candidate"] or {}, row["baseline"] or {}
        yield (
            f"{row['batch_size']:>6} {_ms(old, 'p50_ms')} {_ms(new, 'p50_ms')}"
            f" {_percent(row['change_p50_percent'])} {_ms(old, 'p99_ms')} {_ms(new, 'p99_ms')}"
            f" {_percent(row['change_p99_percent'])} {new.get('errors', 0):>7}"
            f" {new.get('instances_per_s', 0.0):>9.0f}"
        )


def _ms(figures: Mapping[str, Any], key: str) -> str:
    return f"{figures[key]:>7.2f} ms" if key in figures else f"{'-':>10}"


def _percent(change: float | None) -> str:
    return f"{'':>9}" if change is None else f"({change:+.1f} %)".rjust(9)


def _switch(report: Report) -> Iterator[str]:
    switch = report["switch"]
    if switch["requests"] is not None:
        own = f" (opsctl's {switch['probes']} probes among them)" if switch["probes"] else ""
        yield f"{switch['requests']} requests{own}, {switch['failed_requests']} failed"
    if switch["candidate_requests"]:
        yield (
            f"{switch['candidate_requests']} of them by {report['candidate']} on trial,"
            f" {switch['candidate_errors']} failed"
        )
    if switch["probes"]:
        by = ", ".join(f"{name} {count}" for name, count in sorted(switch["answered_by"].items()))
        yield (
            f"{switch['probes']} probes, {len(switch['failed_probes'])} failed, slowest"
            f" {switch['slowest_probe_ms']:.0f} ms; answered by: {by or 'nobody'}"
        )
    for probe in switch["failed_probes"]:
        by = probe["release"] or "nobody"
        yield f"  {_clock(probe['time'])} {probe['what']} (answered by {by})"


def _decisions(report: Report) -> Iterator[str]:
    decision = report["decision"]
    for request in decision["requests"]:
        why = f": {request['reason']}" if request.get("reason") else ""
        yield f"{_clock(request['time'])} {request['request']} by {request['by']}{why}"
    for wait in decision["waits"]:
        yield f"{_clock(wait['time'])} waited for a person: {wait['reason']}"
    for taken in decision["takeovers"]:
        yield f"{_clock(taken['time'])} another opsctl took over (epoch {taken['epoch']})"
    for stop in decision["interruptions"]:
        by = f"signal {stop['signal']}" if stop["signal"] else stop.get("why", "")
        yield f"{_clock(stop['time'])} stopped: {by}"


def _hooks(report: Report) -> Iterator[str]:
    for hook in report["hooks"]:
        mark = "ok" if hook["ok"] else "FAILED"
        line = f"{mark:>8}  {hook['when']} {hook['step']}: {hook['command']} {hook['warning']}"
        yield line.rstrip()


def _notifications(report: Report) -> Iterator[str]:
    for delivery in report["notifications"]:
        mark = "ok" if delivery["ok"] else "FAILED"
        tries = f" after {delivery['tries']} tries" if delivery["tries"] > 1 else ""
        line = f"{mark:>8}  {delivery['event']} to {delivery['to']}{tries} {delivery['warning']}"
        yield line.rstrip()


def _warnings(report: Report) -> Iterator[str]:
    yield from report["warnings"]


def _logs(report: Report) -> Iterator[str]:
    for name, lines in sorted(report["logs"].items()):
        yield f"{name} (last {min(len(lines), LOG_LINES)} of {len(lines)} lines)"
        yield from (f"  {line}" for line in lines[-LOG_LINES:])


SECTIONS: Sequence[tuple[str, Callable[[Report], Iterator[str]]]] = (
    ("What changed", _changes),
    ("Steps", _steps),
    ("Smoke tests", _smoke),
    ("Benchmark", _benchmark),
    ("Requests during the switch", _switch),
    ("Requests, waits and takeovers", _decisions),
    ("Hooks", _hooks),
    ("Notifications", _notifications),
    ("Warnings", _warnings),
    ("Logs", _logs),
)


def _clock(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
