"""A user's own operators: what a folder of one looks like, and writing a new one."""

import contextlib
import re
from pathlib import Path
from typing import Final

from ascend_ops.build_record import PACKAGE_DIR
from ascend_ops.errors import InvalidInputError

TEMPLATES: Final = PACKAGE_DIR / "templates" / "operator"
NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
NAME_MAX: Final = 48  # the names of CANN's generated files hold it twice
# Written file → template.
FILES: Final = {
    "{name}_kernel.h": "kernel.h.in",
    "{name}_tiling.h": "tiling.h.in",
    "{name}_cases.py": "cases.py.in",
    "test_{name}.py": "test.py.in",
    "{name}_cpusim.cpp": "cpusim.cpp.in",
    "{name}_tensorflow.cc": "tensorflow.cc.in",
    "op_kernel/ascend_{name}.cpp": "op_kernel.cpp.in",
    "op_host/ascend_{name}_host.cpp": "op_host.cpp.in",
    "launch/{name}.asc": "launch.asc.in",
    "README.md": "readme.md.in",
}


def camel(name: str) -> str:
    """The operator's name in C++: scaled_tanh → ScaledTanh."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def write_operator(name: str, directory: Path, taken: tuple[str, ...]) -> list[Path]:
    """Writes an operator that builds and passes its test into directory/name; the files' paths.

    `taken` are names that the library has already. InvalidInputError, with nothing written, for a
    name that cannot be one and for a folder that is there already.
    """
    if not NAME.fullmatch(name) or len(name) > NAME_MAX:
        raise InvalidInputError(
            f'"{name}" is no name of an operator: use words of a-z and 0-9 joined by _, a letter '
            f"first, at most {NAME_MAX} characters, such as scaled_tanh"
        )
    if name in taken:
        raise InvalidInputError(
            f"the library has an operator {name} already; a second one would hide it. "
            "Choose another name"
        )
    folder = directory / name
    if folder.exists() or folder.is_symlink():
        raise InvalidInputError(
            f"{folder} is there already, and nothing is overwritten. Choose another name or folder"
        )
    return _write(name, folder)


def _write(name: str, folder: Path) -> list[Path]:
    written: list[Path] = []
    try:
        for file, template in FILES.items():
            path = folder / file.format(name=name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (TEMPLATES / template).read_text(encoding="utf-8")
            written.append(path)
            path.write_text(
                text.replace("@NAME@", name).replace("@CAMEL@", camel(name)), encoding="utf-8"
            )
    except OSError as error:
        _remove(folder, written)
        raise InvalidInputError(
            f"cannot write {error.filename or folder}: {error.strerror}; nothing was left behind. "
            "Choose a folder that you may write to"
        ) from error
    return written


def _remove(folder: Path, written: list[Path]) -> None:
    """Takes back what was written, and folders that are empty then."""
    for path in reversed(written):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    for path in (*{path.parent for path in written} - {folder}, folder):
        with contextlib.suppress(OSError):
            path.rmdir()


def is_operator(folder: Path) -> bool:
    """Whether this is the folder of an operator, by the two files that each one has."""
    name = folder.name
    return (folder / f"{name}_cpusim.cpp").is_file() and (folder / f"{name}_cases.py").is_file()


def find_operators(given: list[Path], here: Path) -> list[Path]:
    """The operator folders that are meant: those given, or else `here`, or those below it.

    A given folder may also be one that holds operators. InvalidInputError for one that is neither.
    """
    if not given:
        return _operators_of(here.resolve())
    found: list[Path] = []
    for folder in given:
        operators = _operators_of(folder.resolve())
        if not operators:
            raise InvalidInputError(
                f"{folder} is no operator folder: it has no {folder.name}_cpusim.cpp with its "
                f"{folder.name}_cases.py, and no folder that has. "
                f"Make one with: opsctl kernels new {folder.name}"
            )
        found += [operator for operator in operators if operator not in found]
    return found


def _operators_of(folder: Path) -> list[Path]:
    if is_operator(folder):
        return [folder]
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and is_operator(path))
