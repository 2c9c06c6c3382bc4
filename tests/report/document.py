"""A page of HTML as a tree, by Python's own parser, which forgives nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
"""Elements that have no end (HTML standard, void elements)."""


@dataclass
class Element:
    """An element with its attributes and what is in it."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, *names: str) -> list[Element]:
        """Every element below this one, in order; those of `names` only when some are given."""
        return [one for one in self._below() if not names or one.name in names]

    def one(self, name: str) -> Element:
        """The only element of that name."""
        (found,) = self.all(name)
        return found

    def by_id(self, key: str) -> Element:
        (found,) = [one for one in self.all() if one.attributes.get("id") == key]
        return found

    @property
    def text(self) -> str:
        """All text in it, blanks as one."""
        return " ".join("".join(self._texts()).split())

    @property
    def raw(self) -> str:
        """All text in it as it is."""
        return "".join(self._texts())

    def _below(self) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child._below()

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, Element):
                yield from child._texts()
            else:
                yield child


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice in <{tag}>: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> ends <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Element:
    """The page's tree. Raises AssertionError when elements are not closed in order."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert parser.open == [parser.root], [one.name for one in parser.open]
    return parser.root
