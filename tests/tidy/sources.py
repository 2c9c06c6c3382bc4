"""The repository's own files, as git and Python's parser see them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from opsctl import shell

ROOT = Path(__file__).parents[2]


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """Files that git tracks, less those that are gone from the work tree."""
    listed = shell.run(["git", "ls-files", "-z"], cwd=ROOT, timeout_s=30)
    assert listed.ok, listed.why
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(sorted({path for path in paths if path.is_file()}))


def python_files(*folders: str) -> list[Path]:
    """Tracked Python files below `folders` (everywhere when none is named)."""
    tops = [ROOT / folder for folder in folders] or [ROOT]
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and any(path.is_relative_to(top) for top in tops)
    ]


@functools.cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(), str(path))


def place(path: Path, line: int | None = None) -> str:
    """`path:line` as an editor understands it."""
    name = str(path.relative_to(ROOT))
    return name if line is None else f"{name}:{line}"


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: ast.Module) -> list[Function]:
    """Every function and method of a module, inner ones too."""
    return [node for node in ast.walk(module) if isinstance(node, Function)]


def public_functions(module: ast.Module) -> list[tuple[str, Function]]:
    """Functions and methods that others may call: (dotted name, node). Overrides and properties
    of one line included; dunder methods, private names and inner functions left out.
    """
    found: list[tuple[str, Function]] = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Function) and not node.name.startswith("_"):
                found.append((f"{prefix}{node.name}", node))
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                visit(node.body, f"{prefix}{node.name}.")

    visit(module.body, "")
    return found
