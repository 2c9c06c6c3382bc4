"""Pure: a JSON answer against the values it must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsctl.config.settings import JsonExpectation
from opsctl.model import Json

MISMATCHES_MAX = 5
"""Differences listed for one expectation; a wrong model differs in thousands of places."""

SHOWN_MAX = 200
"""Characters of a value that a message shows."""


@dataclass(frozen=True)
class Mismatch:
    """One place where the answer is not as expected; `tolerance` is set when numbers differ."""

    path: str
    expected: str
    got: str
    tolerance: float | None = None

    def __str__(self) -> str:
        within = f" ± {self.tolerance:g}" if self.tolerance else ""
        return f"{self.path}: expected {self.expected}{within}, got {self.got}"

    def to_dict(self) -> Json:
        return dict(self.__dict__)


class _Nothing:
    """What stands where there is nothing."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


def mismatches(answer: Any, expectations: Sequence[JsonExpectation]) -> tuple[Mismatch, ...]:
    """All differences (at most `MISMATCHES_MAX` for each expectation).

    An expectation without `equals` and `shape` asks only that there is something at its path.
    """
    found: list[Mismatch] = []
    for wanted in expectations:
        got = at_path(answer, wanted.path)
        if got is NOTHING:
            found.append(Mismatch(wanted.path, "a value", _around(answer, wanted.path)))
            continue
        found.extend(_shape_mismatch(wanted, got))
        if wanted.equals is not None:
            differences = _differences(wanted.path, wanted.equals, got, wanted.tolerance)
            found.extend(_first(differences, wanted.path))
    return tuple(found)


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path (list items by number), `NOTHING` when there is none."""
    for name in path.split("."):
        value = _child(value, name)
        if value is NOTHING:
            return NOTHING
    return value


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Lengths of nested lists, () for a scalar; None when rows differ in length."""
    if not isinstance(value, list):
        return ()
    if not value:
        return (0,)
    inner = {shape_of(item) for item in value}
    if len(inner) != 1:
        return None
    below = inner.pop()
    return None if below is None else (len(value), *below)


def _child(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name, NOTHING)
    if isinstance(value, list) and name.isdigit() and int(name) < len(value):
        return value[int(name)]
    return NOTHING


def _around(answer: Any, path: str) -> str:
    """What is there instead, at the deepest place that exists."""
    here = answer
    walked: list[str] = []
    for name in path.split("."):
        below = _child(here, name)
        if below is NOTHING:
            break
        here, walked = below, [*walked, name]
    place = ".".join(walked) or "the answer"
    if isinstance(here, Mapping):
        return _short(f"nothing ({place} has the keys {', '.join(map(str, here)) or 'none'})")
    if isinstance(here, list):
        return f"nothing ({place} is a list of {len(here)})"
    return f"nothing ({place} is {_shown(here)})"


def _shape_mismatch(wanted: JsonExpectation, got: Any) -> Iterator[Mismatch]:
    if wanted.shape is None:
        return
    shape = shape_of(got)
    if shape != tuple(wanted.shape):
        said = "rows of different lengths" if shape is None else f"shape {list(shape)}"
        yield Mismatch(wanted.path, f"shape {list(wanted.shape)}", said)


def _differences(path: str, expected: Any, got: Any, tolerance: float) -> Iterator[Mismatch]:
    if _kind(expected) != _kind(got):
        yield Mismatch(path, _typed(expected), _typed(got))
    elif isinstance(expected, Mapping):
        for name in [*expected, *(name for name in got if name not in expected)]:
            yield from _item(
                f"{path}.{name}",
                expected.get(name, NOTHING),
                got.get(name, NOTHING),
                tolerance,
            )
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(got):
            yield Mismatch(path, f"a list of {len(expected)}", f"a list of {len(got)}")
            return
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from _differences(f"{path}.{index}", one, other, tolerance)
    elif not _equal(expected, got, tolerance):
        number = _kind(expected) == "number"
        yield Mismatch(path, _shown(expected), _shown(got), tolerance if number else None)


def _item(path: str, expected: Any, got: Any, tolerance: float) -> Iterator[Mismatch]:
    if expected is NOTHING or got is NOTHING:
        yield Mismatch(path, _shown(expected), _shown(got))
    else:
        yield from _differences(path, expected, got, tolerance)


def _equal(expected: Any, got: Any, tolerance: float) -> bool:
    if _kind(expected) != "number":
        return bool(expected == got)
    # NaN is what a broken model answers: it equals nothing, not even an expected NaN.
    if expected == got:
        return True
    try:
        return bool(abs(expected - got) <= tolerance)
    except OverflowError:
        # JSON knows integers that no float can hold.
        return False


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, (list, tuple)) else "object"


def _typed(value: Any) -> str:
    return f"{_kind(value)} {_shown(value)}"


def _shown(value: Any) -> str:
    return _short(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"


def _first(differences: Iterator[Mismatch], path: str) -> list[Mismatch]:
    found: list[Mismatch] = []
    for difference in differences:
        if len(found) == MISMATCHES_MAX:
            found.append(Mismatch(path, "no more differences", "there are more"))
            break
        found.append(difference)
    return found
