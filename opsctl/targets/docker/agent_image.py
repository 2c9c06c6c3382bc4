"""The image of agent and balancer: built on the Docker host from opsctl's files, once a version."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from opsctl.config.settings import Docker
from opsctl.errors import TargetUnreachable
from opsctl.resources import template_path
from opsctl.targets.docker.engine import Engine, Missing

PACKAGE = Path(__file__).resolve().parents[2]
DOCKERFILE = PACKAGE / "templates" / "agent.Dockerfile"
PARTS = ("*.py", "config/*.py", "targets/*.py", "targets/supervisor/*.py", "targets/docker/**/*.py")
"""Of the package; the build fails when the agent needs more."""

TEMPLATES = ("haproxy.cfg.j2",)
"""What the agent renders."""

PROXIES = ("http_proxy", "https_proxy", "no_proxy")
ERROR_LINES = 10


def build_digest(base: str) -> str:
    """Names what the agent's image would hold: equal digests are equal agents."""
    found = hashlib.sha256(base.encode())
    for name, data in _files():
        found.update(f"{name}\0{len(data)}\0".encode())
        found.update(data)
    return found.hexdigest()[:12]


def require_image(engine: Engine, settings: Docker, tell: Callable[[str], None]) -> str:
    """The id of the agent's image, pulled or built when the host has none.

    Raises TargetUnreachable when that fails.
    """
    name = settings.agent_image or f"opsctl-agent:{build_digest(settings.agent_base)}"
    try:
        return _id_of(engine, name)
    except Missing:
        tell(f"preparing the agent's image {name} (once a version)")
    if settings.agent_image:
        _pull(engine, name)
    else:
        _build(engine, name, settings.agent_base)
    return _id_of(engine, name)


def _id_of(engine: Engine, name: str) -> str:
    with engine.told(f"cannot find the image {name}"):
        return str(engine.api.inspect_image(name)["Id"])


def _pull(engine: Engine, name: str) -> None:
    with engine.lasting(f"cannot pull the agent's image {name}") as api:
        for line in api.pull(name, stream=True, decode=True):
            if "error" in line:
                raise TargetUnreachable(
                    f"cannot pull the agent's image {name}",
                    why=line["error"],
                    next_step="Change docker.agent_image, or log in with: docker login",
                )


def _build(engine: Engine, name: str, base: str) -> None:
    proxies = {key: os.environ[key] for key in PROXIES if os.environ.get(key)}
    said: list[str] = []
    with engine.lasting("cannot build the agent's image") as api:
        lines = api.build(
            fileobj=_context(),
            custom_context=True,
            tag=name,
            rm=True,
            forcerm=True,
            decode=True,
            buildargs={"BASE": base, **proxies},
            labels={"io.opsctl.agent": name},
        )
        for line in lines:
            said.append(line.get("stream", "").strip())
            if "error" in line:
                tail = " | ".join([*filter(None, said)][-ERROR_LINES:])
                raise TargetUnreachable(
                    "cannot build the agent's image",
                    why=f"{line['error']}; last lines: {tail}",
                    next_step="Set docker.agent_base to a Debian 12 image that the host has,"
                    " or docker.agent_image to a ready image",
                )


def _context() -> io.BytesIO:
    """The build's context as a tar archive, equal for equal files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in _files():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    buffer.seek(0)
    return buffer


def _files() -> Iterator[tuple[str, bytes]]:
    """Dockerfile, package and templates, sorted by name."""
    yield "Dockerfile", DOCKERFILE.read_bytes()
    for path in sorted(path for part in PARTS for path in PACKAGE.glob(part)):
        yield f"opsctl/{path.relative_to(PACKAGE)}", path.read_bytes()
    for name in TEMPLATES:
        yield f"manifests/{name}", template_path(name).read_bytes()
