"""The tree of an opsctl.yaml: values that know their line and their full key path."""

from __future__ import annotations

from opsctl.config.problems import shown
from opsctl.config.scalars import Resolved, described, resolve


class _BaseNode:
    """What all nodes have: the line, the full key path, and their extent with aliases followed."""

    __slots__ = ("height", "line", "path", "size")
    is_null = False

    def __init__(self, line: int, path: str) -> None:
        self.line = line
        self.path = path
        self.size = 1
        self.height = 1


class ScalarNode(_BaseNode):
    """A single value."""

    __slots__ = ("quoted", "text")

    def __init__(self, line: int, path: str, text: str, quoted: bool) -> None:
        super().__init__(line, path)
        self.text = text
        self.quoted = quoted

    @property
    def resolved(self) -> Resolved:
        """The value that the text stands for."""
        return resolve(self.text, self.quoted)

    @property
    def is_null(self) -> bool:  # type: ignore[override]  # constant in the other nodes
        """Whether it stands for nothing."""
        return self.resolved.value is None

    def __str__(self) -> str:
        value = self.resolved.value
        text = f'"{shown(self.text)}"' if isinstance(value, str) else shown(self.text)
        return described(None) if value is None else f"{text} ({described(value)})"


class ListNode(_BaseNode):
    """A list."""

    __slots__ = ("items",)

    def __init__(self, line: int, path: str) -> None:
        super().__init__(line, path)
        self.items: list[Node] = []

    def __str__(self) -> str:
        return "a list"


class Entry:
    """A key's line, full path and value (an aliased value has the path of its anchor)."""

    __slots__ = ("line", "node", "path")

    def __init__(self, line: int, path: str, node: Node) -> None:
        self.line = line
        self.path = path
        self.node = node


class MapNode(_BaseNode):
    """A map with text keys, merge keys already followed."""

    __slots__ = ("entries",)

    def __init__(self, line: int, path: str) -> None:
        super().__init__(line, path)
        self.entries: dict[str, Entry] = {}

    def __str__(self) -> str:
        return "a map"

    def child_path(self, name: str) -> str:
        """The full path of one of its keys."""
        part = shown(name) or '""'
        return f"{self.path}.{part}" if self.path else part


Node = ScalarNode | ListNode | MapNode
