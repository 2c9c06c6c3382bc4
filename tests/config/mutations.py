"""Seeded mutations of a good opsctl.yaml, each with the place and the word that must be named."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opsctl.config.problems import ConfigFileError
from tests.config.full import FULL_TEXT
from tests.config.places import DECLARED, LINES, ON_ONE_LINE, PLACES, Place


@dataclass(frozen=True)
class Mutant:
    """A broken file, and what its error must tell: line (0: none), key path, nearest right word."""

    kind: str
    data: bytes
    line: int = 0
    key: str = ""
    nearest: str = ""
    inside: bool = False
    """Whether the place may lie inside the key's value."""

    def complaints(self, error: ConfigFileError) -> list[str]:
        """What the error should have told and did not."""
        told = [p for p in error.problems if p.line == self.line] if self.line else error.problems
        if not told:
            return [f"no problem in line {self.line}: {error}"]
        named = [p.key for p in told if p.key == self.key or (
            self.inside and p.key.startswith(self.key))]  # fmt: skip
        if self.key and not named:
            return [f"key {self.key} is not named: {error}"]
        near = [p for p in told if f'"{self.nearest}"' in p.what or f"{{{self.nearest}}}" in p.what]
        return [f"{self.nearest} is not suggested: {error}"] if self.nearest and not near else []


def mutate(seed: int, index: int) -> Mutant:
    """The mutant number `index` of a seed; kinds come in turn, so that each has its share."""
    source = random.Random(f"{seed}/{index}")
    kinds = sorted(MUTATIONS)
    return MUTATIONS[kinds[index % len(kinds)]](source)


def _replaced(
    kind: str, place: Place, value: str, *, nearest: str = "", inside: bool = False
) -> Mutant:
    lines = LINES.copy()
    lines[place.line - 1] = f"{place.head} {value}"
    return Mutant(kind, _encoded(lines), place.line, place.path, nearest, inside)


def _encoded(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _typo(word: str, source: random.Random) -> str:
    """The word with one slip of the finger."""
    at = source.randrange(len(word))
    letter = source.choice("abcdefghijklmnopqrstuvwxyz")
    return source.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + letter + word[at:],
            word[:at] + letter + word[at + 1 :],
            word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
        )
    )


def _unknown_key(source: random.Random) -> Mutant:
    place = source.choice([one for one in DECLARED if len(one.name) > 3])
    siblings = {one.name for one in PLACES}
    wrong = place.name
    while wrong in siblings or not wrong.isidentifier():
        wrong = _typo(place.name, source)
    lines = LINES.copy()
    line = lines[place.line - 1]
    lines[place.line - 1] = line.replace(f"{place.name}:", f"{wrong}:", 1)
    path = place.path[: -len(place.name)] + wrong
    return Mutant("unknown key", _encoded(lines), place.line, path, place.name)


_WRONG = {
    "whole number": ("many", "1.5", "true", "[1]", "{a: 1}", '"3"', "", "~"),
    "number": ("many", "true", "[1]", "{a: 1}", '"3"', "1,5", "", "5s"),
    "true or false": ("1", '"true"', "yes", "off", "[true]", "", "maybe"),
    "text": ("3", "1e3", "true", "[a]", "{a: 1}", "on", "0x1f", "007"),
    "a list": ("text", "3", "{a: 1}", "true", ""),
    "a map": ("text", "3", "[a]", "true"),
}


def _wrong_type(source: random.Random) -> Mutant:
    place = source.choice([one for one in ON_ONE_LINE if _takes(one) and one.name != "overrides"])
    key = place.key
    assert key is not None
    wrong = [value for value in _WRONG[_takes(place)] if value or "null" not in key.takes]
    if "null" in key.takes:
        wrong = [value for value in wrong if value != "~"]
    if place.name == "port":
        wrong = ["1.5", "true", "[1]", "{a: 1}", ""]
    return _replaced("wrong type", place, source.choice(wrong))


def _takes(place: Place) -> str:
    assert place.key is not None
    takes = place.key.takes
    if takes.startswith("one of"):
        return "text"
    return next((kind for kind in _WRONG if takes.removeprefix("a ").startswith(
        kind.removeprefix("a "))), "")  # fmt: skip


