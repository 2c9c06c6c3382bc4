"""Secrets, mirrors and proxies reach the build as BuildKit has them, and are gone afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opsctl.errors import PreflightRefused
from opsctl.images.given import given_to
from opsctl.images.recipe import read_recipe
from tests.images.projects import CPU, make_project

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def files_given(folder: Path, values: dict[str, str], **build: Any) -> tuple[dict[str, str], str]:
    """The secrets' files by name, and the arguments less those."""
    recipe = read_recipe(make_project(folder, {**CPU, **build}))
    with given_to(recipe, folder, lambda: values) as given:
        words = list(given.arguments)
        files: dict[str, str] = {}
        while "--secret" in words:
            at = words.index("--secret")
            name, path = (part.split("=", 1)[1] for part in words[at + 1].split(","))
            assert Path(path).stat().st_mode & 0o777 == 0o600
            files[name] = Path(path).read_text()
            del words[at : at + 2]
    assert not Path(path).exists() if files else True
    return files, " ".join(words)


def test_a_secret_is_a_file_and_never_an_argument(tmp_path: Path) -> None:
    files, words = files_given(tmp_path, {"pip.conf": "hunter2"})
    assert (files, words) == ({"pip.conf": "hunter2"}, "")


def test_an_index_a_mirror_a_proxy_and_certificates_are_files_of_pip_and_apt(
    tmp_path: Path,
) -> None:
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    files, words = files_given(
        tmp_path,
        {},
        sources={
            "index": "https://index.example/simple", "apt_mirror": "https://mirror.example/debian",
            "apt_proxy": "http://apt.example:3142", "proxy": "http://proxy.example:3128",
            "no_proxy": "localhost", "ca_bundle": "ca.pem",
        },
    )  # fmt: skip
    assert files == {
        "ca.pem": CERTIFICATE,
        "pip.conf": "[global]\nindex-url = https://index.example/simple\n",
        "apt.conf": (
            'Acquire::https::CAInfo "/run/secrets/ca.pem";\n'
            'Acquire::http::Proxy "http://apt.example:3142";\n'
            'Acquire::https::Proxy "http://apt.example:3142";\n'
        ),
        "sources.list": "deb https://mirror.example/debian bookworm main\n",
    }
    assert words == (
        "--build-arg HTTP_PROXY=http://proxy.example:3128 "
        "--build-arg HTTPS_PROXY=http://proxy.example:3128 --build-arg NO_PROXY=localhost"
    )


def test_a_configuration_of_ones_own_goes_before_the_made_one(tmp_path: Path) -> None:
    files, _ = files_given(
        tmp_path, {"pip.conf": "own"}, sources={"index": "https://index.example"}
    )
    assert files == {"pip.conf": "own"}


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_is_missing_or_none_is_refused(tmp_path: Path, content: str | None) -> None:
    if content:
        (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(PreflightRefused, match=r"build.sources.ca_bundle"):
        files_given(tmp_path, {}, sources={"ca_bundle": "ca.pem"})


def test_a_mirror_for_a_system_without_apt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PreflightRefused, match="is for Debian and Ubuntu"):
        files_given(
            tmp_path, {}, system="openeuler-24.03", sources={"apt_mirror": "https://mirror.example"}
        )
