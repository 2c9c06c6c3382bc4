"""Text from outside stays text: no markup, no script, no hidden or turned characters."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

import pytest
from markdown_it import MarkdownIt

from opsctl.report_html import html_of
from opsctl.report_html.words import visible
from opsctl.report_markdown import fence, markdown_of, plain
from tests.report import rollouts
from tests.report.document import Element, parse

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</style></title></textarea></pre><iframe src=//evil.example>",
    "{{ 7 * 7 }}{% include 'x' %}",
    "&lt;b&gt; &amp;amp;",
    "<!-- x --> ]]> <![CDATA[",
)
MARKDOWN = (
    "![](http://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "http://evil.example www.evil.example https://evil.example",
    "@everyone and @org/team, see #12 and GH-7, mail a@b.example",
    "a | b || c",
    "`code` ``` *bold* _soft_ ~~gone~~ $x$",
    "</details><h1>big</h1>",
    "# heading",
    "1. listed",
    "- listed",
    "> quoted",
    "=====",
    "\\",
)
every_hostile = pytest.mark.parametrize("hostile", [*HOSTILE, *MARKDOWN])


def poisoned(value: Any, hostile: str) -> Any:
    """The report with `hostile` after every text that comes from outside."""
    if isinstance(value, dict):
        return {key: poisoned_at(key, item, hostile) for key, item in value.items()}
    return [poisoned(item, hostile) for item in value] if isinstance(value, list) else value


OWN = ("outcome", "kind", "when", "format", "histogram", "reason_kind", "deciding_metric", "id")
"""Texts that only opsctl writes, of a fixed set."""


def poisoned_at(key: str, value: Any, hostile: str) -> Any:
    if isinstance(value, str) and key not in OWN:
        return f"{value}{hostile}"
    if key == "failures":
        return {f"{name}{hostile}": count for name, count in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [f"{item}{hostile}" for item in value]
    return poisoned(value, hostile)


Material = tuple[Any, list[Any]]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """A report with nearly everything in it, and its gate."""
    folder = tmp_path_factory.mktemp("reports")
    _, report = rollouts.a_deploy(folder / "a")
    _, failed = rollouts.a_failed_gate(folder / "b")
    _, logs = rollouts.without_a_gate(folder / "c")
    _, cut = rollouts.one_in_pieces(folder / "d")
    report.update(steps=failed["steps"], logs=logs["logs"], decision=cut["decision"])
    gate = json.loads((folder / "b" / "0007" / "gate-1.json").read_text())
    return report, [gate]


def tags(page: Element) -> list[tuple[str, list[str]]]:
    return [(one.name, sorted(one.attributes)) for one in page.all()]


@pytest.fixture(scope="module")
def harmless(material: Material) -> tuple[Element, Element]:
    """Page and Markdown with nothing but an x after every text."""
    report, gates = (poisoned(part, "x") for part in material)
    return parse(html_of(report, gates)), rendered(markdown_of(report, gates))


@every_hostile
def test_hostile_text_changes_no_element_of_the_page(
    hostile: str, material: Material, harmless: tuple[Element, Element]
) -> None:
    report, gates = material
    page = parse(html_of(poisoned(report, hostile), poisoned(gates, hostile)))
    assert tags(page) == tags(harmless[0])
    told = " ".join(hostile.split())
    assert page.one("h1").text == f"r13{told} is deployed"
    assert page.text.count(told) > 40


@pytest.mark.parametrize("name", ["p50:<b>", 'x" onload="y'])
def test_names_of_metrics_and_batch_sizes_are_escaped_in_charts(
    name: str, material: Material
) -> None:
    report, (gate,) = material
    page = parse(html_of(report, [{**gate, "metrics": {name: gate["metrics"]["p50:1"]}}]))
    assert page.all("b") == []
    assert [one for one in page.all() if "onload" in one.attributes] == []


def test_characters_that_hide_or_turn_text_are_spelled_out(material: Material) -> None:
    text = "a\x00b\x1b[31mred\x1b[0m \u202egnp.exe\u2066\r\n\ttab \ud800\x9b\x7f"
    spelled = "a\\u0000b\\u001b[31mred\\u001b[0m \\u202egnp.exe\\u2066\n\ttab \\ud800\\u009b\\u007f"
    assert visible(text) == spelled
    report, gates = material
    assert not set(html_of(poisoned(report, text), gates)) & set("\x00\x1b\u202e\u2066\ud800\x9b\r")
    assert not set(markdown_of(poisoned(report, text), gates)) & set("\x00\x1b\u202e\ud800\x9b\r")


MACHINE = MarkdownIt("gfm-like", {"html": True, "linkify": False}).enable("table")
"""GitHub's dialect but for its own links, which `test_nobody_is_called` looks for itself."""


def rendered(markdown: str) -> Element:
    page: str = MACHINE.render(markdown)
    return parse(page)


@every_hostile
def test_hostile_text_changes_no_element_of_the_markdown(
    hostile: str, material: Material, harmless: tuple[Element, Element]
) -> None:
    report, gates = material
    page = rendered(markdown_of(poisoned(report, hostile), poisoned(gates, hostile)))
    assert tags(page) == tags(harmless[1])
    assert {one.name for one in page.all()} <= {
        *("h2", "h3", "p", "strong", "ul", "li", "details", "summary", "pre", "code"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }


@pytest.mark.parametrize("text", [*HOSTILE, *MARKDOWN])
@pytest.mark.parametrize("place", ["{}", "- {}", "| a | b |\n| - | - |\n| {} | x |", "**x:** {}"])
def test_text_is_read_as_it_was_written(text: str, place: str) -> None:
    page = rendered(place.format(plain(text)))
    assert " ".join(text.split()) in page.text.replace("\u200b", "")


@pytest.mark.parametrize("text", [*HOSTILE, *MARKDOWN, "```\n````\n`", ""])
def test_a_block_of_code_holds_whatever_is_in_it(text: str) -> None:
    page = rendered(f"{fence(text)}\n\nafter\n")
    assert page.one("code").raw == f"{text}\n" if text else page.one("code").raw == "\n"
    assert page.one("p").text == "after"


def test_nobody_is_called_and_nothing_is_linked_from_a_comment(material: Material) -> None:
    report, gates = material
    calls = MARKDOWN[2] + MARKDOWN[3]
    page = rendered(markdown_of(poisoned(report, calls), poisoned(gates, calls)))
    quoted = [one.raw for one in page.all("code")]
    assert quoted != []
    outside = page.raw
    for code in quoted:
        outside = outside.replace(code, "")
    for call in ("@everyone", "@org", "#12", "GH-7", "http://", "https://", "www.", "a@b"):
        assert call not in outside
        assert call in calls


def test_quotes_in_attributes_are_escaped() -> None:
    from opsctl.report_charts import Chart, linear_axis, svg

    axis = linear_axis('<"x">', 0.0, 1.0)
    picture = svg(Chart('k"', "<t>", "<d>", axis, axis, []))
    assert "<t>" not in picture and "<d>" not in picture
    assert escape('<"x">', quote=False) in picture or escape('<"x">') in picture
    assert parse(picture).one("svg").attributes["aria-labelledby"] == 'k"-title k"-desc'


@pytest.mark.parametrize("write", [html_of, markdown_of])
def test_a_release_name_with_markup_is_told_as_it_is(
    write: Callable[..., str], material: Material
) -> None:
    report = {**material[0], "candidate": "r13<b>", "outcome": "deployed"}
    text = write(report)
    read = parse(text) if write is html_of else rendered(text)
    assert read.all("b") == []
    assert read.all("h1", "h2")[0].text.endswith("r13<b> is deployed")
