"""Values written as YAML that reads back the same in YAML 1.1 and 1.2, and as plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from opsctl.config.fields import Section
from opsctl.config.scalars import resolve

_PLAIN = r"[A-Za-z_/.][A-Za-z0-9_./*@%+-]*( [A-Za-z0-9_./@%+-]+)*"
"""Texts that need no quotes anywhere, flow lists included."""

LARGEST_IN_DIGITS = 1e15
SMALLEST_IN_DIGITS = 1e-9

_READ_OTHERWISE = frozenset(("y", "Y", "n", "N"))
"""Booleans to strict YAML 1.1 readers."""


def plain(value: Any) -> Any:
    """Settings as JSON has them: sections are maps, tuples are lists."""
    if isinstance(value, Section):
        return {name: plain(inner) for name, inner in vars(value).items()}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def flow(value: Any) -> str:
    """A plain value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def block(value: Any) -> list[str]:
    """A plain value as indented lines; maps and lists that hold no others stay on one line."""
    if isinstance(value, Mapping) and value:
        lines: list[str] = []
        for name, inner in value.items():
            lines += under(f"{flow(name)}:", inner)
        return lines
    if isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        lines = []
        for item in value:
            lines += as_item(block(item))
        return lines
    return [flow(value)]


def under(head: str, value: Any) -> list[str]:
    """`head` followed by a value: on the same line, or indented below it."""
    if nests(value):
        return [head, *indented(block(value))]
    return [f"{head} {flow(value)}"]


def nests(value: Any) -> bool:
    """Whether a plain value takes lines of its own."""
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value)


def indented(lines: list[str], by: str = "  ") -> list[str]:
    """The lines moved to the right."""
    return [by + line if line else line for line in lines]


def as_item(lines: list[str]) -> list[str]:
    """The lines as one item of a list; comments before its first key come before the dash."""
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    rest = indented(lines[first + 1 :])
    return [*lines[:first], f"- {lines[first]}", *rest]


def _text(value: str) -> str:
    safe = re.fullmatch(_PLAIN, value) and value not in _READ_OTHERWISE
    if safe:
        resolved = resolve(value, False)
        if resolved.value == value and not resolved.oddity:
            return value
    # JSON's escapes are YAML's too; only a lone DEL and C1 controls differ, and \u covers them.
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff]",
        lambda match: f"\\u{ord(match.group()):04x}",
        json.dumps(value, ensure_ascii=False),
    )


def _number(value: float) -> str:
    """In digits as far as they stay readable; the exponent's form is one that YAML 1.1 knows."""
    if value == int(value) and abs(value) < LARGEST_IN_DIGITS:
        return str(int(value))
    if SMALLEST_IN_DIGITS <= abs(value) < LARGEST_IN_DIGITS:
        return format(Decimal(repr(value)), "f")
    mantissa, exponent, power = repr(value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"
