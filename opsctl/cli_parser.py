"""The command line: every command, argument and option, with its help."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from opsctl import cli_library as library
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

EPILOG = """\
global options, before or after the command: -c FILE, -e ENV, --service NAME, -o text|json|ndjson,
--timeout S, --lock-wait S, --dry-run, --yes

exit codes: 0 done · 2 usage or configuration · 4 refused before touching anything · 5 build failed
10 rolled back, old release proved · 11 rollback failed, page someone · 12 nothing to go back to
13 smoke or health · 14 gate · 15 undecided · 20 waits for a person · 21 lock held · 22 superseded
23 aborted · 24 time-out, resume is safe · 30 target unreachable · 130, 143 signal, journal saved
"""


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """The parser of `opsctl`. To save time, what these words don't ask for is left out.

    Words that begin with a command need that command alone; other words need each command's name,
    for the help and for errors, but nobody's arguments.
    """
    parser = Parser(
        prog="opsctl",
        description="Deploy, prove and roll back TensorFlow services.",
        epilog=EPILOG,
    )
    first = words[0] if words else None
    asked = [command for command in COMMANDS if words is None or command[0] == first]
    options = [_global_options()]
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=parser.prog
    )
    for command in asked or COMMANDS:
        name, text, extra = command
        complete = command in asked
        parents = options if complete else []
        sub = commands.add_parser(name, help=text, description=text, parents=parents)
        if complete:
            extra(sub)
    return parser


def _global_options() -> Parser:
    options = Parser(add_help=False)
    group = options.add_argument_group("global options")
    group.add_argument("-c", "--config", metavar="FILE", help="opsctl.yaml (default: searched up)")
    group.add_argument("-e", "--environment", "--env", metavar="ENV", help="environment")
    group.add_argument("--service", metavar="NAME", help="service, where there are several")
    group.add_argument(
        "-o", "--output", choices=("text", "json", "ndjson"), default="text", help="form of output"
    )
    group.add_argument("--timeout", type=_seconds, metavar="S", help="time limit of the command")
    group.add_argument(
        "--lock-wait", type=_seconds, default=0.0, metavar="S", help="wait for another opsctl"
    )
    group.add_argument("--dry-run", action="store_true", help="say what would be done")
    group.add_argument("--yes", action="store_true", help="ask nothing")
    return options


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: above 0, at most 1")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of things: 1 or more")
    return int(text)


def _nothing(parser: Parser) -> None:
    return None


def _one(name: str, **settings: Any) -> Extra:
    def add(parser: Parser) -> None:
        parser.add_argument(name, **settings)

    return add


def _both(*extras: Extra) -> Extra:
    def add(parser: Parser) -> None:
        for extra in extras:
            extra(parser)

    return add


def _choice(**actions: tuple[str, Extra]) -> Extra:
    """Sub-commands, by name."""

    def add(parser: Parser) -> None:
        parents = [_global_options()]
        subs = parser.add_subparsers(
            dest="action", metavar="ACTION", required=True, prog=parser.prog
        )
        for name, (text, extra) in actions.items():
            extra(subs.add_parser(name, help=text, description=text, parents=parents))

    return add


_reason = _one("--reason", default="", help="kept in the journal")
_release = _one("release", nargs="?", metavar="RELEASE", help="like r12 (default: what serves)")

_to = _one("--to", default=None, metavar="PATH", help="where to write (default: the output)")

_rendered = _both(
    _one("--release", default="r1", metavar="NAME", help="its release (default: r1)"),
    _one("--image", default=None, metavar="IMAGE", help="instead of app.image"),
    _to,
)

_recorded = _both(
    _one("file", metavar="FILE", help="a new file of JSON lines"),
    _one("--share", type=_share, default=1.0, metavar="X", help="of the requests (default: 1.0)"),
    _one("--count", type=_whole, default=1000, metavar="N", help="requests (default: 1000)"),
    _one("--seconds", type=_seconds, default=60.0, metavar="S", help="at most (default: 60)"),
    _one("--max-mb", type=_seconds, default=64.0, metavar="MB", help="at most (default: 64)"),
    _one("--redact", action="append", default=[], metavar="PATH",
         help="blank this field too, like instances.*.user"),
)  # fmt: skip

COMMANDS: tuple[tuple[str, str, Extra], ...] = (
    (
        "init",
        "write a small working service into a folder",
        _both(
            _one("directory", nargs="?", default=".", metavar="DIR", help="where (default: here)"),
            _one("--name", default=None, help="name of the service"),
        ),
    ),
    (
        "config",
        "check, show or explain opsctl.yaml",
        _choice(
            validate=("check opsctl.yaml", _nothing),
            show=("the configuration in force, and where each value comes from", _nothing),
            schema=("the JSON schema of opsctl.yaml", _nothing),
            docs=(
                "what each key means",
                _both(
                    _one("key", nargs="?", metavar="KEY", help="like services.*.gate"),
                    _one("--markdown", action="store_true", help="as Markdown"),
                ),
            ),
        ),
    ),
    ("preflight", "what stands against a deploy: files, target, room, rights", _nothing),
    (
        "diff",
        "what a deploy would change, and what differs from what was deployed (exit 3)",
        _nothing,
    ),
    (
        "plan",
        "the steps that a deploy would take",
        _one("--exit-code", action="store_true", help="exit 3 when there is something to do"),
    ),
    (
        "build",
        "build the service's image, unless the same content is built already",
        _both(
            _one("--rebuild", action="store_true", help="from the start, without any cache"),
            _one("--no-network", action="store_true", help="let no step use the network"),
        ),
    ),
    (
        "verify",
        "prove what an image must be: user, rights, operators, labels, layers, signature",
        _one("image", nargs="?", metavar="IMAGE", help="default: the one that was built last"),
    ),
    (
        "deploy",
        "take the service from its sources to safely serving; -e A,B,C: one after the other",
        _one(
            "--soak",
            type=_seconds,
            default=0.0,
            metavar="S",
            help="with -e A,B: how long each environment must stay well before the next",
        ),
    ),
    ("status", "what serves, what runs, what is open", _nothing),
    (
        "history",
        "the rollouts so far",
        _one("--limit", type=_whole, default=20, metavar="N", help="how many (default 20)"),
    ),
    ("wait", "wait until the open rollout ends; exit with its code", _nothing),
    (
        "logs",
        "what the replicas say",
        _both(
            _release,
            _one("--lines", type=_whole, default=100, metavar="N", help="how many (default 100)"),
            _one("--follow", action="store_true", help="go on as they come"),
        ),
    ),
    ("smoke", "run the smoke tests against a release that runs", _release),
    ("health", "whether the service is well, check by check", _nothing),
    (
        "bench",
        "measure releases, compare measurements, record users' requests",
        _choice(
            run=("measure a release that runs", _release),
            compare=(
                "compare the stored measurements of two releases",
                _both(_one("a", metavar="A"), _one("b", metavar="B")),
            ),
            trend=("latency over the releases, and with which it changed", _nothing),
            record=("sample users' requests into a file that benchmarks replay", _recorded),
        ),
    ),
    (
        "render",
        "write the service for other tools",
        _choice(
            manifests=("objects of Kubernetes, for kubectl apply", _rendered),
            chart=("the Helm chart, with values for this service", _rendered),
            compose=("a file for docker compose", _rendered),
            role=("the rights that opsctl needs in a cluster, for kubectl apply", _to),
        ),
    ),
    ("approve", "approve what the open rollout waits for", _reason),
    ("pause", "stop the open rollout; resume takes the step it is in again", _reason),
    ("resume", "go on with the open rollout, or bring back what served", _nothing),
    ("abort", "take the candidate of the open rollout back", _reason),
    (
        "rollback",
        "give the traffic back to a release that was proved",
        _both(
            _one("release", nargs="?", metavar="RELEASE", help="default: the last proved one"),
            _one("--preview", action="store_true", help="say what would be done"),
        ),
    ),
    ("down", "stop the service and remove all of its state", _nothing),
    (
        "releases",
        "the releases that are kept",
        _choice(
            list=("all of them", _nothing),
            show=("one, whole", _one("release", metavar="RELEASE")),
            prune=("remove those that nobody needs", _nothing),
        ),
    ),
    (
        "lock",
        "who is at work",
        _choice(
            status=("who holds the lock", _nothing),
            release=(
                "take the lock from a holder that no longer moves",
                _one("--force", action="store_true", help="even when it moves"),
            ),
        ),
    ),
    ("audit", "who did what and when, with the journal checked", _nothing),
    (
        "kernels",
        "operators of your own: write, build, test and time them",
        _choice(
            new=("write an operator that builds and passes its test", library.kernels_new),
            build=("build the operator library with your own operators", library.kernels_build),
            test=("build, and test on each length and type", library.kernels_build),
            bench=("time operators, and estimate their cycles", library.kernels_bench),
        ),
    ),
    (
        "model",
        "make a model faster, or make an .om of it",
        _choice(
            optimize=("freeze, simplify and fuse a TensorFlow graph", library.model_optimize),
            convert=("convert a model for NPUs, through atc", library.model_convert),
        ),
    ),
    (
        "profile",
        "what a program does on an NPU, by msprof",
        _choice(
            analyse=("read and judge what msprof measured", library.profile_analyse),
            run=("run a command under msprof, and judge it", library.profile_run),
        ),
    ),
    (
        "completion",
        "completion script for a shell",
        _one("shell", choices=("bash", "zsh", "tcsh"), help="which shell"),
    ),
    ("version", "the version", _nothing),
)
