"""What is wrong in an opsctl.yaml: collected with lines, then raised as one error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opsctl.errors import ConfigError

LISTED_MAX = 20
"""Problems listed at most: more scroll off a screen and mostly repeat the first ones."""

NEAR_ENOUGH = 0.5
"""Ratio of equal letters (difflib's) from which a word is worth suggesting."""

SHOWN_MAX = 60
"""Characters of a foreign name or value that a message shows."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: where (file, line from 1, full key path) and what."""

    file: str
    line: int
    key: str
    what: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.what}" if self.key else f"{place}: {self.what}"


class ConfigFileError(ConfigError):
    """A configuration file is wrong; `problems` holds each place, at most 20 of them."""

    def __init__(self, problems: tuple[Problem, ...], left_out: int = 0) -> None:
        rest = [str(problem) for problem in problems[1:]]
        if left_out:
            rest.append(f"(and {left_out} more)")
        count = len(problems) - 1 + left_out
        head = f"and {count} more problem{'s' if count > 1 else ''}"
        why = "\n  ".join([head, *rest]) if rest else ""
        from opsctl.config.keys import nearest_documented  # only when something is wrong

        section = nearest_documented(problems[0].key)
        super().__init__(
            str(problems[0]),
            why=why,
            next_step="Correct the file, then run: opsctl config validate (all keys: opsctl config"
            f" docs{' ' + section if section else ''})",
        )
        self.problems = problems


class Problems:
    """Collects the problems of one file, each once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[Problem, None] = {}

    def add(self, line: int, key: str, what: str) -> None:
        """Note one problem and go on."""
        self._found[Problem(self.file, line, key, what)] = None

    def stop(self, line: int, key: str, what: str) -> ConfigFileError:
        """The error to raise when nothing more can be read."""
        self.add(line, key, what)
        return self.error()

    def error(self) -> ConfigFileError:
        """All that was found, as one error, in the order of the lines."""
        found = sorted(self._found, key=lambda problem: problem.line)
        return ConfigFileError(tuple(found[:LISTED_MAX]), max(0, len(found) - LISTED_MAX))

    def __len__(self) -> int:
        return len(self._found)


def shown(text: str) -> str:
    """A foreign text as a message shows it: on one line, printable, shortened."""
    cut = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like `word`, or an empty text when none is near."""
    import difflib  # only when something is wrong: the good path stays quick

    by_lower = {one.lower(): one for one in known}
    matches = difflib.get_close_matches(word[:SHOWN_MAX].lower(), by_lower, 1, NEAR_ENOUGH)
    return by_lower[matches[0]] if matches else ""
