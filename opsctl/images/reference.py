"""Names of images: registry, repository, tag and digest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opsctl.errors import ConfigError

DOCKER_HUB = "registry-1.docker.io"
"""Where names without a registry are, as each engine has it."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+|/)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Reference:
    """One image. `tag` or `digest` may be empty."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Registry and repository, as they were written."""
        return f"{self.registry}/{self.repository}" if self.registry else self.repository

    @property
    def url(self) -> str:
        """Where the registry's API is. Loopback is asked without TLS, as each engine does."""
        host = self.registry or DOCKER_HUB
        plain = host.rsplit(":", 1)[0] in _LOOPBACK or host in _LOOPBACK
        return f"{'http' if plain else 'https'}://{host}"

    @property
    def path(self) -> str:
        """The repository as the registry's API has it."""
        if self.registry or "/" in self.repository:
            return self.repository
        return f"library/{self.repository}"

    def pinned(self, digest: str) -> Reference:
        return Reference(self.registry, self.repository, "", digest)

    def tagged(self, tag: str) -> Reference:
        return Reference(self.registry, self.repository, tag)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")


def parse(text: str) -> Reference:
    """An image's name. Raises ConfigError."""
    rest, _, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    registry, path = "", rest
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, path = head, tail
    repository, _, tag = path.partition(":")
    wrong = (
        not _REPOSITORY.fullmatch(repository)
        or ("@" in text and not _DIGEST.fullmatch(digest))
        or (":" in path and not _TAG.fullmatch(tag))
    )
    if wrong:
        raise ConfigError(
            f"{text!r} is no name of an image",
            why="it is REGISTRY/REPOSITORY, then :TAG or @sha256:DIGEST; in lower case",
            next_step="Correct it, then run the same again",
        )
    return Reference(registry, repository, tag, digest)
