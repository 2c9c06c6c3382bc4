"""Pure: a report as Markdown for a pull request (GitHub's dialect).

Text from outside is escaped so that it can neither format, link, load an image, nor call a person:
in a comment `@name` tells that person, and `#12` marks another discussion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from opsctl.report_html import words
from opsctl.report_html.figures import failures
from opsctl.report_html.words import Gate, Report, visible

LIMIT = 60_000
"""Characters: GitHub takes 65,536 in one comment."""

LOG_LINES = 20
LOG_LINE_MAX = 300
LOGS_MAX = 6
ROWS_MAX = 40

MARKS: Mapping[str, str] = {
    "passed": "✅",
    "failed": "❌",
    "interrupted": "⏸️",
    "waiting": "⏸️",
    "open": "⏳",
    "not_taken": "–",
}
TONES: Mapping[words.Tone, str] = {"good": "✅", "bad": "❌", "open": "⏳"}

TEXT_MAX = 600
"""Characters of one sentence, cell or line: an error may quote a whole output."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
_AT_START = re.compile(r"^(\d*)([-+#=.)])")
_CALLS = re.compile(r"@(?=\w)|#(?=\d)|:(?=//)|\bwww(?=\.)|\bGH(?=-\d)")
_BLANK = "&#8203;"
"""A blank of no width: what stands before and after it is no longer one word to a machine."""


def markdown_of(report: Report, gates: Sequence[Gate] = ()) -> str:
    """The report as Markdown. `gates` are the gate's own reports, the deciding one last."""
    deciding = gates[-1] if gates else None
    return _within(
        [
            *_head(report),
            *_benchmark(report, deciding),
            *_listed("Warnings", report["warnings"]),
            *_listed("What changed", words.lines_of(report, "What changed")),
            *_listed(
                "Requests at the front door", words.lines_of(report, "Requests during the switch")
            ),
            *_listed("Events", words.lines_of(report, "Requests, waits and takeovers")),
            *_hooks(report),
            *_steps(report),
            *_surroundings(deciding),
            *_logs(report),
        ]
    )


def _within(parts: Sequence[str]) -> str:
    """The parts that a comment has room for, in their order."""
    kept: list[str] = []
    size = 0
    for part in parts:
        if size + len(part) <= LIMIT:
            kept.append(part)
            size += len(part) + 2
    if len(kept) < len(parts):
        kept.append("The rest is left out: a comment has no room for it.")
    return "\n\n".join(kept) + "\n"


