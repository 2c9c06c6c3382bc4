"""Pure: the words and figures that a report's page and its Markdown share."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from opsctl.report_text import SECTIONS

Report = Mapping[str, Any]
Gate = Mapping[str, Any]
Tone = Literal["good", "bad", "open"]

UNKNOWN = "–"
"""What stands where a figure is missing."""

NARROW = "\u00a0"
"""Between a figure and its unit no line breaks."""

PERCENT = 100.0

TIMES = 10.0
"""A ratio from which on percents are hard to read."""

ENDINGS: Mapping[str, tuple[Tone, str]] = {
    "deployed": ("good", "{candidate} is deployed"),
    "rolled_back_on_request": ("good", "rolled back to {candidate} on request"),
    "rolled_back": ("bad", "{candidate} was rolled back"),
    "rollback_failed": ("bad", "the rollback failed: a person is needed"),
    "failed_without_base": ("bad", "{candidate} failed, with nothing to go back to"),
    "build_failed": ("bad", "{candidate} could not be built"),
    "refused": ("bad", "{candidate} was refused before anything was touched"),
    "aborted": ("bad", "{candidate} was aborted by a person"),
    "open": ("open", "the rollout of {candidate} is not finished"),
}

GATE_TONES: Mapping[str, Tone] = {"pass": "good", "fail": "bad"}

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u202a-\u202e\u2066-\u2069"  # turn text around: a line reads as another one
    "\ud800-\udfff\ufffe\uffff]"  # no characters at all
)


def visible(text: str) -> str:
    """The text with a visible escape in place of each character that hides or reorders others."""
    clean = text.replace("\r\n", "\n")
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", clean)


def ending(report: Report) -> tuple[Tone, str]:
    """How the rollout ended, as a tone and a headline."""
    outcome = str(report["outcome"])
    tone, words = ENDINGS.get(outcome, ("bad", f"{{candidate}}: {outcome.replace('_', ' ')}"))
    headline = words.replace("{candidate}", str(report["candidate"]))
    return tone, headline if words[0] == "{" else headline[0].upper() + headline[1:]


def serving(report: Report) -> str:
    """What users are answered by."""
    if report["outcome"] == "open":
        return "not settled yet"
    return f"{report['serving_release']}" if report["serving_release"] else "nothing"


def reason(report: Report) -> str:
    """Why it ended as it did, in one sentence."""
    given = str(report["decision"]["reason"])
    benchmark = report["benchmark"]
    if report["outcome"] == "open":
        return _where_it_stands(report)
    if report["exit_code"] == 0 and benchmark and benchmark["reason"]:
        said = f"the benchmark says {benchmark['outcome']}: {benchmark['reason']}"
        return sentence(f"{given}; {said}")
    return sentence(given)


def _where_it_stands(report: Report) -> str:
    for step in reversed(report["steps"]):
        if step["outcome"] == "waiting":
            waits = report["decision"]["waits"]
            why = f": {waits[-1]['reason']}" if waits else ""
            return sentence(f"it waits at '{step['title']}'{why}")
        if step["outcome"] in ("open", "interrupted", "failed"):
            return sentence(f"it stands at '{step['title']}' ({step['outcome']})")
    return "It has not taken its next step."


def sentence(text: str) -> str:
    """With a full stop, and a capital letter unless it begins with a name as r12 or p50 are."""
    if not text.strip():
        return ""
    first = text.split()[0]
    named = any(sign.isdigit() for sign in first)
    capital = text if named else text[0].upper() + text[1:]
    return capital if capital[-1] in ".!?" else f"{capital}."


def next_step(report: Report) -> str:
    """What the error that decided tells people to do; empty when nothing failed."""
    told = [str(step["error"]["next_step"]) for step in report["steps"] if step["error"]]
    return told[-1] if told else ""


def lines_of(report: Report, section: str) -> list[str]:
    """The lines of a section as the page of text has them; deeper ones begin with blanks."""
    return list(dict(SECTIONS)[section](report))


def metric_label(metric: str) -> str:
    """A gate metric's name for people: `p50:16` is "p50, batch size 16"."""
    name, _, size = metric.partition(":")
    if name == "prometheus":
        return size
    if name == "throughput":
        # Its ratio is one of times, so that more is worse as it is for the others.
        return "time an answer takes at full load"
    if size:
        return f"{name}, batch size {size}"
    return f"{name}, all sizes" if name == "p99" else name


def margins(gate: Gate, metric: str) -> tuple[float | None, float | None]:
    """Percent that is tolerated and percent that is refused; None where the gate names none."""
    name = metric.partition(":")[0]
    settings = gate.get("gate", {})
    if name == "prometheus":
        entry = gate["metrics"][metric]
        return entry["tolerated_percent"], entry["refused_percent"]
    return settings.get(f"tolerated_{name}_percent"), settings.get(f"refused_{name}_percent")


