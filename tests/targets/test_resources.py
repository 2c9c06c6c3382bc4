"""Templates are found in a checkout and in an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl import resources


def test_a_template_is_found_in_the_checkout() -> None:
    path = resources.template_path("haproxy.cfg.j2")
    assert path == Path(__file__).parents[2] / "manifests" / "haproxy.cfg.j2"


def test_a_template_is_found_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "opsctl" / "_data" / "manifests"
    folder.mkdir(parents=True)
    (folder / "haproxy.cfg.j2").write_text("x")
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "opsctl")
    assert resources.template_path("haproxy.cfg.j2") == folder / "haproxy.cfg.j2"


def test_an_incomplete_installation_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "opsctl")
    with pytest.raises(FileNotFoundError, match=r"haproxy\.cfg\.j2 is missing"):
        resources.template_path("haproxy.cfg.j2")
