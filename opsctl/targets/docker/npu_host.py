"""What a Docker host says of its NPUs, and how containers are to get at them."""

from __future__ import annotations

from opsctl.config.settings import Npus
from opsctl.errors import PreflightRefused
from opsctl.model import Json
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.names import NPUS
from opsctl.targets.docker.npus import RUNTIME


def settings_of(engine: Engine, wanted: Npus) -> Json:
    """The `npus` part of a release's limits. Raises PreflightRefused for what the host lacks."""
    return {
        "count": wanted.count,
        "devices": list(wanted.devices),
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


def runtimes(engine: Engine) -> set[str]:
    """Names of the host's container runtimes."""
    with engine.told("cannot ask the engine for its runtimes"):
        return set(engine.api.info().get("Runtimes", {}))


def holders(engine: Engine) -> list[Json]:
    """All containers of the host that hold NPUs, whatever service they are of."""
    with engine.told("cannot list the containers"):
        found: list[Json] = engine.api.containers(all=True, filters={"label": [NPUS]})
    return found
