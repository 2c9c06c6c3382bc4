"""A compose file of a service: replicas that share no card, behind HAProxy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2

from opsctl.config import placeholders
from opsctl.model import Json
from opsctl.render import npu
from opsctl.render.manifests import as_yaml
from opsctl.render.service_values import HEALTH_PORT, HTTP_PORT, MODEL_MOUNT, PYTHON, whole
from opsctl.resources import template_path

if TYPE_CHECKING:
    from opsctl.config.settings import Project, Service

CONTROL_DEVICES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
"""What every container with a card needs besides /dev/davinciN (chips before 950)."""

ASK_HEALTH = (
    "import sys, urllib.request;"
    "sys.exit(urllib.request.urlopen(sys.argv[1], timeout=8).status != 200)"
)


@dataclass(frozen=True)
class Replica:
    """One replica as the template sees it."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    volumes: list[str]
    devices: list[str]
    cards: list[int]


def render(project: Project, release: str, image: str) -> str:
    """The file's text. `image`: what `docker pull` takes."""
    service, settings = project.service, project.service.compose
    replicas = [_replica(project, release, number) for number in range(1, settings.replicas + 1)]
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["yaml"] = compose_yaml
    context: dict[str, Any] = {
        "balancer_image": settings.balancer_image,
        "port": settings.port,
        "npu": settings.npu,
        "health_path": settings.health_path,
        "memory_limit": memory(settings.memory_limit_mb),
        "memory_reserved": memory(settings.memory_reserved_mb),
        "service": project.service_name,
        "image": image,
        "command": service.app.command,
        "replicas": replicas,
        "secrets": sorted(service.app.secrets),
        "http_port": ports_of(service)[0],
        "health_port": ports_of(service)[1],
        "health_test": _health_test(service),
        "user_id": service.kubernetes.user_id,
        "tmpfs": [
            f"{path}:size={size}m,mode=1777"
            for path, size in service.kubernetes.writable_mb.items()
        ],
        "stop_s": whole(service.strategy.drain_timeout_s + service.app.stop_timeout_s),
        "start_s": whole(service.health.tries * service.health.interval_s),
    }
    context["front"] = _filled(environment, "compose-haproxy.cfg.j2", context)
    return _filled(environment, "compose.yaml.j2", context)


def ports_of(service: Service) -> tuple[int, int]:
    """Where replicas serve and where they tell their health.

    A command that takes no port has its own, which target docker is told.
    """
    taken = {name for word in service.app.command for name in placeholders.names(word)}
    own, usual = service.docker, type(service.docker)()
    told = (own.replica_port, own.health_port)
    if taken & {"port", "health_port"} or told == (usual.replica_port, usual.health_port):
        return HTTP_PORT, HEALTH_PORT
    return told


def memory(mb: int) -> str:
    """Mebibytes as the engine writes them."""
    return f"{mb // 1024}G" if mb % 1024 == 0 else f"{mb}M"


def _filled(environment: jinja2.Environment, name: str, context: Mapping[str, Any]) -> str:
    return environment.from_string(template_path(name).read_text()).render(context)


def compose_yaml(value: object) -> str:
    """A value on one line, in which compose finds no variable to fill in."""
    return as_yaml(value).replace("$", "$$")


def _replica(project: Project, release: str, number: int) -> Replica:
    service, settings = project.service, project.service.compose
    name = f"{project.service_name}-{number}"
    first = (number - 1) * settings.cards
    cards = list(range(first, first + settings.cards))
    by_nodes = settings.npu == "devices" and cards
    volumes = [f"{settings.models}:{MODEL_MOUNT}:ro"]
    if cards:
        mounts = npu.DRIVER if by_nodes else npu.DRIVER[:1]
        volumes += [f"{path}:{path}:ro" for _, path, _ in mounts]
    devices = [f"/dev/davinci{card}" for card in cards] + list(CONTROL_DEVICES)
    return Replica(
        name=name,
        command=_command(service, release, name),
        environment=_environment(service, release, name, [] if by_nodes else cards),
        volumes=volumes,
        devices=devices if by_nodes else [],
        cards=cards,
    )


def _command(service: Service, release: str, replica: str) -> list[str]:
    values = {
        "python": PYTHON,
        "host": "0.0.0.0",
        "port": str(HTTP_PORT),
        "health_port": str(HEALTH_PORT),
        "model": service.compose.model_path,
        "release": release,
        "replica": replica,
    }
    return [placeholders.fill(argument, values) for argument in service.app.command]


def _environment(service: Service, release: str, replica: str, cards: list[int]) -> Json:
    own: Json = {
        "OPSCTL_RELEASE": release,
        "OPSCTL_REPLICA": replica,
        "MODEL_PATH": service.compose.model_path,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **service.app.env,
    }
    if cards:
        own["ASCEND_VISIBLE_DEVICES"] = ",".join(map(str, cards))
    return own


def _health_test(service: Service) -> list[str]:
    settings = service.compose
    if settings.health_command:
        return ["CMD", *settings.health_command]
    url = f"http://127.0.0.1:{ports_of(service)[1]}{settings.health_path}"
    return ["CMD", PYTHON, "-c", ASK_HEALTH, url]
