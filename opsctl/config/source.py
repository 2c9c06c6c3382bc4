"""An opsctl.yaml as a tree of nodes that know their lines.

Built from the parser's events, without recursion, without tags and within bounds, so that no
file can run code, eat the memory or overflow the stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from opsctl.config.nodes import Entry, ListNode, MapNode, Node, ScalarNode
from opsctl.config.problems import Problems, shown
from opsctl.config.scalars import described, resolve
from opsctl.errors import ConfigError

SIZE_MAX_BYTES = 1024 * 1024
"""Size of a file at most: a hundred times a long configuration."""

DEPTH_MAX = 32
"""Levels of nesting at most, aliases followed: settings have 8, request bodies some more."""

NODES_MAX = 50_000
"""Values of a file at most, each alias counted as what it stands for."""

_UTF16_OR_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: Path, problems: Problems) -> MapNode:
    """The file's tree. Raises ConfigError when it can't be read as one map at all."""
    text = _text(_bytes(path, problems), problems)
    root = _Builder(text, problems).build()
    if isinstance(root, MapNode):
        return root
    line = root.line if root else 1
    if root is None or root.is_null:
        raise problems.stop(line, "", "the file is empty; `opsctl init` writes one to start from")
    raise problems.stop(line, "", f"found {root}; allowed: a map that begins with `services:`")


def _bytes(path: Path, problems: Problems) -> bytes:
    """The content; refuses what is no readable file of a sane size."""
    next_step = "Name the file with -c FILE, or run: opsctl init"
    try:
        if not path.exists():
            raise ConfigError(f"there is no {path}", next_step=next_step)
        if not path.is_file():
            raise ConfigError(f"{path} is no file", next_step=next_step)
        with path.open("rb") as file:
            data = file.read(SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read {shown(str(path))}", why=error.strerror or "", next_step=next_step
        ) from error
    if len(data) > SIZE_MAX_BYTES:
        raise problems.stop(1, "", f"the file is larger than {SIZE_MAX_BYTES // 1024} KiB")
    return data


def _text(data: bytes, problems: Problems) -> str:
    """UTF-8 text, or the error with the line of the first bad byte."""
    if data.startswith(_UTF16_OR_32_MARKS):
        raise problems.stop(1, "", "the file is UTF-16 or UTF-32; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise problems.stop(
            line, "", f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
        ) from error
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        hint = "; is the file UTF-16? Save it as UTF-8" if bad.group() == "\0" else ""
        raise problems.stop(
            line, "", f"character U+{ord(bad.group()):04X} is not allowed in YAML{hint}"
        )
    return text


class _Frame:
    """A map or list that is still open. `name` is None while the next node is a key."""

    __slots__ = ("dropped", "merged", "merging", "name", "name_line", "node")

    def __init__(self, node: MapNode | ListNode) -> None:
        self.node = node
        self.name: str | None = None
        self.name_line = 0
        self.dropped = False
        self.merging = False
        self.merged: list[MapNode] = []


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return int(mark.line) + 1 if mark else 1


def _short(tag: str) -> str:
    """A tag as it is written in files."""
    return shown(tag.replace("tag:yaml.org,2002:", "!!", 1))


class _Builder:
    """Turns parser events into nodes."""

    def __init__(self, text: str, problems: Problems) -> None:
        self._text = text
        self._problems = problems
        self._open: list[_Frame] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None

    def build(self) -> Node | None:
        """The tree's root; None for a file without any document."""
        documents = 0
        for event in self._events():
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._problems.stop(
                        _line(event), "", "a second document begins; one is allowed"
                    )
            elif isinstance(event, yaml.NodeEvent):
                self._node(event, _line(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
        return self._root

    def _events(self) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(self._text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise self._problems.stop(line, self._here(), self._syntax(error, line)) from error
        except yaml.YAMLError as error:
            raise self._problems.stop(1, "", f"cannot be read as YAML: {error}") from error

    def _syntax(self, error: yaml.MarkedYAMLError, line: int) -> str:
        lines = self._text.splitlines()
        # The parser stops at the tab's line or at the one after it.
        for near in lines[max(0, line - 2) : line]:
            if "\t" in near[: len(near) - len(near.lstrip())]:
                return "a tab stands in the indentation; YAML allows spaces only"
        return f"cannot be read as YAML: {shown(error.problem or 'bad syntax')}"

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            what = f"tag {_short(tag)} is not allowed; write a plain value"
            self._problems.add(line, self._here(), what)
        frame = self._open[-1] if self._open else None
        if frame and isinstance(frame.node, MapNode) and frame.name is None:
            self._key(frame, event, line)
            return
        if isinstance(event, yaml.AliasEvent):
            self._attach(self._aliased(event.anchor or "", line), line)
            return
        path = self._path(frame)
        if isinstance(event, yaml.ScalarEvent):
            scalar = ScalarNode(line, path, event.value, event.style not in (None, ""))
            if event.anchor:
                self._anchors[event.anchor] = scalar
            self._attach(scalar, line)
            return
        node = (
            MapNode(line, path)
            if isinstance(event, yaml.MappingStartEvent)
            else ListNode(line, path)
        )
        self._open.append(_Frame(node))
        if event.anchor:
            self._anchors[event.anchor] = node
        self._check_bounds(1, 1, line)

    def _here(self) -> str:
        """The path of what is being read: the best that is known at a syntax error."""
        if not self._open:
            return ""
        frame = self._open[-1]
        unnamed = isinstance(frame.node, MapNode) and frame.name is None
        return frame.node.path if unnamed else self._path(frame)

    def _path(self, frame: _Frame | None) -> str:
        if frame is None:
            return ""
        if isinstance(frame.node, ListNode):
            return f"{frame.node.path}[{len(frame.node.items)}]"
        return frame.node.child_path(frame.name or "")

    def _key(self, frame: _Frame, event: yaml.NodeEvent, line: int) -> None:
        """Take a scalar as the next key; a merge key and bad keys are marked as such."""
        assert isinstance(frame.node, MapNode)
        if isinstance(event, yaml.AliasEvent) and isinstance(
            aliased := self._aliased(event.anchor or "", line), ScalarNode
        ):
            text, quoted = aliased.text, aliased.quoted
        elif isinstance(event, yaml.ScalarEvent):
            text, quoted = event.value, event.style not in (None, "")
        else:
            raise self._problems.stop(
                line, frame.node.path, "a map or list stands as a key; allowed: text"
            )
        if isinstance(event, yaml.ScalarEvent) and event.anchor:
            self._anchors[event.anchor] = ScalarNode(line, frame.node.path, text, quoted)
        frame.name, frame.name_line = text, line
        frame.merging = text == "<<" and not quoted
        frame.dropped = not frame.merging and not self._usable_key(frame.node, text, quoted, line)

    def _usable_key(self, node: MapNode, text: str, quoted: bool, line: int) -> bool:
        key = resolve(text, quoted)
        path = node.child_path(text)
        if key.oddity:
            self._problems.add(line, path, f'key "{shown(text)}" {key.oddity}')
        elif not isinstance(key.value, str):
            found = f"key {shown(text) or '(empty)'} is {described(key.value)}"
            self._problems.add(line, path, f"{found}; allowed: text (put it in quotes)")
        elif text in node.entries:
            first = node.entries[text].line
            self._problems.add(line, path, f"the key stands twice, first in line {first}")
        else:
            return True
        return False

    def _aliased(self, anchor: str, line: int) -> Node:
        node = self._anchors.get(anchor)
        path = self._path(self._open[-1]) if self._open else ""
        if node is None:
            raise self._problems.stop(line, path, f"alias *{shown(anchor)} has no anchor before it")
        if any(frame.node is node for frame in self._open):
            raise self._problems.stop(
                line, path, f"alias *{shown(anchor)} stands inside of itself (a cycle)"
            )
        return node

    def _attach(self, node: Node, line: int) -> None:
        """Put a complete node into the map or list that is open."""
        if not self._open:
            self._root = node
            return
        frame = self._open[-1]
        frame.node.size += node.size
        frame.node.height = max(frame.node.height, node.height + 1)
        self._check_bounds(frame.node.size, node.height, line)
        if isinstance(frame.node, ListNode):
            frame.node.items.append(node)
            return
        name, frame.name = frame.name or "", None
        if frame.merging:
            self._merge(frame, node)
        elif not frame.dropped:
            path = frame.node.child_path(name)
            frame.node.entries[name] = Entry(frame.name_line, path, node)

    def _merge(self, frame: _Frame, node: Node) -> None:
        maps = node.items if isinstance(node, ListNode) else [node]
        for one in maps:
            if isinstance(one, MapNode):
                frame.merged.append(one)
            else:
                self._problems.add(
                    frame.name_line, frame.node.path, f"<< is given {one}; allowed: *alias of a map"
                )

    def _close(self) -> None:
        frame = self._open.pop()
        if isinstance(frame.node, MapNode):
            for merged in frame.merged:
                for name, entry in merged.entries.items():
                    frame.node.entries.setdefault(name, entry)
        self._attach(frame.node, frame.node.line)

    def _check_bounds(self, size: int, height: int, line: int) -> None:
        path = self._open[-1].node.path
        if len(self._open) + height > DEPTH_MAX:
            raise self._problems.stop(line, path, f"nested deeper than {DEPTH_MAX} levels")
        if size > NODES_MAX:
            raise self._problems.stop(
                line, path, f"holds more than {NODES_MAX} values (aliases counted as written out)"
            )