def _out_of_range(source: random.Random) -> Mutant:
    limited = [
        one
        for one in ON_ONE_LINE
        if one.key and (one.key.info.low is not None) and _takes(one).endswith("number")
    ]
    place = source.choice(limited)
    assert place.key is not None and place.key.info.low is not None
    info = place.key.info
    below = f"{place.key.info.low - source.choice((1, 5, 1000)):g}"
    above = [f"{info.high + source.choice((1, 7, 1e6)):g}"] if info.high is not None else []
    huge = ["9" * source.randrange(19, 6000), ".nan", ".inf", "-.inf"]
    return _replaced("out of range", place, source.choice([below, *above, *huge]))


def _wrong_choice(source: random.Random) -> Mutant:
    place = source.choice(
        [o for o in ON_ONE_LINE if o.key and o.key.info.choices and o.key.wanted is str]
    )
    assert place.key is not None
    right = source.choice([word for word in place.key.info.choices if len(word) > 3])
    wrong = right
    while not _is_nearest(right, wrong, place.key.info.choices):
        wrong = _typo(right, source)
    return _replaced("wrong choice", place, f'"{wrong}"', nearest=right)


def _is_nearest(right: str, wrong: str, choices: Sequence[str]) -> bool:
    """Whether a reader would take `wrong` for `right`: PUST is as near to PUT as to POST."""
    likeness = {c: difflib.SequenceMatcher(None, wrong, c).ratio() for c in choices}
    others = [value for choice, value in likeness.items() if choice != right]
    return wrong not in choices and bool(wrong) and likeness[right] > max(others, default=0.0)


def _duplicate(source: random.Random) -> Mutant:
    # The first key of a list's item cannot be repeated without its dash.
    place = source.choice([one for one in ON_ONE_LINE if "- " not in one.head])
    lines = LINES.copy()
    lines.insert(place.line, lines[place.line - 1])
    return Mutant("duplicate key", _encoded(lines), place.line + 1, place.path)


def _missing(source: random.Random) -> Mutant:
    place = source.choice(
        [o for o in ON_ONE_LINE if o.key and o.key.required and "- " not in o.head]
    )
    lines = LINES.copy()
    del lines[place.line - 1]
    return Mutant("required key missing", _encoded(lines), 0, place.path)


def _strange_key(source: random.Random) -> Mutant:
    place = source.choice([one for one in ON_ONE_LINE if "- " not in one.head])
    indent = place.head[: len(place.head) - len(place.head.lstrip())]
    strange = source.choice(("8501", "true", "null", "1.5", "on", "no", "0x10", "~", '"a\\0b"'))
    lines = LINES.copy()
    lines.insert(place.line, f"{indent}{strange}: 1")
    return Mutant("key that is no text", _encoded(lines), place.line + 1)


def _tag(source: random.Random) -> Mutant:
    tag = source.choice(
        (
            '!!python/object/apply:os.mkdir ["tagged"]',
            '!!python/object/apply:os.system ["touch tagged"]',
            "!!python/name:os.system x",
            "!!binary aGVsbG8=",
            "!mine 3",
            "!!set {a: null}",
        )
    )
    return _replaced("tag", source.choice(ON_ONE_LINE), tag)


def _cycle(source: random.Random) -> Mutant:
    loop = source.choice(
        ("&a [*a]", "&a {b: *a}", "&a [[[{x: *a}]]]", "&a {<<: *a}", "&a [1, {b: &c [*a, *c]}]")
    )
    return _replaced("cycle", source.choice(ON_ONE_LINE), loop, inside=True)


def _bomb(source: random.Random) -> Mutant:
    width, rows = source.randrange(9, 40), source.randrange(8, 25)
    first = "&a0 [" + ", ".join("x" * width) + "]"
    rest = [f"&a{n + 1} [" + ", ".join([f"*a{n}"] * width) + "]" for n in range(rows)]
    value = "[" + ", ".join([first, *rest]) + "]"
    return _replaced("alias bomb", source.choice(ON_ONE_LINE), value, inside=True)


def _deep(source: random.Random) -> Mutant:
    depth = source.choice((33, 40, 100, 900, 2000, 20_000))
    opening, closing = source.choice((("[", "]"), ("{a: ", "}")))
    whole = source.random() < 0.7
    value = opening * depth + "x" + (closing * depth if whole else "")
    return _replaced("deep nesting", source.choice(ON_ONE_LINE), value, inside=True)


