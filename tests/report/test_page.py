"""The page of a rollout, read by Python's HTML parser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from opsctl.report_html import html_of
from tests.report import rollouts
from tests.report.document import Element, parse
from tests.report.measured import measured
from tests.report_records import GATE, Records, deployed

Kind = Callable[[Path], rollouts.Page]
every_kind = pytest.mark.parametrize("kind", rollouts.KINDS, ids=lambda kind: kind.__name__)


def page_of(kind: Kind, folder: Path) -> Element:
    written, _ = kind(folder)
    return parse(written.html.read_text())


def rows(table: Element) -> list[list[str]]:
    return [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]


@every_kind
def test_every_page_can_be_read_without_seeing_it(kind: Kind, tmp_path: Path) -> None:
    page = page_of(kind, tmp_path)
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("head").one("title").text != ""
    levels = [int(one.name[1]) for one in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert [b for a, b in pairwise(levels) if b > a + 1] == []
    ids = [one.attributes["id"] for one in page.all() if "id" in one.attributes]
    assert len(set(ids)) == len(ids)
    named = [one.attributes.get("aria-labelledby", "").split() for one in page.all()]
    assert {name for names in named for name in names} - set(ids) == set()
    assert [one for one in page.all("section") if "aria-labelledby" not in one.attributes] == []
    assert [one for one in page.all("table") if one.one("caption").text == ""] == []
    assert [
        one for one in page.all("th") if one.attributes.get("scope") not in ("row", "col")
    ] == []


@every_kind
def test_every_chart_says_in_words_and_figures_what_it_shows(kind: Kind, tmp_path: Path) -> None:
    page = page_of(kind, tmp_path)
    for figure in page.all("figure"):
        picture = figure.one("svg")
        assert picture.attributes["role"] == "img"
        title, description = figure.one("title"), figure.one("desc")
        names = picture.attributes["aria-labelledby"].split()
        assert names == [title.attributes["id"], description.attributes["id"]]
        assert title.text and description.text
        assert len(rows(figure.one("table"))) >= 2
    hidden = [one for one in page.all("svg") if one.attributes.get("aria-hidden") == "true"]
    assert len(page.all("svg")) == len(page.all("figure")) + len(hidden)


@every_kind
def test_what_scrolls_or_unfolds_can_be_reached_by_keyboard(kind: Kind, tmp_path: Path) -> None:
    page = page_of(kind, tmp_path)
    scrolled = [one for one in page.all() if one.attributes.get("class") == "scroll"]
    for one in [*scrolled, *page.all("pre")]:
        assert one.attributes["tabindex"] == "0"
    for one in scrolled:
        assert (one.attributes["role"], one.attributes["aria-label"] != "") == ("region", True)
    assert all(isinstance(one.children[0], Element) for one in page.all("details"))
    assert {one.all()[0].name for one in page.all("details")} <= {"summary"}


@every_kind
def test_no_page_asks_anybody_for_anything(kind: Kind, tmp_path: Path) -> None:
    page = page_of(kind, tmp_path)
    assert page.all("script", "img", "iframe", "object", "embed", "form", "base", "image") == []
    links = [
        value
        for one in page.all()
        for name, value in one.attributes.items()
        if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster", "style")
    ]
    assert links == ["data:,", "#content"]
    assert [n for one in page.all() for n in one.attributes if n.startswith("on")] == []
    style = page.one("style").raw
    assert re.findall(r"url\(|@import|@font-face|expression", style) == []
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = page.all("meta")[1].attributes["content"]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none';"
        " form-action 'none'"
    )


@pytest.mark.parametrize(
    ("kind", "headline", "reason", "tone"),
    [
        (
            rollouts.a_deploy,
            "r13 is deployed",
            "All steps passed; the benchmark says pass: no regression",
            "good",
        ),
        (
            rollouts.a_failed_gate,
            "r13 was rolled back",
            "Gate failed: the candidate is worse in p50 of batch size 1.",
            "bad",
        ),
        (
            rollouts.a_refused_one,
            "r13 was refused before anything was touched",
            "The disk is full: 3 MB are free.",
            "bad",
        ),
        (
            rollouts.an_open_one,
            "The rollout of r13 is not finished",
            "It waits at 'all traffic': approval is asked for.",
            "open",
        ),
        (
            rollouts.one_just_begun,
            "The rollout of r13 is not finished",
            "It has not taken its next step.",
            "open",
        ),
        (
            rollouts.one_in_pieces,
            "r13 was aborted by a person",
            "Abort by bob: wrong day.",
            "bad",
        ),
    ],
)
def test_the_verdict_stands_on_top_with_its_reason(
    kind: Kind, headline: str, reason: str, tone: str, tmp_path: Path
) -> None:
    page = page_of(kind, tmp_path)
    top = page.one("header")
    assert top.attributes["class"] == f"verdict {tone}"
    assert top.one("h1").text == headline
    (told,) = [one.text for one in top.all("p") if one.attributes["class"] == "reason"]
    assert told.startswith(reason) and told.endswith(".") and told.count(". ") == 0


def test_sections_follow_what_people_ask_first(tmp_path: Path) -> None:
    titles = [one.text for one in page_of(rollouts.a_deploy, tmp_path).all("h2")]
    assert titles == [
        "Warnings",
        "What changed",
        "Timeline",
        "Benchmark",
        "Requests at the front door",
        "Smoke tests",
        "Events",
        "Environment of the benchmark",
    ]


def test_a_rollout_without_a_gate_has_no_benchmark(tmp_path: Path) -> None:
    page = page_of(rollouts.without_a_gate, tmp_path)
    titles = [one.text for one in page.all("h2")]
    assert titles == ["Timeline", "Requests at the front door", "Smoke tests", "Logs"]
    assert page.all("figure") == []
    (smoke, *_) = page.all("details")
    assert ("open" in smoke.attributes, smoke.one("summary").text) == (True, "1 of 1 failed")


def test_the_timeline_has_every_step_at_its_time(tmp_path: Path) -> None:
    page = page_of(rollouts.a_failed_gate, tmp_path)
    steps = page.by_id("timeline")
    listed = page.one("ol")
    assert steps.text == "Timeline"
    assert [one.attributes["class"] for one in listed.all("li")] == [
        *("passed", "passed", "failed", "not_taken", "not_taken"),
    ]
    # Records are a second apart: opened at 0, the gate begins at 5, fails at 6, closed at 7.
    bars = [one.attributes for one in listed.all("rect") if one.attributes["class"] != "track"]
    assert [(bar["class"], bar["x"], bar["width"]) for bar in bars] == [
        ("passed", "14.29", "7.14"),
        ("passed", "42.86", "7.14"),
        ("failed", "71.43", "14.29"),
    ]
    assert "Make it faster" in listed.text


def test_figures_by_batch_size_are_those_of_the_gate(tmp_path: Path) -> None:
    written, _ = rollouts.a_deploy(tmp_path)
    gate = json.loads((tmp_path / "0007" / "gate-1.json").read_text())
    page = parse(written.html.read_text())
    for size in ("1", "16"):
        (card,) = [
            one
            for one in page.all("div")
            if one.attributes.get("class") == "card"
            and one.all("h4")[0].text == f"Batch size {size}"
        ]
        old, new = (gate["batch_sizes"][size][arm] for arm in ("baseline", "candidate"))
        shown = {row[0]: row[1:] for row in rows(card.all("table")[0])[1:]}
        for name, key in (("p50, ms", "p50_ms"), ("p99, ms", "p99_ms"), ("mean, ms", "mean_ms")):
            change = f"{100 * (new[key] / old[key] - 1):+.1f} %"
            digits = 1 if new[key] >= 10 else 2
            assert shown[name] == [f"{old[key]:.{digits}f}", f"{new[key]:.{digits}f}", change]
        assert shown["requests"] == ["1,500", "1,500", ""]


def test_the_ratio_and_its_bounds_are_those_of_the_gate(tmp_path: Path) -> None:
    written, _ = rollouts.a_deploy(tmp_path)
    gate = json.loads((tmp_path / "0007" / "gate-1.json").read_text())
    page = parse(written.html.read_text())
    (table,) = [one for one in page.all("table") if one.attributes.get("class") == "metrics"]
    first = rows(table)[1]
    entry = gate["metrics"]["p50:1"]
    ratio, low, high = (f"{100 * (entry[k] - 1):+.1f} %" for k in ("ratio", "low", "high"))
    assert first[1] == f"{ratio}{low} to {high}"
    assert first[0] == "p50, batch size 1tolerated +1.5 %, refused +5 %"
    figure = page.all("figure")[0]
    last = rows(figure.one("table"))[-1]
    assert last[1:] == [ratio, low, high]
    assert last[0] == f"{entry['over_time'][-1]['seconds']:.1f}"


def test_the_evidence_that_a_pass_needs_is_told_for_p99_apart(tmp_path: Path) -> None:
    written, _ = rollouts.a_deploy(tmp_path)
    page = parse(written.html.read_text())
    (caption,) = [one.text for one in page.all("caption") if "e-values" in one.text]
    # Logarithms of 1 / 0.01, and of 1 / 0.03.
    assert "a pass needs 4.61 for better than refused in each, in p99 3.51." in caption


def test_failures_of_the_candidate_are_told_by_what_happened(tmp_path: Path) -> None:
    page = page_of(rollouts.a_failed_gate, tmp_path)
    assert "new: 40 × HTTP 503" in page.text
    assert "Measured 2 times; the last one decides." in page.text
    assert [one.text for one in page.all("summary") if "before it" in one.text] == [
        "Measurement 1 before it: fail"
    ]


def test_an_undecided_gate_says_that_its_data_decide_nothing(tmp_path: Path) -> None:
    page = page_of(rollouts.an_undecided_gate, tmp_path)
    assert "These data are not sound enough to decide anything." in page.text
    (table,) = [one for one in page.all("table") if one.attributes.get("class") == "metrics"]
    tones = {one.attributes["class"] for one in table.all("span")}
    assert tones == {"mark open"}


def test_a_first_deploy_is_shown_alone(tmp_path: Path) -> None:
    page = page_of(rollouts.a_first_deploy, tmp_path)
    table = next(one for one in page.all("table") if one.one("caption").text == "Batch size 1")
    assert rows(table)[0] == ["figure", "new"]
    assert [one for one in page.all("path") if one.attributes["class"] == "baseline"] == []
    assert len(page.all("figure")) == 2


def test_seed_and_machine_are_told(tmp_path: Path) -> None:
    page = page_of(rollouts.a_deploy, tmp_path)
    (section,) = [
        o for o in page.all("section") if o.attributes["aria-labelledby"] == "environment"
    ]
    pairs, settings, _ = (
        {one.one("dt").text: one.one("dd").text for one in listed.all("div")}
        for listed in section.all("dl")
    )
    gate = json.loads((tmp_path / "0007" / "gate-1.json").read_text())
    assert pairs["seed"] == "4711"
    assert pairs["fingerprint"] == gate["machine"]["id"]
    assert pairs["CPU of the baseline"] == "12.5 % of one core, waited 1.0 %"
    assert pairs["warm-up"] == "3.1 s, 310 rounds, settled"
    assert (settings["alpha"], settings["max p99 ms"]) == ("0.01", "not set")


def test_events_of_people_the_guard_and_other_opsctls_stand_in_order(tmp_path: Path) -> None:
    page = page_of(rollouts.one_in_pieces, tmp_path)
    (events,) = [o for o in page.all("section") if o.attributes["aria-labelledby"] == "events"]
    assert [one.text for one in events.all("li")] == [
        "1970-01-01 00:16:42 UTC opsctl: stopped by signal 15",
        "1970-01-01 00:16:43 UTC opsctl: another one took over (epoch 4)",
        "1970-01-01 00:16:45 UTC bob: abort: wrong day",
    ]


def test_the_guard_is_told_with_its_reason(tmp_path: Path) -> None:
    page = page_of(rollouts.an_open_one, tmp_path)
    assert "guard: took the candidate off: 2 % errors" in page.text
    assert "So far" in [one.text for one in page.all("dt")]


def test_hooks_and_webhooks_are_told(tmp_path: Path) -> None:
    text = page_of(rollouts.a_deploy, tmp_path).text
    assert "ok before promote: ./announce" in text
    assert "failed after deploy: ./announce exit code 1" in text
    assert "failed finished to chat.example after 3 tries" in text


def test_throughput_at_full_load_is_told_on_page_and_in_markdown(tmp_path: Path) -> None:
    gate = measured(5.0)
    arms = {"baseline": {"instances_per_s": 4000.0}, "candidate": {"instances_per_s": 3900.0}}
    full = {**gate, "throughput": {"batch_size": 16, **arms}}
    full["metrics"] = {**gate["metrics"], "throughput": {**gate["metrics"]["errors"]}}
    written, _ = rollouts.written(tmp_path, deployed(), [full])
    told = "At full load, batch size 16: 4,000 instances/s by the old one, 3,900 by the new one"
    assert f"{told} (-2.5 %)." in parse(written.html.read_text()).text
    assert told in written.markdown.read_text()
    assert "time an answer takes at full load" in written.html.read_text()


def test_a_histogram_that_cannot_be_read_leaves_the_rest_of_the_page(tmp_path: Path) -> None:
    page = parse(rollouts.written(tmp_path, deployed(), [GATE])[0].html.read_text())
    assert page.all("figure") == []
    table = next(one for one in page.all("table") if one.one("caption").text == "Batch size 1")
    assert rows(table)[1] == ["p50, ms", "2.00", "2.10", "+5.0 %"]
    assert "environment" not in [one.attributes.get("id") for one in page.all("h2")]


@pytest.mark.long
def test_the_page_of_the_longest_gate_is_small(tmp_path: Path) -> None:
    gate = measured(480.0, sizes=(1, 4, 16, 32), effect=1.03)
    records = Records().opened().step(0, {}).closed("rolled_back", 10, "gate failed")
    _, report = rollouts.written(tmp_path, records)
    report["logs"] = {f"r13-{n}.log": [f"{i} " + "é" * 400 for i in range(5000)] for n in range(9)}
    probe: dict[str, Any] = {"time": 1.0, "what": "status 503", "release": ""}
    report["switch"].update(probes=9000, slowest_probe_ms=1.0, failed_probes=[probe] * 9000)
    report["benchmark"] = {"outcome": "pass", "reason": "", "measurements": 2, "batch_sizes": []}
    page = html_of(report, [gate, gate])
    assert len(page.encode()) < 800_000
    assert parse(page).text.count("1970-01-01 00:00:01 UTC") == 100


def test_values_of_prometheus_stand_beside_the_other_metrics(tmp_path: Path) -> None:
    written, _ = rollouts.values_that_got_worse(tmp_path)
    html, markdown = written.html.read_text(), written.markdown.read_text()
    for page in (html, markdown):
        assert "worse: 20 values" in page and "no worse: 20 values" in page
        assert "queue length" in page and "memory" in page
        assert "prometheus:" not in page
    assert "Change of queue length" in html
    assert "1,990 by the new one" in html
