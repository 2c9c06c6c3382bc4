"""The configuration in force: each value of a service, and where it comes from.

Secrets appear as their sources only; their values are never read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl.config.fields import Section
from opsctl.config.load import Document, choose_environment, choose_service, load_document
from opsctl.config.nodes import MapNode, Node
from opsctl.config.overrides import effective_service
from opsctl.config.settings import Service
from opsctl.config.yaml_text import flow, indented, plain, under
from opsctl.model import Json

Named = Section | Mapping[str, Any]

COMMENT_COLUMN = 48
"""Where the origins begin, when the value leaves room."""


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: `file` or `environment` with its line, or `default`."""

    kind: str
    line: int = 0

    def to_dict(self) -> Json:
        return {"from": self.kind, "line": self.line} if self.line else {"from": self.kind}


@dataclass(frozen=True)
class Shown:
    """The effective configuration of one service in one environment."""

    document: Document
    environment: str
    service_name: str
    node: MapNode

    @property
    def service(self) -> Service:
        """The service with the overrides applied."""
        return self.document.services[self.environment, self.service_name]

    def to_dict(self) -> Json:
        """For `-o json`: values nested as in the file, origins by dotted path."""
        return {
            "file": self.document.label,
            "environment": self.environment,
            "target": self.document.config.environments[self.environment].target,
            "service": self.service_name,
            "values": plain(self.service),
            "origins": {
                path: origin.to_dict() for path, origin in _origins(self.service, self.node, "")
            },
        }

    def to_yaml(self) -> str:
        """For people: YAML, with the origin of each value as a comment."""
        head = f"# service {self.service_name}, environment {self.environment},"
        target = self.document.config.environments[self.environment].target
        lines = self._section(self.service, self.node)
        return "\n".join([f"{head} target {target}, from {self.document.label}", *lines]) + "\n"

    def _section(self, values: Named, node: Node | None, depth: int = 0) -> list[str]:
        lines: list[str] = []
        for name, value in _items(values):
            child = _child(node, name)
            if _has_parts(value):
                lines.append(f"{flow(name)}:")
                lines += indented(self._section(value, child, depth + 1))
                continue
            first, *rest = under(f"{flow(name)}:", plain(value))
            width = COMMENT_COLUMN - 2 * depth
            lines += [f"{first:<{width}}  # {self._origin_text(child)}", *rest]
        return lines

    def _origin_text(self, node: Node | None) -> str:
        origin = origin_of(node)
        if origin.kind == "default":
            return "default"
        overridden = f" (environment {self.environment})" if origin.kind == "environment" else ""
        return f"{self.document.label}:{origin.line}{overridden}"


def show(path: Path | None, *, environment: str | None, service: str | None) -> Shown:
    """What is in force; the arguments are those of `load`. Raises ConfigError."""
    document = load_document(path)
    environment_name = choose_environment(document, environment)
    service_name = choose_service(document, service)
    node = effective_service(document.root, environment_name, service_name)
    return Shown(document, environment_name, service_name, node)


def origin_of(node: Node | None) -> Origin:
    """Where a node comes from; no node means a default."""
    if node is None:
        return Origin("default")
    overridden = node.path.startswith("environments.")
    return Origin("environment" if overridden else "file", node.line)


def _child(node: Node | None, name: str) -> Node | None:
    if isinstance(node, MapNode) and name in node.entries:
        return node.entries[name].node
    return None


def _items(values: Named) -> list[tuple[str, Any]]:
    return list(values.items() if isinstance(values, Mapping) else vars(values).items())


def _has_parts(value: Any) -> bool:
    """Whether parts of a value may come from different places: sections, and maps with keys."""
    return isinstance(value, Section) or (isinstance(value, Mapping) and bool(value))


def _origins(values: Named, node: Node | None, path: str) -> list[tuple[str, Origin]]:
    """Each value that has no parts of its own, by its dotted path."""
    result: list[tuple[str, Origin]] = []
    for name, value in _items(values):
        child = _child(node, name)
        here = f"{path}{name}"
        if _has_parts(value):
            result += _origins(value, child, f"{here}.")
        else:
            result.append((here, origin_of(child)))
    return result
