"""From nodes to the frozen settings, by the declared types; every problem is noted."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from opsctl.config import fields
from opsctl.config.fields import KeyInfo
from opsctl.config.nodes import ListNode, MapNode, Node, ScalarNode
from opsctl.config.problems import Problems, nearest, shown
from opsctl.config.relations import check_relations

_NO_LIMITS = KeyInfo(doc="")
KNOWN_KEYS_MAX = 20
"""Keys that a message lists at most."""


class Invalid:
    """Stands for a value that could not be read; its problem is noted already."""


INVALID = Invalid()


_TYPES: dict[type, dict[str, Any]] = {}
_FIELDS: dict[type, dict[str, dataclasses.Field[Any]]] = {}


def types_of(settings: type) -> dict[str, Any]:
    """The resolved types of a settings class's keys."""
    if settings not in _TYPES:
        _TYPES[settings] = typing.get_type_hints(settings)
    return _TYPES[settings]


def fields_of(settings: type) -> dict[str, dataclasses.Field[Any]]:
    """The keys of a settings class by name."""
    if settings not in _FIELDS:
        _FIELDS[settings] = {field.name: field for field in dataclasses.fields(settings)}
    return _FIELDS[settings]


def is_settings(wanted: Any) -> bool:
    """Whether a type is a settings class (a nested section)."""
    return isinstance(wanted, type) and dataclasses.is_dataclass(wanted)


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a key has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def options_of(wanted: Any) -> tuple[Any, ...]:
    """The members of a union, or the type alone."""
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        return typing.get_args(wanted)
    return (wanted,)


