"""What `opsctl init` writes: a small service that works, to be deployed and then changed."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from opsctl.errors import ConfigError

TEMPLATES = Path(__file__).parent / "templates" / "init"
"""Beside the code, so that an installed wheel has it."""

FILES = {
    "opsctl.yaml": "opsctl.yaml",
    "app/main.py": "app/main.py",
    "model/weights.json": "model/weights.json",
    "requests.jsonl": "requests.jsonl",
    # Named without its dot in the package, where build tools would obey it.
    ".gitignore": "gitignore",
}
"""Written file → template."""

NAME_MARK = "SERVICE_NAME"
"""Stands for the service's name in the templates."""

NAME_MAX = 63
"""Characters of a DNS label."""


def write_project(directory: Path, name: str | None = None) -> list[Path]:
    """Write the files below `directory` (made when missing) and return their paths.

    Without `name` the service is named after the folder. Raises ConfigError, and has then written
    nothing, when the name is none or when a file of one of these names is there already.
    """
    return _write(directory, _checked_name(directory, name))


def planned_files(directory: Path, name: str | None = None) -> list[Path]:
    """What `write_project` would write. Raises ConfigError where that would."""
    _checked_name(directory, name)
    return [directory / file for file in FILES]


def _checked_name(directory: Path, name: str | None) -> str:
    # Not for `--help`: they import PyYAML.
    from opsctl.config.load import check_path
    from opsctl.config.relations import NAME

    name = name or name_for(directory)
    if not re.fullmatch(NAME, name):
        raise ConfigError(
            f'"{name}" is no name of a service',
            why="allowed: a-z, 0-9 and -, a letter first, 63 characters at most",
            next_step=f"Add: --name {name_for(Path(name))}",
        )
    check_path(directory)
    try:
        present = [file for file in FILES if _exists(directory / file)]
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename}",
            why=f"{error.strerror}; nothing was written",
            next_step="Name another folder: opsctl init DIR",
        ) from error
    if present:
        raise ConfigError(
            f"{directory} has {', '.join(present)} already",
            why="init never overwrites a file; nothing was written",
            next_step="Name an empty folder: opsctl init DIR",
        )
    return name


def name_for(directory: Path) -> str:
    """The service name that is nearest to a folder's name."""
    words = re.sub("[^a-z0-9]+", "-", directory.absolute().name.lower())
    return re.sub("^[-0-9]+", "", words)[:NAME_MAX].strip("-") or "service"


def _exists(path: Path) -> bool:
    """Whether something stands there, a dangling link included."""
    return path.exists() or path.is_symlink()


def _write(directory: Path, name: str) -> list[Path]:
    written: list[Path] = []
    try:
        for file, template in FILES.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (TEMPLATES / template).read_text(encoding="utf-8")
            with path.open("x", encoding="utf-8") as opened:
                written.append(path)
                opened.write(text.replace(NAME_MARK, name))
    except OSError as error:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        raise ConfigError(
            f"cannot write {error.filename or directory}",
            why=f"{error.strerror}; nothing was left behind",
            next_step="Name another folder: opsctl init DIR",
        ) from error
    return written
