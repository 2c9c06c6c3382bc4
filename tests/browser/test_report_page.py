"""The page of a rollout in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.report_html import html_of
from tests.browser.chromium import Page, Tab, browser, installed
from tests.report import rollouts

pytestmark = pytest.mark.browser

PHONE, DESKTOP = 360, 1200

HOSTILE = "<script>window.ran = 1</script><img src='http://evil.example/x' onerror='ran = 1'>"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = installed()
    if program is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    with browser(program, tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind of rollout, by the kind's name."""
    folder = tmp_path_factory.mktemp("pages")
    found = {kind.__name__: kind(folder / kind.__name__)[0].html for kind in rollouts.KINDS}
    report = json.loads(found["a_deploy"].with_suffix(".json").read_text())
    gates = [
        json.loads(found["a_failed_gate"].with_name("0007").joinpath("gate-1.json").read_text())
    ]
    report.update(candidate=f"r13{HOSTILE}", warnings=[HOSTILE], logs={HOSTILE: [HOSTILE] * 50})
    report["steps"][0]["title"] = "unbroken" * 60
    found["hostile"] = folder / "hostile.html"
    found["hostile"].write_text(html_of(report, gates))
    return found


KINDS = [*(kind.__name__ for kind in rollouts.KINDS), "hostile"]


def too_wide(page: Page) -> Any:
    """Names of elements that reach beyond the window, those that scroll on their own left out."""
    return page.evaluate(
        """[...document.querySelectorAll('body *')]
        .filter(e => !e.closest('.scroll, pre, .hidden, .skip'))
        .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map(e => e.tagName + '.' + e.className)"""
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [320, PHONE, DESKTOP])
def test_a_page_fits_its_window_asks_nobody_and_complains_of_nothing(
    kind: str, width: int, tab: Tab, pages: dict[str, Path]
) -> None:
    page = tab.open(pages[kind], width=width, dark=width == DESKTOP)
    assert page.requests == [pages[kind].as_uri()]
    assert page.complaints == []
    scrolled, shown = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert scrolled <= shown == width
    assert too_wide(page) == []


@pytest.mark.parametrize("kind", ["a_deploy", "a_failed_gate"])
def test_with_everything_unfolded_a_page_still_fits_a_phone(
    kind: str, tab: Tab, pages: dict[str, Path]
) -> None:
    page = tab.open(pages[kind], width=PHONE)
    assert (
        page.evaluate("[...document.querySelectorAll('details')].map(e => e.open = true).length")
        > 5
    )
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    assert too_wide(page) == []


def test_the_tables_of_batch_sizes_fit_a_phone_without_scrolling(
    tab: Tab, pages: dict[str, Path]
) -> None:
    page = tab.open(pages["a_failed_gate"], width=PHONE)
    assert (
        page.evaluate(
            """[...document.querySelectorAll('.card > .scroll, .scroll:has(> .metrics)')]
        .map(e => e.scrollWidth <= e.clientWidth)"""
        )
        == [True] * 6
    )


def test_text_in_charts_is_large_enough_on_a_phone(tab: Tab, pages: dict[str, Path]) -> None:
    page = tab.open(pages["a_deploy"], width=PHONE)
    sizes = page.evaluate(
        """[...document.querySelectorAll('svg.chart')].filter(e => e.clientWidth)
        .map(e => 12 * e.getBoundingClientRect().width / e.viewBox.baseVal.width)"""
    )
    assert len(sizes) == 5
    assert min(sizes) >= 10.0


def colours(page: Page) -> Any:
    return page.evaluate(
        """[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('p.reason')).color,
        getComputedStyle(document.querySelector('.chart .candidate')).stroke]"""
    )


def test_the_page_follows_the_wish_for_dark_or_light(tab: Tab, pages: dict[str, Path]) -> None:
    light = colours(tab.open(pages["a_deploy"], width=DESKTOP, dark=False))
    dark = colours(tab.open(pages["a_deploy"], width=DESKTOP, dark=True))
    assert light == ["rgb(255, 255, 255)", "rgb(27, 33, 39)", "rgb(10, 99, 201)"]
    assert dark == ["rgb(18, 22, 27)", "rgb(230, 234, 238)", "rgb(111, 177, 255)"]


def test_everything_that_unfolds_works_by_keyboard(tab: Tab, pages: dict[str, Path]) -> None:
    page = tab.open(pages["a_deploy"], width=DESKTOP)
    page.press("Tab", 9)
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    reached = set()
    for _ in range(60):
        page.press("Tab", 9)
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            reached.add(page.evaluate("document.activeElement.textContent"))
    every = page.evaluate("[...document.querySelectorAll('summary')].map(e => e.textContent)")
    assert reached == set(every)
    page.evaluate("document.querySelector('summary').focus()")
    page.press("Enter", 13)
    assert page.evaluate("document.querySelector('details').open") is True


def test_a_screen_reader_is_told_the_name_of_every_chart(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["a_deploy"], width=DESKTOP)
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        node["name"]["value"]
        for node in tree
        if node.get("role", {}).get("value") in ("image", "img") and not node["ignored"]
    ]
    assert len(named) == 5
    assert named[0].startswith("Change of p50, batch size 1 new against old: ")


def test_hostile_text_is_shown_and_does_nothing(tab: Tab, pages: dict[str, Path]) -> None:
    page = tab.open(pages["hostile"], width=DESKTOP)
    assert page.evaluate("typeof window.ran") == "undefined"
    assert page.evaluate("document.querySelector('h1').innerText") == f"r13{HOSTILE} is deployed"


def test_even_markup_that_got_through_could_not_act(
    tab: Tab, pages: dict[str, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    text = pages["a_deploy"].read_text()
    broken.write_text(text.replace("<main", f"{HOSTILE}<style>body {{ color: red }}</style><main"))
    page = tab.open(broken, width=DESKTOP)
    assert page.evaluate("typeof window.ran") == "undefined"
    assert page.requests == [broken.as_uri(), "http://evil.example/x"]
    assert page.blocked == ["csp"]
    assert page.evaluate("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    assert len(page.complaints) >= 3