def allowed(wanted: Any, info: KeyInfo = _NO_LIMITS) -> str:
    """What a key takes, in words."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in arguments if one is not types.NoneType]
        if set(rest) == {int, str} and info.choices:
            return f"{allowed(int, info)}, or {', '.join(info.choices)}"
        words = " or ".join(allowed(one, info) for one in rest)
        return f"{words}, or null" if len(rest) < len(arguments) else words
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"a list, each item {allowed(arguments[0], info)}"
        return f"a list of {len(arguments)} items, each {allowed(arguments[0], info)}"
    if origin is Mapping or is_settings(wanted):
        return "a map"
    if wanted is str:
        return f"one of {', '.join(info.choices)}" if info.choices else "text"
    if wanted in (int, float):
        return f"a {'whole ' if wanted is int else ''}number{_range(info)}"
    return {bool: "true or false", Any: "any value"}[wanted]


def _range(info: KeyInfo) -> str:
    if info.low is not None and info.low == info.high:
        return f": {info.low:g}"
    if info.low is not None and info.high is not None:
        return f" from {info.low:g} to {info.high:g}"
    if info.low is not None:
        return f" of at least {info.low:g}"
    return f" of at most {info.high:g}" if info.high is not None else ""


class Converter:
    """Reads nodes as typed values and notes what does not fit."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def convert(self, node: Node, wanted: Any, info: KeyInfo = _NO_LIMITS) -> Any:
        """The node's value as `wanted`, or INVALID."""
        options = options_of(wanted)
        if types.NoneType in options and node.is_null:
            return None
        options = tuple(one for one in options if one is not types.NoneType)
        if options == (Any,):
            return self.plain(node)
        origin = typing.get_origin(options[0])
        if origin is tuple and isinstance(node, ListNode):
            return self._tuple(node, typing.get_args(options[0]), info)
        if origin is Mapping and isinstance(node, MapNode):
            return self._mapping(node, typing.get_args(options[0])[1], info)
        if is_settings(options[0]) and isinstance(node, MapNode):
            return self.settings(node, options[0])
        if isinstance(node, ScalarNode):
            return self._scalar(node, options, wanted, info)
        return self._misfit(node, wanted, info)

    def settings(self, node: MapNode, wanted: type) -> Any:
        """A settings class from a map: unknown and missing keys, then relations between keys."""
        before = len(self._problems)
        known = fields_of(wanted)
        meant = set()
        for name, entry in node.entries.items():
            if name not in known:
                meant.add(nearest(name, known))
                self._problems.add(entry.line, entry.path, _unknown(name, wanted))
        for name, field in known.items():
            # A key that was only misspelt is told as such, and not as missing too.
            if name not in node.entries and is_required(field) and name not in meant:
                found = f"the required key is missing; allowed: {allowed(types_of(wanted)[name])}"
                self._problems.add(node.line, node.child_path(name), found)
        values = {
            name: self.convert(entry.node, types_of(wanted)[name], fields.info(known[name]))
            for name, entry in node.entries.items()
            if name in known
        }
        if len(self._problems) > before:
            return INVALID
        value = wanted(**values)
        check_relations(value, node, self._problems)
        return INVALID if len(self._problems) > before else value

    def plain(self, node: Node) -> Any:
        """Any value, as JSON has them."""
        if isinstance(node, MapNode):
            return {name: self.plain(entry.node) for name, entry in node.entries.items()}
        if isinstance(node, ListNode):
            return [self.plain(item) for item in node.items]
        resolved = node.resolved
        if resolved.oddity:
            self._problems.add(node.line, node.path, f"{shown(node.text)} {resolved.oddity}")
        return resolved.value

    def _tuple(self, node: ListNode, arguments: tuple[Any, ...], info: KeyInfo) -> Any:
        if arguments[-1] is not Ellipsis and len(node.items) != len(arguments):
            self._problems.add(
                node.line,
                node.path,
                f"found {len(node.items)} items; allowed: {len(arguments)} items",
            )
            return INVALID
        return tuple(self.convert(item, arguments[0], info) for item in node.items)

    def _mapping(self, node: MapNode, wanted: Any, info: KeyInfo) -> Any:
        return {
            name: self.convert(entry.node, wanted, info) for name, entry in node.entries.items()
        }

    def _scalar(
        self, node: ScalarNode, options: tuple[Any, ...], wanted: Any, info: KeyInfo
    ) -> Any:
        resolved = node.resolved
        if resolved.oddity:
            self._problems.add(
                node.line,
                node.path,
                f"{shown(node.text)} {resolved.oddity}; allowed: {allowed(wanted, info)}",
            )
            return INVALID
        value = resolved.value
        if type(value) is int and float in options and int not in options:
            value = float(value)
        if type(value) not in options or not _within(value, info):
            return self._misfit(node, wanted, info)
        return value

    def _misfit(self, node: Node, wanted: Any, info: KeyInfo) -> Invalid:
        what = f"found {node}; allowed: {allowed(wanted, info)}"
        if isinstance(node, ScalarNode):
            value = node.resolved.value
            if isinstance(value, str) and info.choices:
                near = nearest(value, info.choices)
                what += f' (did you mean "{near}"?)' if near else ""
            elif str in options_of(wanted) and not info.choices and value is not None:
                what += f' (write "{shown(node.text)}" in quotes)'
        elif isinstance(node, MapNode) and wanted is not Any:
            what += " (is the indentation right?)"
        self._problems.add(node.line, node.path, what)
        return INVALID


def _within(value: Any, info: KeyInfo) -> bool:
    """Whether a value keeps the key's limits: numbers the range, texts the choices."""
    if isinstance(value, str):
        return not info.choices or value in info.choices
    if isinstance(value, bool):
        return True
    low_ok = info.low is None or value >= info.low
    return low_ok and (info.high is None or value <= info.high)


def _unknown(name: str, settings: type) -> str:
    """The message for a key that a section does not have, with the right one if it can be told."""
    known = fields_of(settings)
    near = nearest(name, known)
    what = "unknown key"
    if near:
        return f'{what} (did you mean "{near}"?)'
    elsewhere = _place_of(name, settings)
    if elsewhere:
        return f'{what} here (did you mean "{elsewhere}"?)'
    listed = ", ".join(list(known)[:KNOWN_KEYS_MAX])
    return f"{what}; allowed: {listed}"


def _place_of(name: str, settings: type) -> str:
    """Where a key of that name stands in one of the sections below."""
    for section, wanted in types_of(settings).items():
        for option in options_of(wanted):
            if is_settings(option) and name in fields_of(option):
                return f"{section}.{name}"
    return ""
