"""Whatever a file holds, reading it ends in settings or in ConfigError; nothing else, ever."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from opsctl.config import placeholders, settings
from opsctl.config.convert import Converter
from opsctl.config.load import Document, load_document
from opsctl.config.problems import Problems
from opsctl.config.source import read
from opsctl.config.yaml_text import block
from opsctl.errors import ConfigError
from tests.config.full import FULL_TEXT

FILE: Path

calm = hypothesis.settings(deadline=None)
"""Time says nothing here: the machine runs other tests beside these."""


@pytest.fixture(scope="module", autouse=True)
def one_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One file for all examples; each overwrites it."""
    global FILE
    FILE = tmp_path_factory.mktemp("config") / "opsctl.yaml"


READ_OTHERWISE = r"[0-9]:[0-9]|[0-9]{4}-[0-9]|[0-9][eE]|=|(?m:^ *y$)"
"""Times, dates and exponents, which YAML 1.1 reads in its own way."""


def outcome(data: bytes) -> Document | ConfigError:
    """What reading the bytes ends in."""
    FILE.write_bytes(data)
    try:
        return load_document(FILE)
    except ConfigError as error:
        return error


@calm
@given(st.binary(max_size=300))
@example(b"\xff\xfe")
@example(b"%YAML 9.9\n---\na: b\n")
@example(b"? - a\n: - b\n")
@example(b"!<tag:yaml.org,2002:str> a: b")
@example(b"&a : *a")
@example(b"*a : b")
@example(b"services: {<<: {<<: 1}}")
def test_any_bytes_are_refused_with_a_place(data: bytes) -> None:
    told = outcome(data)
    assert isinstance(told, ConfigError)
    assert told.what.startswith(f"{FILE}:")


@calm
@given(st.text(max_size=300))
def test_any_text_is_refused_with_a_place(text: str) -> None:
    told = outcome(text.encode("utf-8", "surrogatepass"))
    assert isinstance(told, ConfigError)
    assert told.what.startswith(f"{FILE}:")


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEY_NAMES = st.sampled_from(sorted({f.name for f in dataclasses.fields(settings.Service)}))


@calm
@given(st.dictionaries(KEY_NAMES, JSON_LIKE, max_size=4))
def test_right_keys_with_any_values_are_taken_or_refused(values: dict[str, Any]) -> None:
    service = {"app": {"directory": "a", "command": ["x"]}, **values}
    text = yaml.safe_dump({"services": {"web": service}}, allow_unicode=True)
    assert isinstance(outcome(text.encode()), Document | ConfigError)


@calm
@given(
    at=st.integers(0, len(FULL_TEXT)),
    length=st.integers(0, 40),
    piece=st.sampled_from(["", "\n", "  ", "- ", ": ", "*a", "&a ", "{", "[", "'", "<<: ", "!!x ",
                           "|", ">", "#", "?", "\t", "~", "0", "}"])
    | st.text(max_size=5),
)  # fmt: skip
def test_a_good_file_with_one_stain_is_taken_or_refused(at: int, length: int, piece: str) -> None:
    stained = FULL_TEXT[:at] + piece + FULL_TEXT[at + length :]
    told = outcome(stained.encode("utf-8", "surrogatepass"))
    if isinstance(told, ConfigError):
        assert told.what.startswith(f"{FILE}:")
    elif not re.search(READ_OTHERWISE, stained):
        problems = Problems("opsctl.yaml")
        # The scanner is the same, what is made of its events is not.
        elsewhere = yaml.load(stained, Loader=yaml.CSafeLoader)
        assert Converter(problems).plain(read(FILE, problems)) == elsewhere


@calm
@given(st.dictionaries(st.text(max_size=10), JSON_LIKE, min_size=1))
def test_what_is_written_as_yaml_reads_back_the_same_here_and_elsewhere(
    data: dict[str, Any],
) -> None:
    text = "\n".join(block(data)) + "\n"
    assert yaml.safe_load(text) == data
    FILE.write_text(text)
    problems = Problems("opsctl.yaml")
    nul = "\0" in str(data) or any("\0" in key for key in data)
    if not nul and "\\x00" not in repr(data):
        assert Converter(problems).plain(read(FILE, problems)) == data
        assert len(problems) == 0


@calm
@given(st.text(max_size=30))
def test_any_argument_with_doubled_braces_is_taken_as_it_is(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert placeholders.names(doubled) == ()
    assert placeholders.fill(doubled, {}) == text


@calm
@given(st.lists(st.sampled_from(placeholders.KNOWN)), st.text("ab {}", max_size=10))
def test_placeholders_are_found_in_order_and_filled(names: list[str], between: str) -> None:
    text = between.replace("{", "{{").replace("}", "}}")
    argument = text + "".join(f"{{{name}}}{text}" for name in names)
    assert placeholders.names(argument) == tuple(names)
    values = {name: f"<{name}>" for name in placeholders.KNOWN}
    assert placeholders.fill(argument, values) == between + "".join(
        f"<{name}>{between}" for name in names
    )
