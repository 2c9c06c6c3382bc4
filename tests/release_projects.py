"""A project with an application and a model on disk, for the tests of releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from opsctl.config.settings import App, Config, Model, Project, Retention, Service
from opsctl.release import Release
from opsctl.releases import LocalReleaseStore


def never() -> None:
    """Nobody interrupts."""


def silent(line: str) -> None:
    """Nobody listens."""


def write_project(root: Path) -> Project:
    """An application of two files, and a model of two files behind the link `production`."""
    app = root / "app"
    (app / "lib").mkdir(parents=True)
    (app / "main.py").write_text("print('one')\n")
    (app / "lib" / "run.sh").write_text("#!/bin/sh\n")
    (app / "lib" / "run.sh").chmod(0o750)
    (root / "models" / "v1" / "variables").mkdir(parents=True)
    (root / "models" / "v1" / "saved_model.pb").write_bytes(b"graph")
    (root / "models" / "v1" / "variables" / "data").write_bytes(b"weights")
    (root / "models" / "production").symlink_to("v1")
    return project_of(
        root,
        Service(
            app=App(directory="app", command=("{python}", "main.py"), env={"MODE": "fast"}),
            model=Model(path="models/production", name="detector"),
            retention=Retention(min_free_mb=0),
        ),
    )


def project_of(root: Path, service: Service) -> Project:
    """The project in `root` with this one service."""
    config = Config(services={"s": service})
    return Project(root / "opsctl.yaml", config, "production", "s", service, "local")


def with_app(project: Project, **changes: Any) -> Project:
    """The project with other settings of its application."""
    service = replace(project.service, app=replace(project.service.app, **changes))
    return replace(project, service=service)


def store_of(project: Project) -> LocalReleaseStore:
    """The releases of the project."""
    return LocalReleaseStore(project.service_dir)


def build(project: Project, name: str | None = None) -> Release:
    """The next release of the project, or the one called `name`."""
    store = store_of(project)
    return store.build(
        project, name or store.next_name(), actor="tester", tell=silent, interrupt=never
    )


def digest_of(project: Project) -> str:
    """The digest that a release would have now."""
    return store_of(project).content_digest(project)
