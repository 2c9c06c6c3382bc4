"""The page: what of a report stands where, and the template that is filled with it."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsctl.report_html import figures, words
from opsctl.report_html.words import Gate, Report, visible

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parents[1] / "templates" / "report"

LOG_LINES_MAX = 300
LOG_LINE_MAX = 1_000
LOGS_MAX_BYTES = 200_000
"""What of the logs gets into the page: enough to see what failed; the files beside it hold all."""

ROWS_MAX = 100
"""Most entries of a list that may grow without end (failed probes, smoke tests, hooks)."""

VALUE_MAX = 300
"""Most characters of one setting."""


def html_of(report: Report, gates: Sequence[Gate] = ()) -> str:
    """The page of a report. `gates` are the gate's own reports, the deciding one last.

    Everything is escaped here; secrets must be gone already. Charts are left out for gates whose
    histograms can't be read.
    """
    template = _environment().get_template("page.html.j2")
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return template.render(
        report=report,
        style=style,
        style_digest=digest,
        ending=words.ending(report),
        timeline=timeline(report),
        measurements=[_measurement(gate, number) for number, gate in enumerate(gates, 1)][::-1],
        environment=_environment_rows(gates[-1]) if gates else [],
        settings=_settings(gates[-1]) if gates else {},
        events=events(report),
        smoke=sorted(report["smoke"], key=lambda result: bool(result["ok"])),
        logs=logs_shown(report["logs"]),
    )


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(words=words, rows_max=ROWS_MAX)
    environment.filters.update(clock=words.clock, seconds=words.seconds, count=words.count)
    return environment


@dataclass(frozen=True)
class Bar:
    """A step with its place on the rollout's time, in percent of the whole."""

    step: Mapping[str, Any]
    offset_s: float | None
    left: float
    width: float


BAR_LEAST = 0.6
"""Percent; a step of a millisecond is still seen."""


def timeline(report: Report) -> list[Bar]:
    """Steps with their places; steps that never began have none."""
    start = report["started"]
    ends = [s["ended"] for s in report["steps"] if s["ended"] is not None]
    begins = [s["began"] for s in report["steps"] if s["began"] is not None]
    last = max([report["finished"] or start, start + report["duration_s"], *ends, *begins])
    whole = max(last - start, 1e-9)
    bars = []
    for step in report["steps"]:
        if step["began"] is None:
            bars.append(Bar(step, None, 0.0, 0.0))
            continue
        # A clock that was set back must not draw outside of the page.
        offset = max(0.0, step["began"] - start)
        took = step["duration_s"] if step["duration_s"] is not None else last - step["began"]
        left = min(100.0 - BAR_LEAST, 100.0 * offset / whole)
        width = min(100.0 - left, max(BAR_LEAST, 100.0 * took / whole))
        bars.append(Bar(step, offset, round(left, 2), round(width, 2)))
    return bars


@dataclass(frozen=True)
class Measurement:
    """One run of the gate."""

    number: int
    gate: Gate
    tone: words.Tone
    ratios: Sequence[figures.Figure]
    batches: Sequence[figures.Batch]


def _measurement(gate: Gate, number: int) -> Measurement:
    key = f"m{number}"
    return Measurement(
        number,
        gate,
        words.GATE_TONES.get(gate["outcome"], "open"),
        figures.ratio_figures(gate, key),
        figures.batches(gate, key),
    )


@dataclass(frozen=True)
class Event:
    """Something that people, the guard or another opsctl did."""

    time: float
    who: str
    what: str


