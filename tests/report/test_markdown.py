"""The Markdown of a rollout, rendered by an independent program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from opsctl.report_markdown import LIMIT, markdown_of
from tests.report import rollouts
from tests.report.document import Element
from tests.report.test_escapes import rendered

Kind = Callable[[Path], rollouts.Page]
every_kind = pytest.mark.parametrize("kind", rollouts.KINDS, ids=lambda kind: kind.__name__)

GITHUB_MOST = 65_536
"""Characters that a comment on GitHub may have."""


def comment_of(kind: Kind, folder: Path) -> Element:
    written, _ = kind(folder)
    return rendered(written.markdown.read_text())


def rows(table: Element) -> list[list[str]]:
    return [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]


@every_kind
def test_every_comment_begins_with_the_verdict_and_has_whole_tables(
    kind: Kind, tmp_path: Path
) -> None:
    written, _ = kind(tmp_path)
    text = written.markdown.read_text()
    assert len(text) < GITHUB_MOST
    page = rendered(text)
    assert page.all()[0].name == "h2"
    assert page.all()[0].text[0] in "✅❌⏳"
    for table in page.all("table"):
        widths = {len(row) for row in rows(table)}
        assert len(widths) == 1 and len(rows(table)) >= 2
    for block in page.all("details"):
        assert block.all()[0].name == "summary"
        assert len(block.all()) > 1


def test_a_deploy_says_what_was_measured(tmp_path: Path) -> None:
    page = comment_of(rollouts.a_deploy, tmp_path)
    gate = json.loads((tmp_path / "0007" / "gate-1.json").read_text())
    assert page.one("h2").text == "✅ r13 is deployed"
    metrics, sizes, steps = (rows(table) for table in page.all("table"))
    entry = gate["metrics"]["p50:1"]
    ratio, low, high = (f"{100 * (entry[k] - 1):+.1f} %" for k in ("ratio", "low", "high"))
    assert metrics[1][:3] == ["p50, batch size 1", ratio, f"{low} to {high}"]
    arms = gate["batch_sizes"]["1"]
    old, new = arms["baseline"]["p50_ms"], arms["candidate"]["p50_ms"]
    assert sizes[1][:2] == ["1", f"{old:.2f} → {new:.2f} ({100 * (new / old - 1):+.1f} %)"]
    assert sizes[1][-1] == "0 of 1,500"
    assert [row[0] for row in steps[1:]] == [
        *("✅ build release r13", "✅ smoke tests", "✅ benchmark r13"),
        *("✅ 5 % of traffic", "✅ all traffic"),
    ]
    assert "seed 4711" in page.text
    assert [one.text for one in page.all("h3")] == [
        "Benchmark: ✅ pass",
        "Warnings",
        "What changed",
        "Requests at the front door",
        "Hooks and webhooks",
    ]


def test_a_failed_gate_says_why_and_what_to_do(tmp_path: Path) -> None:
    page = comment_of(rollouts.a_failed_gate, tmp_path)
    first, second = (one.text for one in page.all("p")[:2])
    assert page.one("h2").text == "❌ r13 was rolled back"
    assert first == "Gate failed: the candidate is worse in p50 of batch size 1."
    assert second == "Next: Make it faster, or widen gate.tolerated_p50_percent"
    assert "batch size 1: new: 40 × HTTP 503" in [one.text for one in page.all("li")]


def test_an_undecided_gate_says_that_its_data_decide_nothing(tmp_path: Path) -> None:
    page = comment_of(rollouts.an_undecided_gate, tmp_path)
    assert "These data are not sound enough to decide anything." in [p.text for p in page.all("p")]
    assert "Benchmark: ⏳ inconclusive" in [one.text for one in page.all("h3")]


def test_a_first_deploy_has_no_old_figures(tmp_path: Path) -> None:
    page = comment_of(rollouts.a_first_deploy, tmp_path)
    sizes = rows(page.all("table")[0])
    assert sizes[0] == ["batch size", "p50 ms", "p99 ms", "instances/s", "errors"]
    assert "→" not in " ".join(sizes[1])


def test_a_rollout_without_a_gate_shows_its_error_and_its_logs(tmp_path: Path) -> None:
    page = comment_of(rollouts.without_a_gate, tmp_path)
    assert [one.text for one in page.all("h3") if "Benchmark" in one.text] == []
    (steps,) = (rows(table) for table in page.all("table"))
    assert "expected 0.5, got 0.6" in steps[2][2]
    assert [one.text for one in page.all("summary")] == [
        "Timeline: 6 steps",
        "r13.events (last 1 of 1 lines)",
        "r13.log (last 2 of 2 lines)",
    ]
    assert page.all("code")[1].raw.startswith("r13-1 | loading\n")


def test_what_a_comment_cannot_hold_is_left_out_whole(tmp_path: Path) -> None:
    _, report = rollouts.without_a_gate(tmp_path)
    report["steps"] = [{**report["steps"][0], "title": "t" * 5000}] * 50
    report["warnings"] = ["w" * 5000] * 500
    report["logs"] = {f"{n}.log": ["é`" * 5000] * 500 for n in range(90)}
    text = markdown_of(report)
    assert LIMIT - 30_000 < len(text) < GITHUB_MOST
    assert text.endswith("The rest is left out: a comment has no room for it.\n")
    page = rendered(text)
    assert page.one("h2").text == "❌ r13 was rolled back"
    assert text.count("<details>") == text.count("</details>") == len(page.all("details"))
    assert "and 460 more" in page.text
