"""Where each key of the good file stands, found without the code under test."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from opsctl.config.keys import Key, find
from tests.config.full import FULL_TEXT

LINES = FULL_TEXT.splitlines()


@dataclass(frozen=True)
class Place:
    """A key of the good file, found by its indentation alone."""

    line: int
    path: str
    name: str
    head: str
    """The line up to and with the colon."""
    value: str
    """The rest of the line; empty when the value stands below."""

    @property
    def key(self) -> Key | None:
        """The declared key, None for names that users choose."""
        return _declared(self.path)


@functools.cache
def _declared(path: str) -> Key | None:
    maps = "services|environments|secrets|checksums|env|headers|overrides|body"
    maps += "|node_labels|node_selector"
    chosen = rf"({maps}|writable_mb)\.[^.]*$"
    return None if re.search(chosen, path) else find(path)


def places() -> list[Place]:
    """Every key of the good file."""
    found: list[Place] = []
    stack: list[tuple[int, str]] = []
    counts: dict[tuple[str, int], int] = {}
    for number, line in enumerate(LINES, 1):
        match = re.match(r'( *)(- )?("[^"]*"|[^\s:"]+):(.*)$', line)
        if match is None:
            continue
        indent = len(match[1])
        while stack and stack[-1][0] >= indent + (1 if match[2] else 0):
            stack.pop()
        if match[2]:
            parent = ".".join(name for _, name in stack)
            index = counts[parent, indent] = counts.get((parent, indent), -1) + 1
            stack.append((indent + 1, f"[{index}]"))
            indent += 2
        name = match[3].strip('"')
        path = ".".join([*(part for _, part in stack), name]).replace(".[", "[")
        found.append(Place(number, path, name, line[: match.end(3)] + ":", match[4].strip()))
        stack.append((indent, name))
    return found


PLACES = places()
DECLARED = [place for place in PLACES if place.key]
ON_ONE_LINE = [place for place in DECLARED if place.value]
