"""The command line: every command, argument and option, with its help."""

from __future__ import annotations

from collections.abc import Sequence

from opsctl import cli_library as library
from opsctl.cli_arguments import (
    Extra,
    Parser,
    both,
    choice,
    global_options,
    nothing,
    one,
    seconds,
    share,
    whole,
)

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
    options = [global_options()]
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


_reason = one("--reason", default="", help="kept in the journal")
_release = one("release", nargs="?", metavar="RELEASE", help="like r12 (default: what serves)")

_to = one("--to", default=None, metavar="PATH", help="where to write (default: the output)")

_rendered = both(
    one("--release", default="r1", metavar="NAME", help="its release (default: r1)"),
    one("--image", default=None, metavar="IMAGE", help="instead of app.image"),
    _to,
)

_recorded = both(
    one("file", metavar="FILE", help="a new file of JSON lines"),
    one("--share", type=share, default=1.0, metavar="X", help="of the requests (default: 1.0)"),
    one("--count", type=whole, default=1000, metavar="N", help="requests (default: 1000)"),
    one("--seconds", type=seconds, default=60.0, metavar="S", help="at most (default: 60)"),
    one("--max-mb", type=seconds, default=64.0, metavar="MB", help="at most (default: 64)"),
    one("--redact", action="append", default=[], metavar="PATH",
         help="blank this field too, like instances.*.user"),
)  # fmt: skip

COMMANDS: tuple[tuple[str, str, Extra], ...] = (
    (
        "init",
        "write a small working service into a folder",
        both(
            one("directory", nargs="?", default=".", metavar="DIR", help="where (default: here)"),
            one("--name", default=None, help="name of the service"),
            one(
                "--from-compose",
                default=None,
                metavar="FILE",
                help="opsctl.yaml alone, for a service of a compose file",
            ),
        ),
    ),
    (
        "config",
        "check, show or explain opsctl.yaml",
        choice(
            validate=("check opsctl.yaml", nothing),
            show=("the configuration in force, and where each value comes from", nothing),
            schema=("the JSON schema of opsctl.yaml", nothing),
            docs=(
                "what each key means",
                both(
                    one("key", nargs="?", metavar="KEY", help="like services.*.gate"),
                    one("--markdown", action="store_true", help="as Markdown"),
                ),
            ),
        ),
    ),
    ("preflight", "what stands against a deploy: files, target, room, rights", nothing),
    (
        "diff",
        "what a deploy would change, and what differs from what was deployed (exit 3)",
        nothing,
    ),
    (
        "plan",
        "the steps that a deploy would take",
        one("--exit-code", action="store_true", help="exit 3 when there is something to do"),
    ),
    (
        "build",
        "build the service's image, unless the same content is built already",
        both(
            one("--rebuild", action="store_true", help="from the start, without any cache"),
            one("--no-network", action="store_true", help="let no step use the network"),
        ),
    ),
    (
        "verify",
        "prove what an image must be: user, rights, operators, labels, layers, signature",
        one("image", nargs="?", metavar="IMAGE", help="default: the one that was built last"),
    ),
    (
        "deploy",
        "take the service from its sources to safely serving",
        both(
            one(
                "--jobs", type=whole, default=1, metavar="N", help="services at a time (default 1)"
            ),
            one(
                "--soak",
                type=seconds,
                default=None,
                metavar="S",
                help="with -e A,B: instead of each environment's soak_s",
            ),
        ),
    ),
    ("status", "what serves, what runs, what is open", nothing),
    (
        "history",
        "the rollouts so far",
        one("--limit", type=whole, default=20, metavar="N", help="how many (default 20)"),
    ),
    ("wait", "wait until the open rollout ends; exit with its code", nothing),
    (
        "logs",
        "what the replicas say",
        both(
            _release,
            one("--lines", type=whole, default=100, metavar="N", help="how many (default 100)"),
            one("--follow", action="store_true", help="go on as they come"),
        ),
    ),
    ("smoke", "run the smoke tests against a release that runs", _release),
    (
        "health",
        "whether the service is well, check by check",
        one(
            "--for",
            type=seconds,
            default=0.0,
            metavar="S",
            dest="watched_s",
            help="watch what serves for so long first",
        ),
    ),
    (
        "bench",
        "measure releases, compare measurements, record users' requests",
        choice(
            run=("measure a release that runs", _release),
            compare=(
                "compare the stored measurements of two releases",
                both(one("a", metavar="A"), one("b", metavar="B")),
            ),
            trend=("latency over the releases, and with which it changed", nothing),
            record=("sample users' requests into a file that benchmarks replay", _recorded),
        ),
    ),
    (
        "render",
        "write the service for other tools",
        choice(
            manifests=("objects of Kubernetes, for kubectl apply", _rendered),
            chart=("the Helm chart, with values for this service", _rendered),
            compose=("a file for docker compose", _rendered),
            role=("the rights that opsctl needs in a cluster, for kubectl apply", _to),
        ),
    ),
    ("approve", "approve what the open rollout waits for", _reason),
    ("pause", "stop the open rollout; resume takes the step it is in again", _reason),
    ("resume", "go on with the open rollout, or bring back what served", nothing),
    ("abort", "take the candidate of the open rollout back", _reason),
    (
        "rollback",
        "give the traffic back to a release that was proved",
        both(
            one("release", nargs="?", metavar="RELEASE", help="default: the last proved one"),
            one("--preview", action="store_true", help="say what would be done"),
        ),
    ),
    (
        "down",
        "stop the service and remove all of its state",
        one("--keep", action="store_true", help="let it run on, with nobody in charge of it"),
    ),
    (
        "adopt",
        "take over a Deployment that runs already, without a restart",
        one("name", metavar="DEPLOYMENT", help="its name in the service's namespace"),
    ),
    (
        "releases",
        "the releases that are kept",
        choice(
            list=("all of them", nothing),
            show=("one, whole", one("release", metavar="RELEASE")),
            prune=("remove those that nobody needs", nothing),
        ),
    ),
    (
        "lock",
        "who is at work",
        choice(
            status=("who holds the lock", nothing),
            release=(
                "take the lock from a holder that no longer moves",
                one("--force", action="store_true", help="even when it moves"),
            ),
        ),
    ),
    ("audit", "who did what and when, with the journal checked", nothing),
    (
        "kernels",
        "operators of your own: write, build, test and time them",
        choice(
            new=("write an operator that builds and passes its test", library.kernels_new),
            build=("build the operator library with your own operators", library.kernels_build),
            test=("build, and test on each length and type", library.kernels_build),
            bench=("time operators, and estimate their cycles", library.kernels_bench),
        ),
    ),
    (
        "model",
        "make a model faster, or make an .om of it",
        choice(
            optimize=("simplify and fuse a graph of TensorFlow or ONNX", library.model_optimize),
            convert=("convert a model for NPUs, through atc", library.model_convert),
        ),
    ),
    (
        "profile",
        "what a program does on an NPU, by msprof",
        choice(
            analyse=("read and judge what msprof measured", library.profile_analyse),
            run=("run a command under msprof, and judge it", library.profile_run),
        ),
    ),
    (
        "completion",
        "completion script for a shell",
        one("shell", choices=("bash", "zsh", "tcsh"), help="which shell"),
    ),
    ("version", "the version", nothing),
)
