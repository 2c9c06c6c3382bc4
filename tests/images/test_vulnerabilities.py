"""Reports of grype and trivy against the limits of opsctl.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opsctl.config.building import Vulnerabilities
from opsctl.errors import PreflightRefused
from opsctl.images.vulnerabilities import require_no_vulnerabilities

DIGEST = f"sha256:{'ab' * 32}"


def grype(*flaws: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "matches": [
            {
                "vulnerability": {"id": name, "severity": severity,
                                  "fix": {"state": "fixed", "versions": [fix] if fix else []}},
                "artifact": {"name": "openssl", "version": "3.0.15"},
            }
            for name, severity, fix in flaws
        ],
        "source": {"type": "image", "target": {"manifestDigest": DIGEST, "repoDigests": []}},
    }  # fmt: skip


def trivy(*flaws: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "SchemaVersion": 2,
        "Metadata": {"RepoDigests": [f"registry.example/web@{DIGEST}"]},
        "Results": [
            {
                "Target": "debian 12",
                "Vulnerabilities": [
                    {"VulnerabilityID": name, "Severity": severity.upper(), "PkgName": "openssl",
                     "InstalledVersion": "3.0.15", **({"FixedVersion": fix} if fix else {})}
                    for name, severity, fix in flaws
                ],
            },
            {"Target": "no findings"},
        ],
    }  # fmt: skip


FORMS = pytest.mark.parametrize("form", [grype, trivy], ids=["grype", "trivy"])


def judge(folder: Path, report: object, **policy: Any) -> int:
    (folder / "scan.json").write_text(json.dumps(report))
    return require_no_vulnerabilities(Vulnerabilities(report="scan.json", **policy), folder, DIGEST)


def refusal(folder: Path, report: object, **policy: Any) -> PreflightRefused:
    with pytest.raises(PreflightRefused) as caught:
        judge(folder, report, **policy)
    assert caught.value.exit_code == 4
    return caught.value


@FORMS
def test_what_is_below_the_limit_passes_and_is_counted(tmp_path: Path, form: Any) -> None:
    assert judge(tmp_path, form(("CVE-1", "High", "3.0.16"), ("CVE-2", "Low", ""))) == 2


@FORMS
def test_what_is_at_the_limit_is_refused_worst_first(tmp_path: Path, form: Any) -> None:
    report = form(("CVE-1", "High", "3.0.16"), ("CVE-2", "Critical", ""), ("CVE-3", "Medium", ""))
    refused = refusal(tmp_path, report, fail_on="high")
    assert refused.what == "2 vulnerabilities of severity high or worse"
    assert refused.why == (
        "scan.json has\n  CVE-2 (critical) in openssl 3.0.15, no fix"
        "\n  CVE-1 (high) in openssl 3.0.15, fixed in 3.0.16"
    )


@FORMS
def test_an_accepted_one_does_not_count(tmp_path: Path, form: Any) -> None:
    assert judge(tmp_path, form(("CVE-2", "Critical", "")), ignore=("CVE-2",)) == 1


@FORMS
def test_only_fixed_leaves_out_what_nobody_can_mend(tmp_path: Path, form: Any) -> None:
    report = form(("CVE-1", "Critical", "3.0.16"), ("CVE-2", "Critical", ""))
    refused = refusal(tmp_path, report, only_fixed=True)
    assert refused.what == "1 vulnerabilities of severity critical or worse"


@FORMS
def test_a_report_about_another_image_is_refused(tmp_path: Path, form: Any) -> None:
    text = json.dumps(form()).replace(DIGEST, f"sha256:{'cd' * 32}")
    refused = refusal(tmp_path, json.loads(text))
    assert refused.what == "the vulnerability report scan.json is about another image"


@pytest.mark.parametrize("report", [{"source": {"target": {"imageID": DIGEST}}}, []])
def test_a_report_of_no_known_format_is_refused(tmp_path: Path, report: object) -> None:
    assert refusal(tmp_path, report).exit_code == 4


def test_a_missing_report_is_refused_and_not_taken_for_a_clean_one(tmp_path: Path) -> None:
    with pytest.raises(PreflightRefused, match="can't be read"):
        require_no_vulnerabilities(Vulnerabilities(report="gone.json"), tmp_path, DIGEST)