def plain(text: str) -> str:
    """The text as itself, on one line, in any place of Markdown, a table's cell among them."""
    one_line = _short(" ".join(visible(text).split()), TEXT_MAX)
    escaped = _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", one_line))
    return _CALLS.sub(lambda match: f"{match[0]}{_BLANK}", escaped)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def fence(text: str) -> str:
    """The text as a block of code, whatever stands in it."""
    clean = visible(text)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", clean)), default=0))
    return f"{ticks}text\n{clean}\n{ticks}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    aligned = [":--", *["--:"] * (len(columns) - 1)]
    lines = [columns, aligned, *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(summary: str, content: str) -> str:
    """A block that is closed at first. Its first line is HTML; blank lines begin Markdown again."""
    title = _CALLS.sub(lambda match: f"{match[0]}{_BLANK}", escape(visible(summary)))
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _head(report: Report) -> Iterator[str]:
    tone, headline = words.ending(report)
    yield f"## {TONES[tone]} {plain(headline)}"
    if told := words.reason(report):
        yield plain(told)
    if step := words.next_step(report):
        yield f"**Next:** {plain(step)}"
    base = f" (base {report['base']})" if report["base"] else ""
    where = f" of {report['service']} in {report['environment']}" if report["service"] else ""
    yield plain(
        f"Rollout {report['rollout']}: {report['op']} {report['candidate']}{base}{where}, began"
        f" {words.clock(report['started'])}, took {words.seconds(report['duration_s'])}; serving"
        f" now: {words.serving(report)}."
    )


def _benchmark(report: Report, gate: Gate | None) -> Iterator[str]:
    benchmark = report["benchmark"]
    if benchmark is None:
        return
    outcome = gate["outcome"] if gate else benchmark["outcome"]
    told = gate["reason"] if gate else benchmark["reason"]
    tone = words.GATE_TONES.get(outcome, "open")
    yield f"### Benchmark: {TONES[tone]} {plain(outcome.replace('_', ' '))}"
    yield plain(words.sentence(told))
    if gate is None:
        return
    if not words.sound(gate):
        yield words.UNSOUND_NOTE
    if gate.get("metrics"):
        yield _table(("metric", "new against old", "95 % confidence", "judgement"), _metrics(gate))
    sizes = sorted(gate.get("batch_sizes", {}), key=int)
    if sizes:
        yield _batch_table(gate, sizes)
    if words.full_load(gate):
        yield plain(words.full_load(gate))
    lost = [f"batch size {size}: {line}" for size in sizes for line in failures(gate, size)]
    if lost:
        yield "\n".join(f"- {plain(line)}" for line in lost[:ROWS_MAX])


def _metrics(gate: Gate) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for metric, entry in gate["metrics"].items():
        known = "ratio" in entry
        rows.append(
            (
                words.metric_label(metric),
                words.change(entry["ratio"]) if known else words.UNKNOWN,
                words.interval(entry) if known else words.UNKNOWN,
                words.judgement(gate, metric)[1],
            )
        )
    return rows


def _batch_table(gate: Gate, sizes: Sequence[str]) -> str:
    columns = ("batch size", "p50 ms", "p99 ms", "instances/s", "errors")
    rows = []
    for size in sizes:
        arms = gate["batch_sizes"][size]
        old, new = arms.get("baseline") or {}, arms.get("candidate") or {}
        rows.append(
            (
                size,
                *(_both(old.get(key), new.get(key)) for key in ("p50_ms", "p99_ms")),
                _both(old.get("instances_per_s"), new.get("instances_per_s")),
                f"{words.count(new.get('errors'))} of {words.count(new.get('requests'))}",
            )
        )
    return _table(columns, rows)


def _both(old: float | None, new: float | None) -> str:
    if old is None:
        return words.digits(new)
    return f"{words.digits(old)} → {words.digits(new)} ({words.change_between(old, new)})"


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    items = [f"{'  ' if line.startswith(' ') else ''}- {plain(line)}" for line in lines[:ROWS_MAX]]
    if len(lines) > ROWS_MAX:
        items.append(f"- and {len(lines) - ROWS_MAX} more")
    yield f"### {title}\n\n" + "\n".join(items)


def _hooks(report: Report) -> Iterator[str]:
    lines = [
        f"{'ok' if hook['ok'] else 'FAILED'}: hook {hook['when']} {hook['step']}:"
        f" {hook['command']} {hook['warning']}"
        for hook in report["hooks"]
    ]
    lines += [
        f"{'ok' if sent['ok'] else 'FAILED'}: webhook {sent['event']} to {sent['to']}"
        f" {sent['warning']}"
        for sent in report["notifications"]
    ]
    yield from _listed("Hooks and webhooks", lines)


def _steps(report: Report) -> Iterator[str]:
    rows = [
        (
            f"{MARKS[step['outcome']]} {step['title']}",
            words.seconds(step["duration_s"]),
            _why(step["error"]),
        )
        for step in report["steps"]
    ]
    yield _folded(f"Timeline: {len(rows)} steps", _table(("step", "took", "error"), rows))


def _why(error: Mapping[str, Any] | None) -> str:
    return f"{error['what']}: {error['why']}".rstrip(": ") if error else ""


def _surroundings(gate: Gate | None) -> Iterator[str]:
    if gate is None:
        return
    machine = gate.get("machine", {})
    cpu, cores = machine.get("cpu", words.UNKNOWN), machine.get("cores", words.UNKNOWN)
    rounds, late = words.count(gate.get("rounds")), words.count(gate.get("rounds_late"))
    facts = [
        f"machine {machine.get('id', words.UNKNOWN)}: {cpu}, {cores} cores",
        f"seed {gate.get('seed', words.UNKNOWN)}",
        f"{rounds} rounds in {words.seconds(gate.get('seconds'))}, {late} more set aside as late",
    ]
    yield _folded("Environment", "\n".join(f"- {plain(fact)}" for fact in facts))


def _logs(report: Report) -> Iterator[str]:
    for name, lines in sorted(report["logs"].items())[:LOGS_MAX]:
        shown = [_short(line, LOG_LINE_MAX) for line in lines[-LOG_LINES:]]
        yield _folded(f"{name} (last {len(shown)} of {len(lines)} lines)", fence("\n".join(shown)))
