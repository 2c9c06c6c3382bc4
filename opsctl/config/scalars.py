"""Plain YAML scalars, read as people mean them: YAML 1.2's core types, surprises of 1.1 refused."""

from __future__ import annotations

import math
import re

Value = str | int | float | bool | None

DIGITS_MAX = 18
"""Digits of a whole number: what fits a signed 64-bit value."""

_NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = r"[-+]?(0|[1-9][0-9]*)"
_FLOAT = r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?"
_OTHER_BASE = r"[-+]?(0[xX][0-9a-fA-F_]+|0o[0-7]+|0b[01_]+|0[0-9_]+|[1-9][0-9]*_[0-9_]+)"
_SPECIAL = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False,
             "FALSE": False}  # fmt: skip
_OLD_BOOLEANS = {
    word: meaning
    for words, meaning in (("yes on", "true"), ("no off", "false"))
    for lower in words.split()
    for word in (lower, lower.capitalize(), lower.upper())
}


class Resolved:
    """A scalar's value, and in `oddity` why it is refused wherever it stands (mostly empty)."""

    __slots__ = ("oddity", "value")

    def __init__(self, value: Value, oddity: str = "") -> None:
        self.value = value
        self.oddity = oddity


def resolve(text: str, quoted: bool) -> Resolved:
    """The value of a scalar; quoted ones are always text."""
    if quoted:
        return Resolved(text, _unwritable(text))
    if text in _NULLS:
        return Resolved(None)
    if text in _BOOLEANS:
        return Resolved(_BOOLEANS[text])
    if text in _OLD_BOOLEANS:
        return Resolved(
            text,
            f"is a boolean in YAML 1.1 and text in YAML 1.2: write {_OLD_BOOLEANS[text]}, or"
            f' "{text}" in quotes for text',
        )
    if text[0] not in _NUMBER_STARTS:
        return Resolved(text, _unwritable(text))
    if re.fullmatch(_INTEGER, text):
        return _integer(text)
    if re.fullmatch(_FLOAT, text):
        return _float(text)
    if re.fullmatch(_SPECIAL, text):
        return Resolved(text, "is no finite number")
    if re.fullmatch(_OTHER_BASE, text):
        return Resolved(
            text,
            "is a different number to different YAML readers: write it in plain decimal digits,"
            " or in quotes for text",
        )
    return Resolved(text, _unwritable(text))


def _integer(text: str) -> Resolved:
    if len(text.lstrip("+-")) > DIGITS_MAX:
        return Resolved(0, f"is a whole number of more than {DIGITS_MAX} digits")
    return Resolved(int(text))


def _float(text: str) -> Resolved:
    value = float(text)
    return Resolved(value) if math.isfinite(value) else Resolved(0.0, "is no finite number")


def _unwritable(text: str) -> str:
    """Why a text could never reach a process or a file; empty when it can."""
    if "\0" in text:
        return "has a NUL character inside"
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "has half of a surrogate pair inside"
    return ""


def described(value: Value) -> str:
    """What kind of value was found, for messages."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "text"
    return "a number"
