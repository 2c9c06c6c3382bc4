"""The image of a release: a name that may move, made a digest once and for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opsctl.errors import BuildFailed, ConfigError, PreflightRefused, TargetUnreachable
from opsctl.targets.docker.engine import Engine, Missing

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of uname(2) beside those of images."""

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


def fetch(engine: Engine, reference: str, tell: Callable[[str], None]) -> Image:
    """The image on the host, pulled when it isn't there. Raises BuildFailed, PreflightRefused."""
    info = _local(engine, reference)
    if info is None:
        tell(f"pulling {reference}")
        _pull(engine, reference)
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


def _pull(engine: Engine, reference: str) -> None:
    what = f"cannot pull {reference}"
    next_step = f"{ERROR_NEXT.format(reference)}."
    try:
        with engine.lasting(what) as api:
            for line in api.pull(reference, stream=True, decode=True):
                if "error" in line:
                    raise BuildFailed(what, why=line["error"], next_step=next_step)
    except TargetUnreachable as error:
        raise BuildFailed(what, why=error.why, next_step=next_step) from error


def _require_architecture(engine: Engine, image: Image) -> None:
    with engine.told("cannot ask the engine for its architecture"):
        here = engine.api.version()["Arch"]
    host = ARCHITECTURES.get(here, here)
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
