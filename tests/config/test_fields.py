"""Settings classes behave as the frozen dataclasses that they are declared to be."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from opsctl.config.fields import Section, key, section
from opsctl.config.settings import CanaryStage, Environment, Retention


@section
class Shelf(Section):
    """A class with a required key, a default and a factory."""

    width: int = key(doc="Width.")
    colour: str = key("white", doc="Colour.")
    books: list[str] = key(factory=list, doc="Books.")


def test_values_are_given_by_place_or_by_name_and_defaults_fill_the_rest() -> None:
    assert vars(Shelf(3)) == {"width": 3, "colour": "white", "books": []}
    assert Shelf(3, "red") == Shelf(colour="red", width=3)
    assert Shelf(3).books is not Shelf(3).books


@pytest.mark.parametrize(
    ("values", "named", "told"),
    [
        ((), {}, "Shelf needs width"),
        ((1, "red", [], 4), {}, "Shelf: a value is given twice, or one too many"),
        ((1,), {"width": 2}, "Shelf: a value is given twice, or one too many"),
        ((1,), {"depth": 2}, "Shelf has no depth"),
    ],
)
def test_wrong_arguments_are_refused(
    values: tuple[Any, ...], named: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError) as caught:
        Shelf(*values, **named)
    assert str(caught.value) == told


def test_nothing_can_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Shelf(1).width = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Shelf(1).width


def test_equal_values_are_equal_and_hash_the_same() -> None:
    assert CanaryStage(5) == CanaryStage(weight=5)
    assert len({CanaryStage(5), CanaryStage(5), CanaryStage(6)}) == 2
    assert CanaryStage(5) != Retention(5)
    assert Environment() == Environment()


def test_the_tools_for_dataclasses_and_copies_work() -> None:
    stage = CanaryStage(5, hold_s=2.0)
    assert dataclasses.replace(stage, weight=7) == CanaryStage(7, hold_s=2.0)
    assert dataclasses.asdict(stage) == {"weight": 5, "hold_s": 2.0, "approval": False}
    assert copy.deepcopy(stage) == pickle.loads(pickle.dumps(stage)) == stage
    assert repr(stage) == "CanaryStage(weight=5, hold_s=2.0, approval=False)"
