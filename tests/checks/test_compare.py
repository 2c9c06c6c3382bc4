"""What counts as the expected answer, and how a difference is told."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsctl.checks.compare import at_path, mismatches, shape_of
from opsctl.config.settings import JsonExpectation

ANSWER = {"predictions": [{"score": 0.25, "label": "ok"}, {"score": 0.75, "label": "bad"}]}


def told(answer: Any, path: str, equals: Any = None, **more: Any) -> list[str]:
    return [str(one) for one in mismatches(answer, [JsonExpectation(path, equals, **more)])]


@pytest.mark.parametrize(
    ("path", "equals", "tolerance"),
    [
        ("predictions.0.score", 0.25, 0.0),
        ("predictions.0.score", 0.26, 0.0101),
        ("predictions.1.label", "bad", 0.0),
        ("predictions.0", {"label": "ok", "score": 0.25}, 0.0),
        ("predictions", ANSWER["predictions"], 0.0),
        ("predictions.0.score", None, 0.0),
    ],
)
def test_right_values_are_no_mismatch(path: str, equals: Any, tolerance: float) -> None:
    assert told(ANSWER, path, equals, tolerance=tolerance) == []


@pytest.mark.parametrize(
    ("answer", "path", "equals", "tolerance", "line"),
    [
        (ANSWER, "predictions.0.score", 0.251, 1e-4,
         "predictions.0.score: expected 0.251 ± 0.0001, got 0.25"),
        (ANSWER, "predictions.1.label", "ok", 0.0,
         "predictions.1.label: expected 'ok', got 'bad'"),
        (ANSWER, "predictions.0.score", "0.25", 0.0,
         "predictions.0.score: expected text '0.25', got number 0.25"),
        ({"x": True}, "x", 1, 0.0, "x: expected number 1, got boolean True"),
        ({"x": None}, "x", 1, 0.0, "x: expected number 1, got null None"),
        ({"x": [1]}, "x", 1, 0.0, "x: expected number 1, got list [1]"),
        ({"x": math.nan}, "x", 1, 9e9, "x: expected 1 ± 9e+09, got nan"),
        ({"x": math.nan}, "x", math.nan, 0.0, "x: expected nan, got nan"),
        ({"x": math.inf}, "x", 1, 9e9, "x: expected 1 ± 9e+09, got inf"),
        ({"x": 10**400}, "x", 0.5, 9e9, f"x: expected 0.5 ± 9e+09, got 1{'0' * 198}…"),
        ({"x": [1, 2]}, "x", [1, 2, 3], 0.0, "x: expected a list of 3, got a list of 2"),
        ({"x": [1, [2, 4]]}, "x", [1, [2, 3]], 0.5, "x.1.1: expected 3 ± 0.5, got 4"),
        ({"x": {"a": 1, "c": 2}}, "x", {"a": 1}, 0.0, "x.c: expected nothing, got 2"),
        ({"x": {}}, "x", {"a": 1}, 0.0, "x.a: expected 1, got nothing"),
        (ANSWER, "predictions.2", 1, 0.0,
         "predictions.2: expected a value, got nothing (predictions is a list of 2)"),
        ({"p": {"score": 1}}, "p.scores", 1, 0.0,
         "p.scores: expected a value, got nothing (p has the keys score)"),
        (ANSWER, "outputs", 1, 0.0,
         "outputs: expected a value, got nothing (the answer has the keys predictions)"),
        (ANSWER, "predictions.0.score.x", 1, 0.0,
         "predictions.0.score.x: expected a value, got nothing (predictions.0.score is 0.25)"),
        ([], "0", 1, 0.0, "0: expected a value, got nothing (the answer is a list of 0)"),
    ],
)  # fmt: skip
def test_a_difference_is_told_with_place_expectation_and_value(
    answer: Any, path: str, equals: Any, tolerance: float, line: str
) -> None:
    assert told(answer, path, equals, tolerance=tolerance) == [line]


def test_infinity_equals_infinity() -> None:
    assert told({"x": math.inf}, "x", math.inf) == []


def test_large_integers_are_compared_exactly() -> None:
    assert told({"x": 2**53 + 1}, "x", 2**53) == [
        "x: expected 9007199254740992, got 9007199254740993"
    ]


def test_only_the_first_differences_are_listed() -> None:
    lines = told({"x": [0] * 100}, "x", [1] * 100)
    assert lines[:5] == [f"x.{index}: expected 1, got 0" for index in range(5)]
    assert lines[5:] == ["x: expected no more differences, got there are more"]


def test_a_wrong_shape_is_told() -> None:
    assert told({"x": [[1, 2], [3, 4]]}, "x", shape=(2, 2)) == []
    assert told({"x": [[1, 2], [3, 4]]}, "x", shape=(2, 3)) == [
        "x: expected shape [2, 3], got shape [2, 2]"
    ]
    assert told({"x": [[1], [3, 4]]}, "x", shape=(2, 1)) == [
        "x: expected shape [2, 1], got rows of different lengths"
    ]
    assert told({"x": 1.5}, "x", shape=()) == []
    assert told({"x": [1.5]}, "x", shape=()) == ["x: expected shape [], got shape [1]"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_shapes_are_those_that_numpy_gives(lengths: list[int]) -> None:
    array = numpy.zeros(lengths)
    assert shape_of(array.tolist()) == array.shape


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: value is not None)


@given(json_values)
def test_every_json_value_equals_itself_after_a_journey(value: Any) -> None:
    assert told({"x": json.loads(json.dumps(value))}, "x", value) == []


@given(json_values, json_values)
def test_two_values_match_exactly_when_their_spelling_is_the_same(one: Any, other: Any) -> None:
    same = _plain(one) == _plain(other)
    assert (told({"x": other}, "x", one) == []) is same


def _plain(value: Any) -> Any:
    """The value with types that Python's == keeps apart (1 == True, but not here)."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def test_list_items_are_reached_by_number_and_keys_by_name() -> None:
    assert at_path({"a": [{"0": "zero"}]}, "a.0.0") == "zero"
