"""How one key of opsctl.yaml is declared: type from the annotation, the rest from `key(...)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

METADATA_KEY = "opsctl"


@dataclasses.dataclass(frozen=True)
class KeyInfo:
    """What validation, schema, documentation and the reference file need to know of a key."""

    doc: str
    example: Any = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


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