def events(report: Report) -> list[Event]:
    """Requests, waits, takeovers and stops of a rollout in the order in which they happened."""
    decision = report["decision"]
    found = [
        Event(entry["time"], entry["by"], _because(_asked(entry), entry.get("reason")))
        for entry in decision["requests"]
    ]
    found += [
        Event(entry["time"], "opsctl", _because("waited for a person", entry["reason"]))
        for entry in decision["waits"]
    ]
    found += [
        Event(entry["time"], "opsctl", f"another one took over (epoch {entry['epoch']})")
        for entry in decision["takeovers"]
    ]
    found += [
        Event(
            entry["time"],
            "opsctl",
            f"stopped by signal {entry['signal']}"
            if entry["signal"]
            else _because("stopped", entry.get("why")),
        )
        for entry in decision["interruptions"]
    ]
    return sorted(found, key=lambda event: event.time)


def _asked(request: Mapping[str, Any]) -> str:
    return "took the candidate off" if request["request"] == "guard" else str(request["request"])


def _because(what: str, why: str | None) -> str:
    return f"{what}: {why}" if why else what


def _environment_rows(gate: Gate) -> list[tuple[str, str]]:
    """Where and how a gate was measured, as far as it says so."""
    rows = [(name.replace("_", " "), str(value)) for name, value in gate.get("machine", {}).items()]
    rows = [("fingerprint" if name == "id" else name, value) for name, value in rows]
    shown: Mapping[str, tuple[str, Callable[[Any], str]]] = {
        "seed": ("seed", str),
        "started": ("measured", words.clock),
        "seconds": ("measured for", words.seconds),
        "rounds": ("rounds", words.count),
        "rounds_late": ("rounds set aside as late", words.count),
    }
    rows += [(name, spell(gate[key])) for key, (name, spell) in shown.items() if key in gate]
    if warmup := gate.get("warmup"):
        settled = "settled" if warmup["settled"] else "not settled"
        spent = f"{words.seconds(warmup['seconds'])}, {words.count(warmup['rounds'])} rounds"
        rows.append(("warm-up", f"{spent}, {settled}"))
    if lag := gate.get("lag_ms"):
        parts = [f"{name} {words.milliseconds(lag.get(name))}" for name in ("p50", "p99", "max")]
        rows.append(("lateness of the load", ", ".join(parts)))
    for name, used in gate.get("cpu_percent", {}).items():
        rows.append((f"CPU of the {name}", _cpu(used)))
    if any(gate.get("reconnects", ())):
        rows.append(("reconnects", " and ".join(map(str, gate["reconnects"]))))
    return rows


def _cpu(used: Mapping[str, float] | float | None) -> str:
    """CPU use in percent of one core; gates of earlier versions did not tell the waiting."""
    if isinstance(used, Mapping):
        return f"{used['ran']:.1f} % of one core, waited {used['waited']:.1f} %"
    return words.UNKNOWN if used is None else f"{used:.1f} % of one core"


def _settings(gate: Gate) -> dict[str, list[tuple[str, str]]]:
    return {
        key: [(name.replace("_", " "), _value(value)) for name, value in gate.get(key, {}).items()]
        for key in ("gate", "bench")
        if gate.get(key)
    }


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    text = "not set" if value is None else str(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]} …"


def logs_shown(logs: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str]]:
    """(name, how much of it, text) of each log, its end, within the page's limits."""
    shown, left = [], LOGS_MAX_BYTES
    for name, lines in sorted(logs.items()):
        chosen = _last_within(lines, left)
        left -= sum(len(line.encode(errors="replace")) for line in chosen)
        much = f"last {len(chosen)} of {len(lines)} lines"
        if len(chosen) == len(lines):
            much = f"{len(lines)} line" if len(lines) == 1 else f"{len(lines)} lines"
        shown.append((name, much, "\n".join(chosen)))
    return shown


def _last_within(lines: Iterable[str], most_bytes: int) -> list[str]:
    chosen: list[str] = []
    for line in list(lines)[: -LOG_LINES_MAX - 1 : -1]:
        cut = line if len(line) <= LOG_LINE_MAX else f"{line[:LOG_LINE_MAX]} …"
        most_bytes -= len(cut.encode(errors="replace"))
        if most_bytes < 0:
            break
        chosen.append(cut)
    return chosen[::-1]
