"""How one key of opsctl.yaml is declared: type from the annotation, the rest from `key(...)`.

Settings classes are frozen dataclasses in all but one thing: their methods are shared instead of
generated for each class, because generating them took half of the time to import `load`
(every `opsctl status` pays it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, dataclass_transform

METADATA_KEY = "opsctl"


_T = TypeVar("_T")


class Section:
    """Base of the settings classes: construction, equality and refusal to change."""

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # each subclass is a dataclass
        given = dict(zip((field.name for field in fields), values, strict=False))
        if len(values) > len(fields) or not given.keys().isdisjoint(named):
            raise TypeError(f"{type(self).__name__}: a value is given twice, or one too many")
        given |= named
        for field in fields:
            object.__setattr__(self, field.name, _value(field, given, type(self).__name__))
        if given:
            raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot assign to {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot delete {name}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({values})"


def _value(field: dataclasses.Field[Any], given: dict[str, Any], owner: str) -> Any:
    """Takes the field's value out of `given`, else its default."""
    if field.name in given:
        return given.pop(field.name)
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise TypeError(f"{owner} needs {field.name}")


@dataclass_transform(frozen_default=True)
def section(cls: type[_T]) -> type[_T]:
    """Make a subclass of Section a dataclass whose methods are those of Section."""
    return dataclasses.dataclass(init=False, repr=False, eq=False)(cls)


class KeyInfo:
    """What validation, schema, documentation and the reference file need to know of a key."""

    __slots__ = ("choices", "doc", "example", "high", "low")

    def __init__(
        self,
        doc: str,
        example: Any = None,
        low: float | None = None,
        high: float | None = None,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.doc = doc
        self.example = example
        self.low = low
        self.high = high
        self.choices = choices


def key(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    factory: Callable[[], Any] | None = None,
    example: Any = None,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a key: `doc` is one sentence; without default or factory the key is required."""
    metadata = {METADATA_KEY: KeyInfo(doc, example, low, high, choices)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def info(field: dataclasses.Field[Any]) -> KeyInfo:
    """The declaration of a settings field."""
    declared: KeyInfo = field.metadata[METADATA_KEY]
    return declared
