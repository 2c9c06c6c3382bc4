"""What a Docker host says of its NPUs, and how containers are to get at them."""

from __future__ import annotations

import re

from opsctl.config.settings import Npus
from opsctl.errors import PreflightRefused
from opsctl.model import Json
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.names import NPUS
from opsctl.targets.docker.npus import RUNTIME


def settings_of(engine: Engine, wanted: Npus, image: str) -> Json:
    """The `npus` part of a release's limits. Raises PreflightRefused for what the host lacks.

    `image` is one that the host has, to look at its devices with.
    """
    return {
        "count": wanted.count,
        "devices": list(wanted.devices) or inventory(engine, image),
        "access": access_of(engine, wanted),
        "share": wanted.share,
        "driver_dir": wanted.driver_dir,
    }


def access_of(engine: Engine, wanted: Npus) -> str:
    """`runtime` where the host has the vendor's, else `devices`. Raises PreflightRefused."""
    has_runtime = RUNTIME in runtimes(engine)
    if wanted.access == "runtime" and not has_runtime:
        raise PreflightRefused(
            f"the Docker host has no runtime {RUNTIME}",
            why=f"it has {', '.join(sorted(runtimes(engine)))}",
            next_step="Install the vendor's container runtime, or set docker.npus.access: devices.",
        )
    if wanted.access == "auto":
        return "runtime" if has_runtime else "devices"
    return wanted.access


def inventory(engine: Engine, image: str) -> list[int]:
    """Numbers of the NPUs whose device nodes the host has. Raises PreflightRefused without any."""
    config = {
        "Image": image,
        "Entrypoint": ["ls", "/host-dev"],
        "HostConfig": {"NetworkMode": "none", "Binds": ["/dev:/host-dev:ro"]},
    }
    api = engine.api
    with engine.told("cannot look at the host's devices"):
        made = api.create_container_from_config(config)["Id"]
        try:
            api.start(made)
            api.wait(made)
            listed = api.logs(made, stderr=False).decode(errors="replace")
        finally:
            api.remove_container(made, force=True)
    found = sorted(int(number) for number in re.findall(r"^davinci(\d+)$", listed, re.MULTILINE))
    if not found:
        raise PreflightRefused(
            "the Docker host shows no NPU",
            why="there is no /dev/davinci* on it",
            next_step="Install the driver, or set docker.npus.count: 0.",
        )
    return found


def runtimes(engine: Engine) -> set[str]:
    """Names of the host's container runtimes."""
    with engine.told("cannot ask the engine for its runtimes"):
        return set(engine.api.info().get("Runtimes", {}))


def holders(engine: Engine) -> list[Json]:
    """All containers of the host that hold NPUs, whatever service they are of."""
    with engine.told("cannot list the containers"):
        found: list[Json] = engine.api.containers(all=True, filters={"label": [NPUS]})
    return found
