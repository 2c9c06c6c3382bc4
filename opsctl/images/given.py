"""What a build may know and an image must not: secrets, mirrors, proxies, certificates.

Each becomes a BuildKit secret, a file that only the step that names it sees: it is in no layer, no
history and no cache key. Proxies are build arguments that BuildKit itself keeps out of the history.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opsctl.config.building import Build, Sources
from opsctl.errors import PreflightRefused
from opsctl.images.recipe import Recipe

SUITES = {
    "debian-12": ("bookworm", "main"),
    "debian-13": ("trixie", "main"),
    "ubuntu-18.04": ("bionic", "main universe"),
    "ubuntu-20.04": ("focal", "main universe"),
    "ubuntu-22.04": ("jammy", "main universe"),
    "ubuntu-24.04": ("noble", "main universe"),
}
"""Name and components of a system's packages on a mirror."""

CA_BUNDLE = "ca.pem"


@dataclass(frozen=True)
class Given:
    """Arguments for `docker buildx build`, and the values that no output may show."""

    arguments: tuple[str, ...]
    values: Mapping[str, str]


@contextlib.contextmanager
def given_to(
    recipe: Recipe, root: Path, resolve: Callable[[], Mapping[str, str]]
) -> Iterator[Given]:
    """Secrets as files of mode 0600, gone afterwards. `resolve` gives `build.secrets`' values."""
    values = dict(resolve())
    files = {**_generated(recipe, root), **values}
    with tempfile.TemporaryDirectory(prefix="opsctl-secrets-") as folder:
        arguments: list[str] = []
        for name, text in files.items():
            path = Path(folder) / name
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            arguments += ["--secret", f"id={name},src={path}"]
        yield Given((*arguments, *_proxies(recipe.build.sources)), values)


def _generated(recipe: Recipe, root: Path) -> dict[str, str]:
    """Configuration files of pip and apt, as `build.sources` says."""
    sources = recipe.build.sources
    made: dict[str, str] = {}
    bundle = _ca_bundle(sources, root)
    if bundle:
        made[CA_BUNDLE] = bundle
    if sources.index:
        made["pip.conf"] = f"[global]\nindex-url = {sources.index}\n"
    lines = ['Acquire::https::CAInfo "/run/secrets/ca.pem";'] if bundle else []
    if sources.apt_proxy:
        lines += [f'Acquire::{kind}::Proxy "{sources.apt_proxy}";' for kind in ("http", "https")]
    if lines:
        made["apt.conf"] = "\n".join(lines) + "\n"
    if sources.apt_mirror:
        made["sources.list"] = _sources_list(recipe.build, sources.apt_mirror)
    return made


def _sources_list(build: Build, mirror: str) -> str:
    if build.system not in SUITES:
        raise PreflightRefused(
            f"build.sources.apt_mirror is for Debian and Ubuntu, and the system is {build.system}",
            next_step="Leave it out; a base image with other repositories configured does the same",
        )
    suite, components = SUITES[build.system]
    return f"deb {mirror} {suite} {components}\n"


def _ca_bundle(sources: Sources, root: Path) -> str:
    if sources.ca_bundle is None:
        return ""
    path = root / sources.ca_bundle
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise PreflightRefused(
            f"build.sources.ca_bundle {path} can't be read", why=error.strerror or ""
        ) from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise PreflightRefused(
            f"build.sources.ca_bundle {path} holds no certificate",
            next_step="It is a PEM file: -----BEGIN CERTIFICATE-----",
        )
    return text


def _proxies(sources: Sources) -> list[str]:
    arguments = []
    for names, value in (
        (("HTTP_PROXY", "HTTPS_PROXY"), sources.proxy),
        (("NO_PROXY",), sources.no_proxy),
    ):
        if value:
            arguments += [word for name in names for word in ("--build-arg", f"{name}={value}")]
    return arguments
