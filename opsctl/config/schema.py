"""opsctl.yaml as JSON Schema (draft 2020-12), made from the declared settings: for editors."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from opsctl.config.convert import is_settings
from opsctl.config.fields import KeyInfo, Section
from opsctl.config.keys import Key, keys_of
from opsctl.config.relations import NAME
from opsctl.config.settings import Config, SecretSource, Service, SmokeTest
from opsctl.config.yaml_text import plain
from opsctl.model import Json

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_EXACTLY_ONE: dict[type[Section], tuple[str, ...]] = {
    SecretSource: ("env", "file", "command"),
    SmokeTest: ("path", "run"),
}
"""Sections where exactly one of these keys must be set."""

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PARTIAL = "Override"
"""Ending of the definitions in which no key is required: those of environments' overrides."""


def schema() -> Json:
    """The schema of the whole file. What relates several keys is checked by `load` alone."""
    definitions: Json = {}
    root = _section(Config, definitions, partial=False)
    overrides = definitions["Environment"]["properties"]["overrides"]
    overrides["additionalProperties"] = _reference(Service, definitions, partial=True)
    for names in ("services", "environments"):
        root["properties"][names]["propertyNames"] = {"pattern": f"^{NAME}$"}
        root["properties"][names]["minProperties"] = 1
    return {"$schema": DIALECT, "title": "opsctl.yaml", **root, "$defs": definitions}


def _section(section: type[Section], definitions: Json, *, partial: bool) -> Json:
    keys = keys_of(section)
    result: Json = {
        "type": "object",
        "description": (section.__doc__ or "").strip(),
        "properties": {key.name: _key(key, definitions, partial=partial) for key in keys},
        "additionalProperties": False,
    }
    required = [key.name for key in keys if key.required and not partial]
    if required:
        result["required"] = required
    if section in _EXACTLY_ONE:
        result["oneOf"] = [{"required": [name]} for name in _EXACTLY_ONE[section]]
    return result


def _key(key: Key, definitions: Json, *, partial: bool) -> Json:
    described: Json = {"description": key.info.doc}
    if not key.required:
        described["default"] = plain(key.default)
    if key.info.example is not None:
        described["examples"] = [plain(key.info.example)]
    return {**_value(key.wanted, key.info, definitions, partial=partial), **described}


def _value(wanted: Any, info: KeyInfo, definitions: Json, *, partial: bool) -> Json:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        options = [_value(one, info, definitions, partial=partial) for one in arguments]
        return {"anyOf": options}
    if wanted is types.NoneType:
        return {"type": "null"}
    if is_settings(wanted):
        # A secret's source is replaced as a whole by an override, so it stays complete there.
        return _reference(wanted, definitions, partial=partial and wanted is not SecretSource)
    if origin is tuple:
        item = _value(arguments[0], info, definitions, partial=False)
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": item}
        count = len(arguments)
        return {"type": "array", "items": item, "minItems": count, "maxItems": count}
    if origin is Mapping:
        inner = _value(arguments[1], info, definitions, partial=partial)
        return {"type": "object", "additionalProperties": inner}
    return _scalar(wanted, info)


def _scalar(wanted: Any, info: KeyInfo) -> Json:
    if wanted is Any:
        return {}
    result: Json = {"type": _TYPES[wanted]}
    if wanted is str and info.choices:
        result["enum"] = list(info.choices)
    if wanted in (int, float):
        if info.low is not None:
            result["minimum"] = info.low
        if info.high is not None:
            result["maximum"] = info.high
    return result


def _reference(section: type[Section], definitions: Json, *, partial: bool) -> Json:
    name = section.__name__ + (_PARTIAL if partial else "")
    if name not in definitions:
        definitions[name] = {}  # stands already while its own keys are made
        definitions[name] = _section(section, definitions, partial=partial)
    return {"$ref": f"#/$defs/{name}"}
