"""opsctl.yaml → one service of one environment, checked to the last key."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opsctl.config.convert import Converter
from opsctl.config.nodes import MapNode
from opsctl.config.overrides import check_overrides, effective_service
from opsctl.config.problems import Problems, nearest, shown
from opsctl.config.settings import Config, Project, Service
from opsctl.config.source import read
from opsctl.errors import ConfigError

FILE_NAME = "opsctl.yaml"
ENVIRONMENT_VARIABLE = "OPSCTL_ENVIRONMENT"
DEFAULT_ENVIRONMENT = "production"


@dataclass(frozen=True)
class Document:
    """A checked file: its settings, its nodes (for lines), and each effective service."""

    path: Path
    label: str
    """The path as messages name it."""
    root: MapNode
    config: Config
    services: dict[tuple[str, str], Service]
    """By (environment, service)."""


def load(path: Path | None, *, environment: str | None, service: str | None) -> Project:
    """The project of `path`, or of the nearest opsctl.yaml in this folder and those above it.

    Environment: as given, else $OPSCTL_ENVIRONMENT, else the only one, else `production`.
    Service: as given, else the only one. Raises ConfigError, which lists every problem.
    """
    document = load_document(path)
    return project_of(
        document, choose_environment(document, environment), choose_service(document, service)
    )


def project_of(document: Document, environment: str, service: str) -> Project:
    """The project of one service in one environment, both of them in the file."""
    return Project(
        path=document.path,
        config=document.config,
        environment=environment,
        service_name=service,
        service=document.services[environment, service],
        target=document.config.environments[environment].target,
    )


def load_document(path: Path | None) -> Document:
    """Read and check a file with all its environments. Raises ConfigError."""
    file, label = _located(path)
    check_path(file)
    problems = Problems(label)
    root = read(file, problems)
    converter = Converter(problems)
    check_overrides(root, problems)
    config = converter.settings(root, Config)
    if not isinstance(config, Config):
        raise problems.error()
    services = {
        (environment, service): converter.settings(
            effective_service(root, environment, service), Service
        )
        for environment in config.environments
        for service in config.services
    }
    if len(problems):
        raise problems.error()
    return Document(file, problems.file, root, config, services)


def check_path(path: Path) -> None:
    """Raises ConfigError for a path that isn't UTF-8: journals, settings and logs name it."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the path {str(path.absolute())!a} is not UTF-8",
            why="the journal and the settings of what runs have to name it",
            next_step="Rename the folder; where its name is UTF-8, set PYTHONUTF8=1",
        ) from error


def find() -> Path:
    """The nearest opsctl.yaml, from the working directory upwards. Raises ConfigError."""
    start = Path.cwd()
    for folder in (start, *start.parents):
        with contextlib.suppress(PermissionError):
            if (folder / FILE_NAME).is_file():
                return folder / FILE_NAME
    raise ConfigError(
        f"there is no {FILE_NAME} in {start} or above it",
        next_step="Change to the project's folder, name the file with -c FILE, or run: opsctl init",
    )


def choose_environment(document: Document, given: str | None) -> str:
    """The environment's name. Raises ConfigError when there is none of that name."""
    names = list(document.config.environments)
    if given is None and os.environ.get(ENVIRONMENT_VARIABLE):
        given, source = os.environ[ENVIRONMENT_VARIABLE], f"${ENVIRONMENT_VARIABLE}"
    elif given is None:
        given = names[0] if len(names) == 1 else DEFAULT_ENVIRONMENT
        source = "the default"
    else:
        source = "-e"
    if given in names:
        return given
    raise _no_such("environment", given, source, names, document)


def choose_service(document: Document, given: str | None) -> str:
    """The service's name. Raises ConfigError when it must be chosen, or is not there."""
    names = list(document.config.services)
    if given is None and len(names) == 1:
        return names[0]
    if given is None:
        raise ConfigError(
            f"{document.label} has {len(names)} services, and none was chosen",
            next_step=f"Add --service with one of: {', '.join(names)}",
        )
    if given in names:
        return given
    raise _no_such("service", given, "--service", names, document)


def _no_such(
    kind: str, given: str, source: str, names: Iterable[str], document: Document
) -> ConfigError:
    near = nearest(given, names)
    hint = f'Did you mean "{near}"? ' if near else ""
    return ConfigError(
        f'there is no {kind} "{shown(given)}" in {document.label}',
        why=f"{source} names it",
        next_step=f"{hint}There are: {', '.join(names)}",
    )


def _located(path: Path | None) -> tuple[Path, str]:
    """The file, absolute, and its name in messages: relative when it lies below this folder."""
    try:
        file = (path or find()).absolute()
        relative = os.path.relpath(file)
    except FileNotFoundError as error:
        raise ConfigError(
            "the working directory is gone", next_step="Change to a folder that exists."
        ) from error
    return file, str(file) if relative.startswith("..") else relative
