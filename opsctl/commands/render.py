"""`opsctl render`: the service for other tools."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from opsctl.commands.outcome import Outcome, simple
from opsctl.errors import ConfigError
from opsctl.files import write_atomically

if TYPE_CHECKING:
    import argparse

    from opsctl.config.settings import Project

READABLE = 0o644


def render(project: Project, arguments: argparse.Namespace) -> Outcome:
    """Render what `arguments.action` names; text goes to `arguments.to`, else to the output."""
    if arguments.action == "role":
        return _told(_role(project), arguments.to)
    image = _image(project, arguments.image)
    if arguments.action == "chart":
        return _write_chart(project, arguments.release, image, arguments.to)
    form = {"manifests": _manifests, "compose": _compose}[arguments.action]
    return _told(form(project, arguments.release, image), arguments.to)


def _told(text: str, to: str | None) -> Outcome:
    if to is None:
        return simple("rendered", text.rstrip("\n"), rendered=text)
    path = Path(to)
    try:
        write_atomically(path, text, mode=READABLE)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return simple("rendered", f"wrote {path}", files=[str(path)])


def _image(project: Project, given: str | None) -> str:
    image = given or project.service.app.image or _built(project)
    if not image:
        raise ConfigError(
            f"{project.service_name} has no image to run",
            why="app.image is not set, and opsctl build has made none",
            next_step="Set app.image in opsctl.yaml, or add --image NAME@sha256:DIGEST",
        )
    return image


def _built(project: Project) -> str | None:
    """What `opsctl build`, or a deploy, made last; pinned."""
    from opsctl.images.build import last_built

    made = last_built(project) if project.service.build else None
    return made.reference if made else None


def _manifests(project: Project, release: str, image: str) -> str:
    from opsctl.render import manifests
    from opsctl.render.service_values import release_values, service_values

    values = service_values(project, [release_values(project, release, image)])
    place = manifests.Place(project.service.kubernetes.namespace, project.service_name)
    return manifests.render(values, place)


def _role(project: Project) -> str:
    """Where the cluster decides how traffic is shared, the rights for routes are in it too."""
    from opsctl.targets.kubernetes.permissions import role_yaml

    settings = project.service.kubernetes
    mode = "selector" if settings.traffic == "selector" else "route"
    return role_yaml(settings, mode, project.service_name)


def _compose(project: Project, release: str, image: str) -> str:
    from opsctl.render import compose

    return compose.render(project, release, image)


def _write_chart(project: Project, release: str, image: str, to: str | None) -> Outcome:
    import yaml

    from opsctl.render.service_values import release_values, service_values
    from opsctl.resources import chart_path

    if to is None:
        raise ConfigError("a chart is a folder", next_step="Add --to FOLDER")
    folder = Path(to)
    values = service_values(project, [release_values(project, release, image)])
    named = folder / f"values-{project.service_name}.yaml"
    try:
        shutil.copytree(chart_path(), folder)
        write_atomically(named, yaml.safe_dump(values, sort_keys=False), mode=READABLE)
    except FileExistsError as error:
        raise ConfigError(
            f"{folder} exists already", next_step="Name a folder that does not exist."
        ) from error
    except OSError as error:
        raise _cannot_write(folder, error) from error
    name, namespace = project.service_name, project.service.kubernetes.namespace
    follow = f"helm install {name} {folder} --namespace {namespace} --values {named}"
    return simple("rendered", f"wrote {folder}\nnext: {follow}", files=[str(folder), str(named)])


def _cannot_write(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write {path}", why=error.strerror or str(error), next_step="Name another place."
    )
