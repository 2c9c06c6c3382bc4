"""Files that can't be read as one map of a sane size end at once, with the place."""

from __future__ import annotations

import pytest

from tests.config.conftest import Told


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        (b"", 1, "the file is empty; `opsctl init` writes one to start from"),
        (b"- a\n", 1, "found a list; allowed: a map that begins with `services:`"),
        (b"a: 1\n---\nb: 1\n", 2, "a second document begins; one is allowed"),
        ("a: 1\n".encode("utf-16"), 1, "the file is UTF-16 or UTF-32; save it as UTF-8"),
        (b"a: 1\nb: \xe9\n", 2, "byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (
            b"a: 1\nb: \0\n",
            2,
            "character U+0000 is not allowed in YAML; is the file UTF-16? Save it as UTF-8",
        ),
        (b"a: \x1b[31m\n", 1, "character U+001B is not allowed in YAML"),
        (b"# " + b"x" * 1024 * 1024, 1, "the file is larger than 1024 KiB"),
    ],
)
def test_files_that_are_no_yaml_map_of_a_sane_size_are_refused(
    told: Told, data: bytes, line: int, what: str
) -> None:
    assert told(data) == [(line, "", what)]


def test_a_tab_in_the_indentation_is_called_by_its_name(told: Told) -> None:
    assert told("services:\n  web:\n\tapp: {}\n")[0][2] == (
        "a tab stands in the indentation; YAML allows spaces only"
    )


def test_cycles_and_alias_bombs_end_at_once(told: Told) -> None:
    assert told("services: &a {x: *a}\n") == [
        (1, "services.x", "alias *a stands inside of itself (a cycle)")
    ]
    bomb = "a: &a [" + "x, " * 30 + "]\n"
    bomb += "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [" + f"*{chr(97 + n)}, " * 30 + "]\n" for n in range(8)
    )
    assert told(bomb) == [(4, "d", "holds more than 50000 values (aliases counted as written out)")]


def test_deep_nesting_ends_at_once(told: Told) -> None:
    assert told("services: " + "[" * 40 + "]" * 40)[0][2] == "nested deeper than 32 levels"
