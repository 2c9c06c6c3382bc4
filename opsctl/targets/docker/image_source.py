"""The image of a release: a name that may move, made a digest once and for all."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opsctl.errors import BuildFailed, ConfigError, PreflightRefused, TargetUnreachable
from opsctl.targets.docker.engine import Engine, Missing

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of uname(2) beside those of images."""

INTERRUPT_S = 0.1
"""How often a pull asks whether it is still wanted."""

ERROR_NEXT = "See that the registry answers (docker pull {0}), or name another app.image"


@dataclass(frozen=True)
class Image:
    """An image by content. `reference` is what containers are made of, and what is pulled."""

    reference: str
    """`NAME@sha256:…`; the image's id when it was built on the host and is in no registry."""
    id: str
    user: str
    has_health: bool
    architecture: str

    @property
    def digest(self) -> str:
        """`sha256:…` of the reference."""
        return self.reference.rpartition("@")[2]


def find(engine: Engine, name: str) -> str:
    """The reference by digest of `name` now; nothing is pulled.

    A tag is asked of its registry. An image that was built on the host and never pushed is known
    by its id. Raises BuildFailed when neither knows it.
    """
    if "@" in name:
        return name
    try:
        with engine.told(f"cannot find the image {name}"):
            found = engine.api.inspect_distribution(name)["Descriptor"]["digest"]
    except TargetUnreachable as error:
        local = _local(engine, name)
        if local is not None and not _pulled_from(local, name):
            return str(local["Id"])
        raise BuildFailed(
            f"cannot tell which image {name} is",
            why=f"its registry gives no digest: {error.why}",
            next_step=f"{ERROR_NEXT.format(name)}, or pin it: NAME@sha256:DIGEST.",
        ) from error
    return f"{repository(name)}@{found}"


def architectures(engine: Engine, name: str) -> tuple[str, ...]:
    """What machines `name` is for, without pulling it; empty when nobody can tell."""
    local = _local(engine, name)
    if local is not None:
        return (local["Architecture"],)
    try:
        with engine.told(f"cannot find the image {name}"):
            platforms = engine.api.inspect_distribution(name).get("Platforms") or ()
    except TargetUnreachable:
        return ()
    return tuple(one.get("architecture", "") for one in platforms)


def host_architecture(engine: Engine) -> str:
    """The engine's machine, by the name that images use."""
    with engine.told("cannot ask the engine for its architecture"):
        here = str(engine.api.version()["Arch"])
    return ARCHITECTURES.get(here, here)


def fetch(
    engine: Engine, reference: str, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> Image:
    """The image on the host, pulled when it isn't there; a pull ends when `interrupt` raises.

    Raises BuildFailed, or PreflightRefused for an image of another architecture.
    """
    info = _local(engine, reference)
    if info is None:
        tell(f"pulling {reference}")
        _pull(engine, reference, interrupt)
        info = _local(engine, reference)
    if info is None:
        raise BuildFailed(f"the image {reference} is gone right after it was pulled")
    config = info.get("Config") or {}
    image = Image(
        reference=reference,
        id=info["Id"],
        user=config.get("User") or "",
        has_health=bool(config.get("Healthcheck")),
        architecture=info["Architecture"],
    )
    _require_architecture(engine, image)
    return image


def repository(name: str) -> str:
    """`host:5000/team/app` of `host:5000/team/app:v2`."""
    head, slash, leaf = name.rpartition("/")
    return f"{head}{slash}{leaf.partition(':')[0]}"


def _local(engine: Engine, name: str) -> Mapping[str, Any] | None:
    try:
        with engine.told(f"cannot look at the image {name}"):
            info: Mapping[str, Any] = engine.api.inspect_image(name)
    except Missing:
        return None
    return info


def _pulled_from(info: Mapping[str, Any], name: str) -> bool:
    """Whether a registry gave the host this image under its name: then its tag may have moved."""
    wanted = repository(name).removeprefix("docker.io/").removeprefix("library/")
    return any(digest.rpartition("@")[0] == wanted for digest in info.get("RepoDigests") or ())


def _pull(engine: Engine, reference: str, interrupt: Callable[[], None]) -> None:
    """Pull in a thread, as a registry that hangs says nothing for minutes."""
    problems: queue.Queue[str] = queue.Queue()

    def pull() -> None:
        try:
            with engine.lasting(f"cannot pull {reference}") as api:
                for line in api.pull(reference, stream=True, decode=True):
                    if "error" in line:
                        problems.put(line["error"])
        except TargetUnreachable as error:
            problems.put(error.why)

    thread = threading.Thread(target=pull, daemon=True)
    thread.start()
    while thread.is_alive():
        interrupt()
        thread.join(INTERRUPT_S)
    if not problems.empty():
        raise BuildFailed(
            f"cannot pull {reference}",
            why=problems.get(),
            next_step=f"{ERROR_NEXT.format(reference)}.",
        )


def _require_architecture(engine: Engine, image: Image) -> None:
    host = host_architecture(engine)
    if image.architecture != host:
        raise PreflightRefused(
            f"the image {image.reference} can't run on this host",
            why=f"it is for {image.architecture}, the host is {host}",
            next_step=f"Build it for {host}, or name another app.image.",
        )


def replica_user(wanted: str, image: Image) -> str:
    """The user of a replica, never root. Raises ConfigError for one that is."""
    if wanted != "auto":
        if is_root(wanted):
            raise ConfigError(
                f"docker.user is {wanted}",
                why="replicas never run as root",
                next_step="Name another user: uid or uid:gid.",
            )
        return wanted
    return "10001:10001" if is_root(image.user) else image.user


def is_root(user: str) -> bool:
    """Whether a `USER` of an image means root."""
    return user.partition(":")[0] in ("", "root", "0")
