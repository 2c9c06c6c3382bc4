"""What an image must fulfil before anything of it is started; `deploy` asks here (exit 4)."""

from __future__ import annotations

from dataclasses import dataclass

from opsctl.config.settings import Project
from opsctl.errors import PreflightRefused
from opsctl.images.reference import parse
from opsctl.images.registry import Registry
from opsctl.images.signing import require_signed
from opsctl.images.vulnerabilities import require_no_vulnerabilities


@dataclass(frozen=True)
class Admitted:
    """What was checked: names of signatures, and findings that are below the limit."""

    signatures: tuple[str, ...]
    findings: int


def require_policy(project: Project, reference: str) -> Admitted:
    """See that the image may run. Raises PreflightRefused; RegistryFailed when it can't be asked.

    `reference` is pinned (NAME@sha256:…): what was checked is what will run, wherever its tag goes.
    """
    build = project.service.build
    if build is None or not (build.signing.public_key or build.vulnerabilities.report):
        return Admitted((), 0)
    digest = parse(reference).digest if "@" in reference else ""
    if not digest:
        raise PreflightRefused(
            f"the image {reference} is not pinned by a registry's digest",
            why="a signature belongs to one digest",
            next_step="Push it (build.push: true), then use NAME@sha256:DIGEST",
        )
    if build.signing.public_key:
        Registry(parse(reference)).require()  # so that no answer is not taken for no signature
    signatures = require_signed(build.signing, project.root, reference)
    findings = require_no_vulnerabilities(build.vulnerabilities, project.root, digest)
    return Admitted(signatures, findings)