def _huge(source: random.Random) -> Mutant:
    filler = source.choice(("# x\n", "a", "- x\n", " \n", "x: y\n"))
    data = FULL_TEXT.encode() + (filler * (1024 * 1024 // len(filler))).encode()
    return Mutant("huge file", data, 1)


def _empty(source: random.Random) -> Mutant:
    return Mutant(
        "empty file",
        source.choice((b"", b"\n", b"# nothing\n", b"---\n", b"null\n", b"~", b"--- # x\n...\n")),
    )


def _no_map(source: random.Random) -> Mutant:
    return Mutant(
        "not a map", source.choice((b"- services\n", b"services\n", b"3\n", b'"x: y"\n', b"[]")), 1
    )


def _encoding(source: random.Random) -> Mutant:
    line = source.randrange(1, len(LINES) + 1)
    lines = [text.encode() for text in LINES]
    choice = source.randrange(5)
    if choice == 0:
        return Mutant("UTF-16", FULL_TEXT.encode("utf-16"), 1)
    if choice == 1:
        name = source.choice(("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"))
        return Mutant("UTF-16 without mark", FULL_TEXT.encode(name), 1)
    bad = source.choice((b"\xff", b"caf\xe9 ", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88", b"\xc0\x80"))
    if choice == 3:
        bad = bytes([source.choice([0, 1, 7, 8, 11, 12, 27, 31, 127])])
    at = source.randrange(len(lines[line - 1]) + 1)
    lines[line - 1] = lines[line - 1][:at] + bad + lines[line - 1][at:]
    return Mutant("bad byte", b"\n".join(lines) + b"\n", line)


def _tab(source: random.Random) -> Mutant:
    place = source.choice([one for one in PLACES if one.head.startswith("  ")])
    lines = LINES.copy()
    text = lines[place.line - 1]
    lines[place.line - 1] = "\t" + text.lstrip()
    return Mutant("tab", _encoded(lines))


def _documents(source: random.Random) -> Mutant:
    tail = source.choice(("services: {}\n", "", "x\n", "a: b\n"))
    return Mutant("two documents", f"{FULL_TEXT}---\n{tail}".encode(), len(LINES) + 1)


def _placeholder(source: random.Random) -> Mutant:
    place = next(one for one in PLACES if one.path == "services.web.app.command")
    right = source.choice(("python", "port", "health_port", "model", "release", "replica"))
    wrong = right
    while wrong in ("python", "port", "health_port", "model", "release", "replica", ""):
        wrong = _typo(right, source)
    mutant = _replaced("placeholder", place, f'["{{{wrong}}}"]', nearest=right)
    return Mutant(mutant.kind, mutant.data, mutant.line, f"{place.path}[0]", right)


def _name(source: random.Random) -> Mutant:
    kind, old = source.choice((("services", "web"), ("environments", "production")))
    place = next(one for one in PLACES if one.path == f"{kind}.{old}")
    new = source.choice(("Web", "we_b", "-web", "web-", "9web", '""', "w" * 64, '"a b"', '"ü"'))
    lines = LINES.copy()
    lines[place.line - 1] = f"  {new}:"
    shown = (new.strip('"') or new) if len(new) < 60 else new[:59] + "…"
    return Mutant("bad name", _encoded(lines), 0, f"{kind}.{shown}")


def _no_service(source: random.Random) -> Mutant:
    place = next(o for o in PLACES if o.path == "environments.staging.overrides.web")
    wrong = source.choice(("wb", "webb", "wbe", "weeb"))
    lines = LINES.copy()
    lines[place.line - 1] = lines[place.line - 1].replace("web:", f"{wrong}:")
    path = f"environments.staging.overrides.{wrong}"
    return Mutant("overrides of no service", _encoded(lines), place.line, path, "web")


def _syntax(source: random.Random) -> Mutant:
    broken = source.choice(("[a", "{a: 1", '"a', "'a", "*nothing", "@x", "`x", "a: b", "%x", "]"))
    place = source.choice([one for one in ON_ONE_LINE if "- " not in one.head])
    mutant = _replaced("syntax", place, broken)
    return Mutant(mutant.kind, mutant.data)


MUTATIONS: dict[str, Callable[[random.Random], Mutant]] = {
    function.__name__: function
    for function in (
        _bomb, _cycle, _deep, _documents, _duplicate, _empty, _encoding, _huge, _missing, _name,
        _no_map, _no_service, _out_of_range, _placeholder, _strange_key, _syntax, _tab, _tag,
        _unknown_key, _wrong_choice, _wrong_type,
    )
}  # fmt: skip
"""By name. Noise without a known outcome is left to the property tests."""
