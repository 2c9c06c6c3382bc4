"""An image in which the guard runs: this Python, opsctl, and what the guard imports of others."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tests.cluster.kubernetes import ROOT, Cluster

NEEDED = ("kubernetes", "jinja2", "pyyaml")
MEASURING = ("uvloop", "httptools", "hdrhistogram", "numpy", "scipy")
"""What the load generator and its statistics import."""

LEFT_OUT = ("site-packages", "test", "tests", "idlelib", "tkinter", "lib2to3", "ensurepip")
PYTHON = "/opt/python"


def guard_image(cluster: Cluster, folder: Path) -> str:
    """Make the image in an empty folder; its name by digest."""
    python_root(folder)
    return cluster.order("image", "guard:1", str(folder), f"{PYTHON}/bin/python3").strip()


def bench_image(cluster: Cluster, folder: Path) -> str:
    """Make an image in which benchmarks run too, in an empty folder; its name by digest."""
    python_root(folder, *MEASURING)
    return cluster.order("image", "bench:1", str(folder), f"{PYTHON}/bin/python3").strip()


def python_root(folder: Path, *more: str) -> None:
    """The files of the image, in an empty folder; `more` distributions than the guard needs."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    lib = folder / PYTHON[1:] / "lib" / stdlib.name
    ignored = shutil.ignore_patterns(*LEFT_OUT, "__pycache__", "*.a", "config-3*")
    shutil.copytree(stdlib, lib, ignore=ignored)
    program = folder / PYTHON[1:] / "bin" / "python3"
    program.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), program)
    for name in distributions(*NEEDED, *more):
        copy_distribution(name, lib / "site-packages")
    for name in ("opsctl", "manifests", "helm"):
        part = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, lib / "site-packages" / name, ignore=part)
    copy_libraries(folder, [program, *lib.rglob("*.so")])
    (folder / "usr" / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "usr" / "bin" / "python3").symlink_to(f"{PYTHON}/bin/python3")
    (folder / "tmp").mkdir(exist_ok=True)


def copy_program(folder: Path, program: Path) -> None:
    """A program of this machine and what it is linked with."""
    copy = folder / str(program)[1:]
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program.resolve(), copy)
    copy_libraries(folder, [program])


def copy_libraries(folder: Path, programs: list[Path]) -> None:
    """What programs are linked with, where they look for it."""
    for library in libraries(programs):
        copy = folder / str(library)[1:]
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)


def distributions(*names: str) -> set[str]:
    """Distributions and what they require, as far as it is installed."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [re.split(r"[\s;<>=!~\[(]", one)[0] for one in required if "extra ==" not in one]
    return found


def copy_distribution(name: str, target: Path) -> None:
    """Its files, as they lie in site-packages."""
    for file in metadata.files(name) or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            copy = target / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), copy)


def libraries(programs: list[Path]) -> Iterator[Path]:
    """Shared libraries that programs are linked with, and the loader."""
    seen: set[str] = set()
    for program in programs:
        told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        for path in re.findall(r"(/\S+\.so[.\w]*) \(0x", told.stdout):
            if path not in seen:
                seen.add(path)
                yield Path(path)
