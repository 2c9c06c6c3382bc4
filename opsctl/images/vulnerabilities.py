"""A scanner's report (JSON of grype or trivy) against `build.vulnerabilities`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl.config.building import Vulnerabilities
from opsctl.errors import PreflightRefused
from opsctl.model import Json

SEVERITIES = ("unknown", "negligible", "low", "medium", "high", "critical")
SHOWN = 10
"""Findings that a refusal lists."""


@dataclass(frozen=True)
class Finding:
    """One vulnerability of one package. `fixed` is the version with a fix, empty when none."""

    id: str
    severity: str
    package: str
    version: str
    fixed: str

    def __str__(self) -> str:
        fix = f", fixed in {self.fixed}" if self.fixed else ", no fix"
        return f"{self.id} ({self.severity}) in {self.package} {self.version}{fix}"


def require_no_vulnerabilities(policy: Vulnerabilities, root: Path, digest: str) -> int:
    """See that the report is about `digest` and holds nothing at or above the limit.

    How many findings it has that are below. Raises PreflightRefused.
    """
    if policy.report is None:
        return 0
    path = root / policy.report
    report = _read(path)
    digests = set(_digests(report))
    if digest not in digests:
        raise PreflightRefused(
            f"the vulnerability report {path.name} is about another image",
            why=f"it is about {', '.join(sorted(digests)) or 'none'}, not {digest}",
            next_step="Scan this one: grype IMAGE@DIGEST -o json, or trivy image -f json",
        )
    found = list(_findings(report, path))
    refused = [finding for finding in found if _counts(finding, policy)]
    if refused:
        worst = sorted(refused, key=lambda f: (-SEVERITIES.index(f.severity), f.id))
        listed = "\n  ".join(str(finding) for finding in worst[:SHOWN])
        more = f"\n  and {len(worst) - SHOWN} more" if len(worst) > SHOWN else ""
        raise PreflightRefused(
            f"{len(refused)} vulnerabilities of severity {policy.fail_on} or worse",
            why=f"{path.name} has\n  {listed}{more}",
            next_step="Update what has a fix and build again, or accept one by its identifier "
            "(build.vulnerabilities.ignore)",
        )
    return len(found)


def _counts(finding: Finding, policy: Vulnerabilities) -> bool:
    return (
        SEVERITIES.index(finding.severity) >= SEVERITIES.index(policy.fail_on)
        and finding.id not in policy.ignore
        and (bool(finding.fixed) or not policy.only_fixed)
    )


def _read(path: Path) -> Json:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PreflightRefused(
            f"the vulnerability report {path} can't be read",
            why=str(error),
            next_step="Write it with grype IMAGE@DIGEST -o json, or trivy image -f json",
        ) from error
    return data if isinstance(data, dict) else {}


def _digests(report: Json) -> Iterator[str]:
    """Digests of the image that a report is about: manifest's and configuration's."""
    target = report.get("source", {}).get("target", {})
    if isinstance(target, dict):
        yield from filter(None, (target.get("manifestDigest"), target.get("imageID")))
        yield from (name.split("@")[-1] for name in target.get("repoDigests") or ())
    metadata = report.get("Metadata", {})
    yield from (name.split("@")[-1] for name in metadata.get("RepoDigests") or ())
    if metadata.get("ImageID"):
        yield metadata["ImageID"]


def _findings(report: Json, path: Path) -> Iterator[Finding]:
    if "matches" in report:
        yield from map(_grype, report["matches"])
    elif "Results" in report:
        for result in report["Results"]:
            yield from map(_trivy, result.get("Vulnerabilities") or ())
    else:
        raise PreflightRefused(
            f"the vulnerability report {path} is of no known format",
            why="it has neither `matches` (grype) nor `Results` (trivy)",
            next_step="Write it with grype IMAGE@DIGEST -o json, or trivy image -f json",
        )


def _grype(match: dict[str, Any]) -> Finding:
    flaw, package = match["vulnerability"], match["artifact"]
    fixed = (flaw.get("fix") or {}).get("versions") or []
    return Finding(flaw["id"], _severity(flaw.get("severity")), package["name"],
                   package["version"], ", ".join(fixed))  # fmt: skip


def _trivy(flaw: dict[str, Any]) -> Finding:
    return Finding(flaw["VulnerabilityID"], _severity(flaw.get("Severity")), flaw["PkgName"],
                   flaw["InstalledVersion"], flaw.get("FixedVersion", ""))  # fmt: skip


def _severity(word: str | None) -> str:
    lower = (word or "unknown").lower()
    return lower if lower in SEVERITIES else "unknown"
