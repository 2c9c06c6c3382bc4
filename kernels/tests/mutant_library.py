"""Kernels with an edit each, compiled into one checked library: what the tests of the rules share.

Each mutant is the real kernel in a namespace of its own, so that all of them fit one library.
"""

import ctypes
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).resolve().parent.parent
CHECKER_SOURCES = ("cpusim/checker.cpp", "cpusim/cross_core.cpp", "runtime/cpusim_operator.cpp")


@dataclass(frozen=True)
class Edit:
    """A mutant's name, one or two edits of the kernel's text, and what must be told about it."""

    name: str
    find: str
    replace: str
    told: str
    find_2: str = ""
    replace_2: str = ""


def read_table(name: str) -> Mapping[str, dict[str, str]]:
    """The rows of a table of mutants in this folder, by the mutants' names."""
    text = (KERNELS / "tests" / name).read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = tomllib.loads(text)
    return table


def mutated(edit: Edit, parts: Iterable[str]) -> str:
    """The text of the kernel's files with the mutant's edits, in the namespace `mutant_<name>`."""
    text = ""
    for part in parts:
        lines = (KERNELS / part).read_text(encoding="utf-8").splitlines()
        text += "\n".join(line for line in lines if not line.startswith("#pragma once")) + "\n"
    text = re.sub(r'#include ".*"', "", text)
    # The second first: the first edit may bring its text in once more.
    for find, replace in ((edit.find_2, edit.replace_2), (edit.find, edit.replace)):
        if find:
            assert text.count(find) == 1, f"{edit.name}: the kernel's text has changed: {find}"
            text = text.replace(find, replace)
    space = f"namespace mutant_{edit.name} {{"
    text = text.replace("namespace ascend_ops {", space)
    return text.replace(space, f"{space}\nusing namespace ascend_ops;", 1)


def compile_checked(text: str, folder: Path, arch: int = 2201) -> ctypes.CDLL:
    """A library of this text that stops where a rule of the SoC family is broken."""
    source = folder / "mutants.cpp"
    source.write_text(text, encoding="utf-8")
    include = [f"-I{KERNELS / name}" for name in (".", "cpusim/include", "runtime")]
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", "-DCPUSIM_CHECKED=1"]
    sources = [str(source), *(str(KERNELS / name) for name in CHECKER_SOURCES)]
    library = folder / "mutants.so"
    command = ["g++", *flags, f"-D__NPU_ARCH__={arch}", *include, *sources, "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))
