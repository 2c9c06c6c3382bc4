"""The words of a command line, before they are parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsctl.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from opsctl.console import Format

FORMATS: tuple[Format, ...] = ("json", "ndjson")
"""Forms of output for programs."""

VALUED = ("-c", "--config", "-e", "--environment", "--env", "--service", "-o", "--output",
          "--timeout", "--lock-wait")  # fmt: skip
"""Global options that take a value."""

FLAGS = ("--dry-run", "--yes")
"""Those that take none."""

WITH_ACTIONS = frozenset(
    {"config", "bench", "render", "releases", "lock", "kernels", "model", "profile"}
)
"""Commands whose second word says what to do."""


def in_order(words: Sequence[str]) -> list[str]:
    """The words with the global options behind the command, and behind its action if it has one."""
    options, rest = _leading_options(words)
    behind = rest[:1]
    if behind and behind[0] in WITH_ACTIONS:
        more, rest = _leading_options(rest[1:])
        options, behind, rest = options + more, behind + rest[:1], rest[1:]
    else:
        rest = rest[1:]
    return [*behind, *options, *rest]


def _leading_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The global options that `words` begin with, and the rest."""
    at = 0
    while at < len(words) and (words[at] in FLAGS or words[at].partition("=")[0] in VALUED):
        at += 2 if words[at] in VALUED else 1
    return list(words[:at]), list(words[at:])


def asked_output(words: Sequence[str]) -> Format:
    """The form of output that the words ask for, even where they are wrong in other ways."""
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        for form in FORMATS:
            if word in (f"-o{form}", f"--output={form}"):
                return form
            if word in ("-o", "--output") and following == form:
                return form
    return "text"


CHANGE_WITHOUT_DRY_RUN = frozenset(
    {"approve", "pause", "smoke", "bench run", "bench record", "lock release", "render manifests",
     "render chart", "render compose", "kernels new", "kernels build", "kernels test",
     "kernels bench", "profile run"}
)  # fmt: skip
"""Commands that do something and can't say beforehand what: they refuse `--dry-run`."""


def refuse_vain_dry_run(arguments: argparse.Namespace) -> None:
    """Raises ConfigError rather than do what somebody wanted only to be told of."""
    action = getattr(arguments, "action", None)
    command = f"{arguments.command} {action}" if action else arguments.command
    if getattr(arguments, "dry_run", False) and command in CHANGE_WITHOUT_DRY_RUN:
        raise ConfigError(
            f"{command} has no --dry-run; nothing was done", next_step="See: opsctl --help"
        )
