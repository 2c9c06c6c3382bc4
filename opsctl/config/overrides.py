"""Environments' overrides laid over a service, as nodes, so that lines and paths survive."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from opsctl.config.convert import is_settings, options_of, types_of
from opsctl.config.nodes import Entry, MapNode, Node
from opsctl.config.problems import Problems, nearest, shown
from opsctl.config.settings import SecretSource, Service

EVERY_SERVICE = "*"

_REPLACED_WHOLE: tuple[Any, ...] = (SecretSource,)
"""Sections with exactly one key: merged, they would have two."""


def effective_service(root: MapNode, environment: str, service: str) -> MapNode:
    """The node of a service with the environment's overrides merged: `*` first, then its own."""
    node: Node = _entry(_entry(root, "services"), service) or MapNode(root.line, "services")
    overrides = _entry(_entry(_entry(root, "environments"), environment), "overrides")
    for name in (EVERY_SERVICE, service):
        over = _entry(overrides, name)
        if over is not None:
            node = _merged(node, over, Service)
    return node if isinstance(node, MapNode) else MapNode(node.line, node.path)


def check_overrides(root: MapNode, problems: Problems) -> None:
    """Note overrides that are no maps, or that name a service which does not exist."""
    services = _entry(root, "services")
    known = list(services.entries) if isinstance(services, MapNode) else []
    environments = _entry(root, "environments")
    for environment in environments.entries if isinstance(environments, MapNode) else ():
        overrides = _entry(_entry(environments, environment), "overrides")
        if not isinstance(overrides, MapNode):
            continue
        for name, entry in overrides.entries.items():
            if name != EVERY_SERVICE and name not in known:
                near = nearest(name, known)
                hint = f' (did you mean "{near}"?)' if near else f"; allowed: {_listed(known)}, *"
                problems.add(entry.line, entry.path, f"there is no such service{hint}")
            if not isinstance(entry.node, MapNode):
                problems.add(entry.line, entry.path, f"found {entry.node}; allowed: a map of keys")


def _listed(names: list[str]) -> str:
    return ", ".join(shown(name) for name in names[:20])


def _entry(node: Node | None, name: str) -> Node | None:
    if isinstance(node, MapNode) and name in node.entries:
        return node.entries[name].node
    return None


def _merged(base: Node, over: Node, wanted: Any) -> Node:
    """`over` laid over `base`: maps are merged key by key, everything else is replaced."""
    if not isinstance(base, MapNode) or not isinstance(over, MapNode):
        return over
    inner = _types_inside(wanted)
    if inner is None:
        return over
    entries = dict(base.entries)
    for name, entry in over.entries.items():
        below = entries.get(name)
        wanted_below = inner.get(name, inner.get(EVERY_SERVICE))
        node = _merged(below.node, entry.node, wanted_below) if below else entry.node
        entries[name] = Entry(entry.line, entry.path, node)
    merged = MapNode(base.line, base.path)
    merged.entries = entries
    return merged


def _types_inside(wanted: Any) -> dict[str, Any] | None:
    """The types of a map's keys (`*`: of every key), or None when a map is replaced as a whole."""
    for option in options_of(wanted):
        if option in _REPLACED_WHOLE or option is types.NoneType:
            continue
        if is_settings(option):
            return types_of(option)
        if typing.get_origin(option) is Mapping:
            return {EVERY_SERVICE: typing.get_args(option)[1]}
    return None
