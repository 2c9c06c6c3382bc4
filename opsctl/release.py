"""A release as a value: what release.json holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opsctl.config.settings import Health
from opsctl.errors import ConfigError
from opsctl.model import Json

FORMAT = 1
"""Format of release.json; a newer one is refused, never guessed."""


@dataclass(frozen=True)
class ModelArtefact:
    """The model that a release serves. `path` is its kept copy, `source` where it came from."""

    name: str
    digest: str
    path: str
    source: str = ""

    def to_dict(self) -> Json:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Launch:
    """How a replica is started. `command` still holds its placeholders, `secrets` only names."""

    command: tuple[str, ...]
    python: str
    directory: str
    model_path: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    memory_mb: int | None = None
    cpus: tuple[int, ...] = ()
    stop_timeout_s: float = 30.0
    health: Health = field(default_factory=Health)
    image: str = ""
    """The image by digest, on targets whose replicas are containers."""
    container: Mapping[str, Any] = field(default_factory=dict)
    """Limits and devices of its containers (opsctl.targets.docker.container)."""

    def to_dict(self) -> Json:
        # Not told where they say nothing: digests of releases without a container stay the same.
        own = {k: v for k, v in vars(self).items() if v or k not in ("image", "container")}
        return {
            **own,
            "command": list(self.command),
            "env": dict(self.env),
            "secrets": list(self.secrets),
            "cpus": list(self.cpus),
            "health": dataclasses.asdict(self.health),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Launch:
        return cls(
            **{
                **data,
                "command": tuple(data["command"]),
                "secrets": tuple(data["secrets"]),
                "cpus": tuple(data["cpus"]),
                "health": Health(**data["health"]),
            }
        )


@dataclass(frozen=True)
class Release:
    """One immutable version of the service.

    `digest` identifies its sources (application, model, launch settings): equal sources give equal
    digests on any machine with the same paths. `built_digest` identifies what `app.build` made.
    `created` is in unix seconds.
    """

    name: str
    digest: str
    created: float
    app_digest: str
    model: ModelArtefact | None
    config_digest: str
    launch: Launch
    built_digest: str = ""
    created_by: str = ""

    @property
    def number(self) -> int:
        """12 of r12."""
        return int(self.name[1:])

    def to_dict(self) -> Json:
        return {
            "format": FORMAT,
            **self.__dict__,
            "model": self.model.to_dict() if self.model else None,
            "launch": self.launch.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Release:
        """The release of a release.json. Raises `ConfigError` for a newer format."""
        values = dict(data)
        if values.pop("format") > FORMAT:
            raise ConfigError(
                f"release {data['name']} was written by a newer opsctl",
                why=f"its format is {data['format']}, this opsctl knows {FORMAT}",
                next_step="Update opsctl, then run the same again",
            )
        values["model"] = ModelArtefact(**data["model"]) if data["model"] else None
        values["launch"] = Launch.from_dict(data["launch"])
        return cls(**values)
