"""The {names} in `app.command` that opsctl fills in for each replica."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

KNOWN = ("python", "host", "port", "health_port", "model", "release", "replica")


class BadPlaceholder(ValueError):
    """A brace that stands alone, or a name that is not known (then `name` is it)."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def names(argument: str) -> tuple[str, ...]:
    """The placeholders of one argument, in order. Raises BadPlaceholder."""
    return tuple(text for text, is_name in _parts(argument) if is_name)


def fill(argument: str, values: Mapping[str, str]) -> str:
    """The argument with its placeholders replaced; {{ and }} become single braces."""
    return "".join(values[text] if is_name else text for text, is_name in _parts(argument))


def _parts(argument: str) -> Iterator[tuple[str, bool]]:
    """Texts and placeholder names (True) in order."""
    at = 0
    while at < len(argument):
        char = argument[at]
        if char not in "{}":
            end = min((i for i in map(argument.find, "{}", (at, at)) if i >= 0),
                      default=len(argument))  # fmt: skip
            yield argument[at:end], False
            at = end
        elif argument[at : at + 2] == char * 2:
            yield char, False
            at += 2
        else:
            end = argument.find("}", at)
            if char == "}" or end < 0:
                raise BadPlaceholder(f"a single {char} stands in it; write {char * 2} for a brace")
            name = argument[at + 1 : end]
            if name not in KNOWN:
                raise BadPlaceholder(f"placeholder {{{name}}} is not known", name)
            yield name, True
            at = end + 1
