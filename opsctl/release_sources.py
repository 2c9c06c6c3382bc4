"""What a release is made of now: the application's folder, the model and the launch settings."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opsctl.config.settings import Project
from opsctl.content import (
    Entry,
    ScanRules,
    manifest_digest,
    manifest_of,
    scan,
    total_bytes,
)
from opsctl.errors import PreflightRefused
from opsctl.model import Json, digest
from opsctl.release import Launch, ModelArtefact

Interrupt = Callable[[], None]


@dataclass(frozen=True)
class ModelSource:
    """The model with its links resolved. `leaf` is the name of its copy in models/<digest>/."""

    name: str
    source: Path
    directory: bool
    digest: str
    manifest_digest: str
    bytes: int
    rules: ScanRules

    @property
    def leaf(self) -> str:
        """`model`, with the suffix that loaders go by when it is a file."""
        return "model" if self.directory else f"model{self.source.suffix}"


@dataclass(frozen=True)
class Sources:
    """Everything that the next release would hold, hashed."""

    app: Path
    app_rules: ScanRules
    app_digest: str
    app_bytes: int
    files: int
    model: ModelSource | None
    config_digest: str

    @property
    def bytes(self) -> int:
        """Size of application and model."""
        return self.app_bytes + (self.model.bytes if self.model else 0)

    @property
    def digest(self) -> str:
        """The digest of the release."""
        model = {"name": self.model.name, "digest": self.model.digest} if self.model else None
        return digest({"app": self.app_digest, "model": model, "config": self.config_digest})


def read_sources(project: Project, interrupt: Interrupt) -> Sources:
    """Hash what the project is now. Raises `PreflightRefused` for what is missing or unfit."""
    app = app_directory(project)
    rules = app_rules(project)
    entries = scan(app, rules)
    if not any(not entry.directory for entry in entries):
        raise PreflightRefused(
            f"the application's folder {app} is empty",
            why="nothing in it is left after app.exclude",
            next_step="Set app.directory in opsctl.yaml, then run the same again",
        )
    return Sources(
        app=app,
        app_rules=rules,
        app_digest=manifest_digest(manifest_of(entries, interrupt)),
        app_bytes=total_bytes(entries),
        files=sum(not entry.directory for entry in entries),
        model=read_model(project, interrupt),
        config_digest=digest(_identity(project)),
    )


def app_directory(project: Project) -> Path:
    """The application's folder, absolute. Raises `PreflightRefused` when it is missing."""
    path = project.root / project.service.app.directory
    if not path.is_dir():
        raise PreflightRefused(
            f"the application's folder {path} is missing",
            why="there is no such folder" if not path.exists() else "it is no folder",
            next_step="Set app.directory in opsctl.yaml, then run the same again",
        )
    return path


def app_rules(project: Project) -> ScanRules:
    """What of the application's folder counts: never opsctl's own state, nor a secret's file."""
    service = project.service
    sources = [*service.app.secrets.values(), *(n.secret for n in service.notifications)]
    names = [service.local.state_dir, *(s.file for s in sources if s and s.file)]
    names += [tls.private_key for tls in (service.local.tls, service.docker.tls) if tls]
    return ScanRules(
        service.app.exclude, frozenset((project.root / name).resolve() for name in names)
    )


def read_model(project: Project, interrupt: Interrupt) -> ModelSource | None:
    """The model that opsctl.yaml names, with links resolved once, so that it can't move away."""
    model = project.service.model
    if model is None:
        return None
    source = model_source(project)
    # Model stores keep blobs elsewhere and link to them: followed, as content is what counts.
    rules = ScanRules(("__pycache__",), outside_links=True)
    entries: tuple[Entry, ...] = scan(source, rules)
    if not entries:
        raise PreflightRefused(
            f"the model {source} is empty",
            next_step="Set model.path in opsctl.yaml, then run the same again",
        )
    found = manifest_digest(manifest_of(entries, interrupt))
    directory = source.is_dir()
    suffix = "" if directory else source.suffix
    return ModelSource(
        name=model.name,
        source=source,
        directory=directory,
        digest=digest({"manifest": found, "suffix": suffix}),
        manifest_digest=found,
        bytes=total_bytes(entries),
        rules=rules,
    )


def model_source(project: Project) -> Path:
    """Where the model really lies, links resolved. Raises `PreflightRefused` when it is missing."""
    assert project.service.model is not None
    path = project.root / project.service.model.path
    try:
        source = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PreflightRefused(
            f"the model {path} is missing",
            why="a link in its path leads nowhere" if path.is_symlink() else "no such file",
            next_step="Export the model, or set model.path in opsctl.yaml, then run it again",
        ) from error
    if not os.access(source, os.R_OK, effective_ids=True):
        raise PreflightRefused(
            f"the model {source} can't be read",
            next_step="Make it readable, then run the same again",
        )
    return source


def python_of(project: Project) -> str:
    """The Python for {python}, absolute; a link (as in a virtual environment) stays a link."""
    wanted = project.service.app.python
    if wanted is None:
        return sys.executable
    found = str(project.root / wanted) if os.sep in wanted else shutil.which(wanted)
    if found is None or not os.access(found, os.X_OK):
        raise PreflightRefused(
            f"the Python {wanted} is missing",
            why="there is no such program",
            next_step="Set app.python in opsctl.yaml, then run the same again",
        )
    return os.path.normpath(found)


def launch_of(project: Project, directory: Path, model: ModelArtefact | None) -> Launch:
    """The launch settings of a release whose copy stands in `directory`."""
    app, resources = project.service.app, project.service.resources
    return Launch(
        command=app.command,
        python=python_of(project),
        directory=str(directory),
        model_path=model.path if model else "",
        env=dict(app.env),
        secrets=tuple(sorted(app.secrets)),
        memory_mb=resources.memory_mb,
        cpus=resources.cpus,
        stop_timeout_s=app.stop_timeout_s,
        health=project.service.health,
    )


def _identity(project: Project) -> Json:
    """The launch settings that make two releases different; not where their copies lie."""
    launch = launch_of(project, Path(), None).to_dict()
    del launch["directory"], launch["model_path"]
    return {**launch, "build": list(project.service.app.build)}
