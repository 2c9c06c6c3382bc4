"""What argument parsers of commands are made of: global options, kinds of values, combinations."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import Any, NoReturn

from opsctl.errors import ConfigError


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. Argparse would import shutil for the width at each start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or DEFAULT_COLUMNS
    except ValueError:
        pass
    try:
        return os.get_terminal_size(1).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS


class Parser(argparse.ArgumentParser):
    """One with our help. Sub-commands' parsers are of this class too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Help, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but the command itself refuses what it does not know: with its help."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            self.error(f"{self.prog} takes no {' '.join(unknown)}{self._near(unknown[0])}")
        return known, unknown

    def _near(self, word: str) -> str:
        """The option that was meant, in words; empty when there is none."""
        from opsctl.config.problems import nearest

        options = [name[2:] for name in self._option_string_actions if name.startswith("--")]
        near = nearest(word[2:].partition("=")[0], options) if word.startswith("--") else None
        return f" (did you mean --{near}?)" if near else ""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line. Raises ConfigError, so that programs get an object too."""
        from opsctl.config.problems import nearest

        wrong = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if wrong:
            allowed = re.findall("'(.*?)'", wrong[2])
            near = nearest(wrong[1], allowed)
            message = message[: wrong.start()] + f'there is no "{wrong[1]}"'
            message += f' (did you mean "{near}"?)' if near else f"; there are {', '.join(allowed)}"
        raise ConfigError(message, next_step=f"See: {self.prog} --help")


Extra = Callable[[Parser], None]

DEFAULT_COLUMNS = 80


def global_options() -> Parser:
    """The options that every command has."""
    options = Parser(add_help=False)
    group = options.add_argument_group("global options")
    group.add_argument("-c", "--config", metavar="FILE", help="opsctl.yaml (default: searched up)")
    group.add_argument(
        "-e",
        "--environment",
        "--env",
        metavar="ENV",
        help="environment (deploy and plan: A,B one after the other, or * for all)",
    )
    group.add_argument(
        "--service",
        metavar="NAME",
        help="service, where there are several (deploy and plan: A,B or *)",
    )
    group.add_argument(
        "-o", "--output", choices=("text", "json", "ndjson"), default="text", help="form of output"
    )
    group.add_argument("--timeout", type=seconds, metavar="S", help="time limit of the command")
    group.add_argument(
        "--lock-wait", type=seconds, default=0.0, metavar="S", help="wait for another opsctl"
    )
    group.add_argument("--dry-run", action="store_true", help="say what would be done")
    group.add_argument("--yes", action="store_true", help="ask nothing")
    return options


def seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def share(text: str) -> float:
    """A share: above 0, at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: above 0, at most 1")
    return value


def whole(text: str) -> int:
    """A number of things, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of things: 1 or more")
    return int(text)


def nothing(parser: Parser) -> None:
    """No arguments of its own."""
    return


def one(name: str, **settings: Any) -> Extra:
    """One argument."""

    def add(parser: Parser) -> None:
        parser.add_argument(name, **settings)

    return add


def both(*extras: Extra) -> Extra:
    """Several of them."""

    def add(parser: Parser) -> None:
        for extra in extras:
            extra(parser)

    return add


def choice(**actions: tuple[str, Extra]) -> Extra:
    """Sub-commands, by name."""

    def add(parser: Parser) -> None:
        parents = [global_options()]
        subs = parser.add_subparsers(
            dest="action", metavar="ACTION", required=True, prog=parser.prog
        )
        for name, (text, extra) in actions.items():
            extra(subs.add_parser(name, help=text, description=text, parents=parents))

    return add
