"""All keys of opsctl.yaml, walked from the declared settings: for docs, schema and tests."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from opsctl.config import fields
from opsctl.config.convert import (
    allowed,
    fields_of,
    is_required,
    is_settings,
    options_of,
    types_of,
)
from opsctl.config.fields import KeyInfo, Section
from opsctl.config.problems import nearest, shown
from opsctl.config.settings import Config, Service
from opsctl.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Key:
    """One key: where it is declared, what it takes."""

    path: str
    """Dotted, without the names of services and environments: `services.gate.alpha`."""
    owner: type[Section]
    field: dataclasses.Field[Any]
    wanted: Any
    """The declared type."""

    @property
    def name(self) -> str:
        """Its last part."""
        return self.field.name

    @property
    def info(self) -> KeyInfo:
        """Its meaning and limits."""
        return fields.info(self.field)

    @property
    def required(self) -> bool:
        """Whether the file must set it."""
        return is_required(self.field)

    @property
    def default(self) -> Any:
        """The default value; None for a required key."""
        if self.field.default is not dataclasses.MISSING:
            return self.field.default
        if self.field.default_factory is not dataclasses.MISSING:
            return self.field.default_factory()
        return None

    @property
    def takes(self) -> str:
        """What it takes, in words."""
        return allowed(self.wanted, self.info)

    @property
    def section(self) -> type[Section] | None:
        """The settings class of its value, of the items of its list or of its map's values."""
        return section_in(self.wanted)

    @property
    def container(self) -> str:
        """How that section stands in the key: `one`, `list` or `map`."""
        for option in options_of(self.wanted):
            if typing.get_origin(option) is tuple:
                return "list"
            if typing.get_origin(option) is Mapping:
                return "map"
        return "one"


def section_in(wanted: Any) -> type[Section] | None:
    """The settings class inside a type, if there is one."""
    for option in options_of(wanted):
        if is_settings(option):
            found: type[Section] = option
            return found
        arguments = [a for a in typing.get_args(option) if a not in (Ellipsis, types.NoneType)]
        if arguments and is_settings(arguments[-1]):
            inner: type[Section] = arguments[-1]
            return inner
    return None


def keys_of(section: type[Section], path: str = "") -> tuple[Key, ...]:
    """The keys that stand directly in a section."""
    prefix = f"{path}." if path else ""
    return tuple(
        Key(f"{prefix}{name}", section, field, types_of(section)[name])
        for name, field in fields_of(section).items()
    )


def walk(section: type[Section] = Config, path: str = "") -> Iterator[Key]:
    """Every key below a section, each section's own first."""
    for key in keys_of(section, path):
        yield key
        if key.section:
            yield from walk(key.section, key.path)


def find(path: str) -> Key:
    """The key of a path as users write it: full, with or without names and list indices, or from
    the service on (`gate.alpha`). Raises ConfigError with the nearest one.
    """
    key = _find(path)
    if key:
        return key
    asked = ".".join(_parts(path))
    known = [key.path.removeprefix("services.") for key in walk()]
    near = nearest(asked, known)
    raise ConfigError(
        f'there is no key "{shown(path)}" in opsctl.yaml',
        why=f'the nearest one is "{near}"' if near else "",
        next_step=f"Run: opsctl config docs {near}".rstrip(),
    )


def nearest_documented(path: str) -> str:
    """The argument of `opsctl config docs` for a path of a file, right or wrong: the longest part
    of it that is a key; empty for the file as a whole.
    """
    parts = path.split(".")
    while parts and parts != [""]:
        key = _find(".".join(parts))
        if key:
            return key.path.removeprefix("services.")
        parts.pop()
    return ""


def _find(path: str) -> Key | None:
    parts = _parts(path)
    return _descend(Service, "services", parts) or _descend(Config, "", parts)


def _parts(path: str) -> list[str]:
    """The key's parts from the service on, or from the file on for other keys."""
    parts = [part.split("[")[0] for part in path.split(".")]
    if parts[0] == "environments" and parts[2:3] == ["overrides"] and len(parts) > 4:
        return parts[4:]
    return parts[2:] if parts[0] == "services" and len(parts) > 2 else parts


def _descend(section: type[Section], path: str, parts: list[str]) -> Key | None:
    here = {key.name: key for key in keys_of(section, path)}
    key = here.get(parts[0])
    if key is None or len(parts) == 1:
        return key
    if key.section is None:
        return None
    rest = parts[1:]
    if key.container == "map" and rest[0] not in fields_of(key.section):
        rest = rest[1:]  # a name that the user chose
    return _descend(key.section, key.path, rest) if rest else key
