"""`opsctl init --from-compose FILE`: opsctl.yaml for a service that runs by a compose file."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opsctl import shell
from opsctl.commands import compose_file
from opsctl.commands.compose_file import Found, Taken
from opsctl.commands.outcome import Outcome, simple
from opsctl.errors import ConfigError, TargetUnreachable

READ_MAX_S = 60.0
HEADER = """\
# Made by opsctl from {file}, service {service}. `opsctl config docs` explains every key.
"""
NEXT = """\
next: opsctl deploy, on a port of its own while compose still serves; then move the users.
back: opsctl render compose --to compose.yaml; docker compose up --detach; opsctl down"""


def from_compose(
    file: Path, directory: Path, wanted: str | None, *, name: str | None, dry_run: bool
) -> Outcome:
    """Write opsctl.yaml into `directory`, of the file's service `wanted`, which is `name` there.

    Raises ConfigError, and has then written nothing.
    """
    target = directory / "opsctl.yaml"
    if target.exists() or target.is_symlink():
        raise ConfigError(
            f"{target} is there already",
            why="init never overwrites a file; nothing was written",
            next_step="Name another folder: opsctl init DIR --from-compose FILE",
        )
    found = _found(file, wanted)
    taken = compose_file.take(found)
    text = _text(file, found.name, name or _service_name(found.name), taken)
    _require_valid(text)
    notes = "\n".join(f"look at: {note}" for note in taken.notes)
    if dry_run:
        return simple("dry_run", f"{text}{notes}", files=[str(target)], notes=taken.notes)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise ConfigError(
            f"cannot write {target}",
            why=error.strerror or str(error),
            next_step="Name another folder: opsctl init DIR --from-compose FILE",
        ) from error
    lines = [f"wrote {target}", notes, NEXT]
    return simple("written", "\n".join(filter(None, lines)), files=[str(target)], notes=taken.notes)


def _text(file: Path, service: str, name: str, taken: Taken) -> str:
    import yaml

    data = {
        "services": {name: taken.service},
        "environments": {"production": {"target": "docker"}},
    }
    notes = "".join(f"# Look at: {note}\n" for note in taken.notes)
    head = HEADER.format(file=file.name, service=service)
    return head + notes + yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _require_valid(text: str) -> None:
    """Raises ConfigError, which lists what opsctl.yaml can't say."""
    from opsctl.config.load import load_document

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "opsctl.yaml"
        path.write_text(text, encoding="utf-8")
        load_document(path)


def _service_name(name: str) -> str:
    """The nearest name that opsctl takes."""
    words = re.sub("[^a-z0-9]+", "-", name.lower())
    return re.sub("^[-0-9]+", "", words)[:63].strip("-") or "service"


def _found(file: Path, wanted: str | None) -> Found:
    services = _resolved(file)
    name = _chosen(file, services, wanted)
    data = services[name]
    if not data.get("image"):
        raise ConfigError(
            f"service {name} of {file} names no image",
            why="opsctl deploys images, by digest",
            next_step="Build it and push it, and name it there (image:); or see opsctl build",
        )
    return Found(name, data, _literal(file, name), _argv(data))


def _resolved(file: Path) -> Mapping[str, Any]:
    """The services as compose itself reads the file: included, extended and filled in."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}", next_step="Name one: --from-compose FILE")
    command = ["docker", "compose", "--file", str(file), "config", "--format", "json"]
    done = shell.run(command, timeout_s=READ_MAX_S)
    if not done.ok:
        raise ConfigError(
            f"docker compose does not take {file}",
            why=done.stderr.strip() or done.why,
            next_step="Set the variables that it needs; see: docker compose config"
            if shutil.which("docker")
            else "Install Docker with its plugin compose.",
        )
    services: Mapping[str, Any] = json.loads(done.stdout)["services"]
    return services


def _chosen(file: Path, services: Mapping[str, Any], wanted: str | None) -> str:
    if wanted in services:
        return str(wanted)
    names = ", ".join(sorted(services))
    if wanted is None and len(services) == 1:
        return next(iter(services))
    what = f"{file} has no service {wanted}" if wanted else f"{file} has {len(services)} services"
    raise ConfigError(what, why=f"there are: {names}", next_step="Say which one: --service NAME")


def _literal(file: Path, name: str) -> frozenset[str]:
    """Names of variables whose values stand in the file itself: only these are copied."""
    import yaml

    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return frozenset()  # compose reads more than we do: then none of them is
    service = (raw.get("services") or {}).get(name) or {}
    return compose_file.literal_names(service.get("environment"))


def _argv(data: Mapping[str, Any]) -> Sequence[str]:
    """The whole command: the file's, with what the image says where the file is silent."""
    entrypoint, command = data.get("entrypoint"), data.get("command")
    if entrypoint is not None:
        argv = [*entrypoint, *(command or ())]
    else:
        own = _image_config(str(data["image"]))
        argv = [*(own.get("Entrypoint") or ()), *(command or own.get("Cmd") or ())]
    if not argv:
        raise ConfigError(
            f"{data['image']} says no command",
            why="neither the compose file nor the image has one",
            next_step="Name it in the compose file (command:)",
        )
    return argv


def _image_config(image: str) -> Mapping[str, Any]:
    """What an image of the engine says of its command. Raises ConfigError."""
    from opsctl.config.settings import Docker
    from opsctl.targets.docker.engine import Engine

    engine = Engine(Docker())
    try:
        with engine.told(f"cannot look at the image {image}"):
            config: Mapping[str, Any] = engine.api.inspect_image(image)["Config"] or {}
            return config
    except TargetUnreachable as error:
        raise ConfigError(
            f"the command of {image} is not known",
            why=f"the compose file leaves it to the image; {error.what}: {error.why}",
            next_step=f"Run: docker pull {image}; or name entrypoint and command in the file",
        ) from error
    finally:
        engine.close()