UNSOUND = ("environment", "too_few", "no_answer")
"""Kinds of reasons for which the evidence decides nothing, whatever it says."""


UNSOUND_NOTE = "These data are not sound enough to decide anything."


def sound(gate: Gate) -> bool:
    """Whether the gate's data may decide anything."""
    return gate.get("reason_kind") not in UNSOUND


def judgement(gate: Gate, metric: str) -> tuple[Tone, str]:
    """What the evidence says of one metric."""
    entry = gate["metrics"][metric]
    if metric.startswith("prometheus:"):
        return _judgement_of_values(entry)
    proved, slower = entry.get("proved_at_pair"), _surely_slower(gate, metric)
    if gate["outcome"] == "fail" and gate.get("deciding_metric") == metric:
        return "bad", "worse"
    if proved is not None and slower:
        return "open", f"slower, but not refused: {count(proved)} pairs"
    if proved is not None:
        return "good" if sound(gate) else "open", f"no regression: {count(proved)} pairs"
    return ("bad", "slower than tolerated") if slower else ("open", "undecided")


def _judgement_of_values(entry: Mapping[str, Any]) -> tuple[Tone, str]:
    """What the service's own values say, as Prometheus has them."""
    many = f"{count(len(entry['values']['candidate']))} values"
    said: Mapping[str, tuple[Tone, str]] = {
        "pass": ("good", f"no worse: {many}"),
        "fail": ("bad", f"worse: {many}"),
        "no_data": ("open", f"no data: {many}"),
    }
    return said.get(entry["outcome"], ("open", f"undecided: {many}"))


def _surely_slower(gate: Gate, metric: str) -> bool:
    """Whether the whole confidence sequence lies above what is tolerated."""
    tolerated, low = margins(gate, metric)[0], gate["metrics"][metric].get("low")
    return tolerated is not None and low is not None and low > 1.0 + tolerated / PERCENT


def full_load(gate: Gate) -> str:
    """What both arms answer at full load, in a sentence; empty when it was not measured."""
    measured = gate.get("throughput")
    if not measured:
        return ""
    old, new = (measured[arm]["instances_per_s"] for arm in ("baseline", "candidate"))
    return (
        f"At full load, batch size {measured['batch_size']}: {count(old)} instances/s by the old"
        f" one, {count(new)} by the new one ({change_between(old, new)})."
    )


def margin(value: float) -> str:
    """A margin of opsctl.yaml as it is written there."""
    return f"+{value:g}{NARROW}%"


def change(ratio: float | None) -> str:
    """A ratio as a change: 1.05 is "+5.0 %", 20 is "×20"; a bound that is not known is a dash."""
    if ratio is None:
        return UNKNOWN
    return f"×{ratio:,.0f}" if ratio >= TIMES else percent((ratio - 1.0) * PERCENT)


def percent(value: float | None) -> str:
    """A change in percent with its sign."""
    return UNKNOWN if value is None else f"{round(value, 1) + 0.0:+,.1f}{NARROW}%"


def interval(entry: Mapping[str, Any]) -> str:
    """The confidence sequence's last bounds; an open side is spelled out."""
    low, high = entry.get("low"), entry.get("high")
    if low is None and high is None:
        return "no bounds yet"
    if low is None:
        return f"at most {change(high)}"
    return f"at least {change(low)}" if high is None else f"{change(low)} to {change(high)}"


def digits(value: float | None) -> str:
    """A figure with three significant digits or so."""
    if value is None:
        return UNKNOWN
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def milliseconds(value: float | None) -> str:
    """A latency."""
    return UNKNOWN if value is None else f"{digits(value)}{NARROW}ms"


def seconds(value: float | None) -> str:
    """A duration."""
    return UNKNOWN if value is None else f"{value:,.1f}{NARROW}s"


def count(value: float | None) -> str:
    """A number of things."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def clock(unix_s: float | None) -> str:
    """A moment, as people in every time zone can read it."""
    if unix_s is None:
        return UNKNOWN
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def change_between(old: float | None, new: float | None) -> str:
    """Change of a plain figure between both arms; a dash when there is nothing to compare with."""
    return change(new / old) if old and new is not None else UNKNOWN


def threshold(gate: Gate, key: str) -> str:
    """The log e-value that a bound on wrong verdicts (`alpha`, `beta`, `beta_p99`) asks for."""
    bound = gate.get("gate", {}).get(key)
    return decimal(-math.log(bound)) if bound else UNKNOWN


def decimal(value: float | None) -> str:
    """A figure without a unit."""
    return UNKNOWN if value is None else f"{round(value, 2) + 0.0:.2f}"
