"""Colours of the page: readable by people with weak eyes, light and dark.

WCAG 2.2: text needs a contrast of 4.5 : 1 (1.4.3), curves and frames 3 : 1 (1.4.11).
"""

from __future__ import annotations

import re

import pytest

from opsctl.report_html.page import TEMPLATES

TEXT = ("text", "quiet", "good", "bad", "open", "link")
GRAPHICS = ("line", "old", "new", "good", "bad", "open")
GROUNDS = ("page", "card")


def themes() -> dict[str, dict[str, str]]:
    style = (TEMPLATES / "page.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return {
        name: dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for name, block in (("light", light), ("dark", dark))
    }


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2, definitions)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_formula_gives_the_known_ends_of_the_scale() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_and_every_curve_stands_out(theme: str) -> None:
    colours = themes()[theme]
    weak = {
        (name, ground): round(contrast(colours[name], colours[ground]), 2)
        for names, least in ((TEXT, 4.5), (GRAPHICS, 3.0))
        for name in names
        for ground in GROUNDS
        if contrast(colours[name], colours[ground]) < least
    }
    assert weak == {}


def test_dark_and_light_have_the_same_names() -> None:
    both = themes()
    assert both["light"].keys() == both["dark"].keys()
    assert set(TEXT) | set(GRAPHICS) | set(GROUNDS) <= both["light"].keys()
