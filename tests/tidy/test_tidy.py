"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import functools
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from tests.tidy import sources
from tests.tidy.sources import ROOT, place, tree

FILE_LINES_MAX = 500
"""A file that needs more is two files."""

SOURCE_SUFFIXES = {".py", ".cpp", ".cc", ".h", ""}

FUNCTION_LINES_MAX = 60

TEXT_SUFFIXES = {
    ".py", ".sh", ".md", ".toml", ".yaml", ".yml", ".json", ".j2", ".cfg", ".cpp", ".cc", ".h",
    ".cmake", ".in", ".txt", "",
}  # fmt: skip

GENERATED = ("requirements/run.txt", "requirements/dev.txt")

UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")

VAGUE_NAMES = re.compile(r"(^|_)(utils?|helpers?|managers?)($|_)|(Util|Helper|Manager)s?($|[A-Z])")

MACHINE_PATHS = re.compile(
    "|".join(
        [
            "/" + r"work/(main|shared)",
            "/" + r"opt/wheels",
            "/" + r"tmp/prompts",
            "py" + r"pi\.org",
            "python" + r"hosted\.org",
            "registry" + r"\.npmjs",
            "proxy" + r"\.golang",
            "deb" + r"\.debian\.org",
            "crates" + r"\.io",
            "maven" + r"\.org",
        ]
    )
)

DOCUMENTED = ("opsctl", "kernels/python", "images/serving/ascend_serving", "scripts")

PROCESS_STARTERS = {
    ("os", name)
    for name in dir(__import__("os"))
    if name.startswith(("exec", "spawn", "posix_spawn")) or name in ("system", "popen", "fork")
} | {
    ("asyncio", "create_subprocess_exec"),
    ("asyncio", "create_subprocess_shell"),
    ("pty", "spawn"),
    ("pty", "fork"),
}


def text_files() -> Iterator[tuple[Path, str]]:
    for path in sources.tracked_files():
        if path.suffix in TEXT_SUFFIXES and place(path) not in GENERATED:
            yield path, path.read_text(errors="replace")


def test_files_are_short_enough_to_read_at_once() -> None:
    too_long = {
        place(path): text.count("\n")
        for path, text in text_files()
        if path.suffix in SOURCE_SUFFIXES and text.count("\n") > FILE_LINES_MAX
    }
    assert too_long == {}


def test_functions_are_short_enough_to_read_at_once() -> None:
    too_long = {
        place(path, node.lineno): (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources.python_files()
        for node in sources.functions(tree(path))
        if (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert too_long == {}


def test_functions_take_five_parameters_at_most() -> None:
    too_many = {
        place(path, node.lineno): node.name
        for path in sources.python_files("opsctl")
        for node in sources.functions(tree(path))
        if len([a for a in _parameters(node) if a.arg not in ("self", "cls")]) > 5
        and place(path) not in DECLARATIONS
    }
    assert too_many == {}


DECLARATIONS = ("opsctl/config/fields.py", "opsctl/shell.py")
"""Field declarations are read as a table, and a process has that many independent properties."""


def _parameters(node: sources.Function) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def test_nothing_is_marked_as_unfinished() -> None:
    marked = [
        place(path, number)
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert marked == [], "\n".join(marked)


def test_names_say_what_a_thing_is() -> None:
    vague = [place(path) for path in sources.python_files() if VAGUE_NAMES.search(path.stem)]
    vague += [
        place(path, node.lineno)
        for path in sources.python_files()
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and VAGUE_NAMES.search(node.name)
    ]
    assert vague == [], "\n".join(vague)


def test_no_file_names_a_machine_or_a_package_registry() -> None:
    named = [
        place(path, number)
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert named == [], "\n".join(named)


def test_public_functions_say_what_the_caller_gets() -> None:
    promised = _promised()
    silent = [
        f"{place(path, node.lineno)} {name}"
        for path in sources.python_files(*DOCUMENTED)
        for name, node in sources.public_functions(tree(path))
        if ast.get_docstring(node) is None
        and name.rpartition(".")[2] not in promised | PLAIN
        and not _is_plain(node)
    ]
    assert silent == [], "\n".join(silent)


PLAIN = {"to_dict", "from_dict", "main"}
"""Names that mean the same everywhere here."""


def _promised() -> set[str]:
    """Methods that a Protocol names: what implements them needs no second explanation."""
    return {
        method.name
        for path in sources.python_files(*DOCUMENTED)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("Protocol") for base in node.bases)
        for method in sources.functions(ast.Module(node.body, []))
    }


def _is_plain(node: sources.Function) -> bool:
    """A property, or a single expression: its name says it, as a field's does."""
    is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    return is_property or (len(node.body) == 1 and isinstance(node.body[0], ast.Return))


def test_modules_say_what_they_are_for() -> None:
    silent = [
        place(path)
        for path in sources.python_files()
        if path.stat().st_size and ast.get_docstring(tree(path)) is None
    ]
    assert silent == [], "\n".join(silent)


STARTING = (
    "opsctl/shell.py",
    # A program that the shell module starts: it ties itself to its parent's life, then becomes
    # the program that was wanted. No process is started there.
    "opsctl/targets/kubernetes/tied.py",
)


def test_only_the_shell_module_starts_processes() -> None:
    starters = [
        place(path, node.lineno)
        for path in sources.python_files("opsctl", "scripts")
        if place(path) not in STARTING
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.stmt, ast.expr)) and _starts_processes(node)
    ]
    assert starters == [], "\n".join(starters)


def _starts_processes(node: ast.stmt | ast.expr) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "multiprocessing" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in ("subprocess", "multiprocessing")
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        # subprocess.Popen may stand in a type, so only calls of the rest matter.
        return (node.value.id, node.attr) in PROCESS_STARTERS
    called = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "subprocess"
    )


def test_every_test_asserts_something() -> None:
    empty = [
        f"{place(path, node.lineno)} {node.name}"
        for path in sources.python_files()
        if path.name.startswith("test_")
        for node in sources.functions(tree(path))
        if node.name.startswith("test_") and not _asserts(node, _asserting(path.parent))
    ]
    assert empty == [], "\n".join(empty)


@functools.cache
def _asserting(folder: Path) -> frozenset[str]:
    """Functions of a folder of tests that assert for those who call them."""
    return frozenset(
        node.name
        for path in folder.glob("*.py")
        for node in sources.functions(tree(path))
        if any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    )


def _asserts(test: ast.AST, asserting: frozenset[str]) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            # A wait for something that does not come raises, and so does a checked process.
            if (
                name in RAISING
                or name in asserting
                or name.startswith(("assert_", "check", "expect"))
            ):
                return True
            if any(keyword.arg == "check" for keyword in node.keywords):
                return True
    return False


RAISING = {"raises", "warns", "fail", "wait", "wait_until"}


def test_readme_stays_within_120_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_shell_scripts_stop_at_the_first_error() -> None:
    sloppy = []
    for path, text in text_files():
        first, _, rest = text.partition("\n")
        if not re.match(r"#!.*\b(ba)?sh\b", first):
            continue
        code = [line for line in rest.splitlines() if line.strip() and not line.startswith("#")]
        if not code or code[0] not in ("set -euo pipefail", "set -eu"):
            sloppy.append(place(path))
    assert sloppy == [], "\n".join(sloppy)


def test_scripts_can_be_run() -> None:
    not_executable = [
        place(path)
        for path, text in text_files()
        if text.startswith("#!") and not path.stat().st_mode & stat.S_IXUSR
    ]
    assert not_executable == [], "\n".join(not_executable)
