"""What a build is given, and the key that says whether there is anything to build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from opsctl.images.context import (
    content_key,
    foundation_key,
    labels_of,
    staged,
    write_dockerfile,
)
from opsctl.images.recipe import Recipe, read_recipe
from tests.images.projects import CPU, OPERATORS, make_project

BUILD = {**CPU, **OPERATORS, "extra_operators": ["kernels/scale"]}


def nothing() -> None:
    return None


def recipe_in(folder: Path, **changes: Any) -> Recipe:
    return read_recipe(make_project(folder, {**BUILD, **changes}))


def key_in(folder: Path, **changes: Any) -> str:
    return content_key(recipe_in(folder, **changes), nothing)


def test_two_clones_in_different_folders_have_the_same_key(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "deep" / "er" / "b"
    one = key_in(first)
    two = key_in(second)
    os.utime(second / "app" / "main.py", (1, 1))
    assert one == two == key_in(second)


def test_where_packages_come_from_who_builds_and_who_signs_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    plain = key_in(tmp_path)
    changed = key_in(
        tmp_path,
        sources={"index": "https://index.example", "apt_mirror": "https://mirror.example",
                 "proxy": "http://proxy.example", "ca_bundle": "ca.pem"},
        builder="tcp://builder.example:1234",
        cache="registry.example/cache",
        signing={"private_key": "cosign.key"},
        secrets={"pip.conf": {"env": "PIP_CONF"}},
    )  # fmt: skip
    assert changed == plain


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("app/main.py", "print('changed')\n"),
        ("requirements.txt", f"tensorflow-cpu==2.21.0 --hash=sha256:{'dd' * 32}\n"),
        ("kernels/scale/scale.cpp", "int changed;\n"),
        ("tools.txt", f"cmake==4.2.0 --hash=sha256:{'ef' * 32}\n"),
    ],
)
def test_a_change_of_any_input_changes_the_key(tmp_path: Path, file: str, text: str) -> None:
    before = key_in(tmp_path)
    (tmp_path / file).write_text(text)
    assert key_in(tmp_path) != before


def test_what_a_build_of_operators_left_behind_changes_nothing(tmp_path: Path) -> None:
    before = key_in(tmp_path)
    (tmp_path / "kernels" / "build").mkdir()
    (tmp_path / "kernels" / "build" / "cache.txt").write_text("old")
    (tmp_path / "kernels" / "libold.so").write_bytes(b"\x7fELF")
    assert key_in(tmp_path) == before


def test_the_foundation_stays_when_only_code_and_operators_change(tmp_path: Path) -> None:
    before = foundation_key(recipe_in(tmp_path))
    (tmp_path / "app" / "main.py").write_text("print('changed')\n")
    (tmp_path / "kernels" / "scale" / "scale.cpp").write_text("int changed;\n")
    assert foundation_key(recipe_in(tmp_path)) == before
    assert foundation_key(recipe_in(tmp_path, system_packages=["libgomp1"])) != before


def test_the_folder_has_each_input_and_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    recipe = recipe_in(tmp_path, sources={"wheelhouse": "wheels"})
    before = os.umask(0o077)
    try:
        with staged(recipe, tmp_path, nothing) as folder:
            write_dockerfile(recipe, folder, "k" * 64)
            files = {
                str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777)
                for path in folder.rglob("*") if not path.is_dir()
            }  # fmt: skip
            folders = {
                oct(path.stat().st_mode & 0o777) for path in (folder / "app", folder / "operators")
            }
            assert 'LABEL opsctl.content="' + "k" * 64 in (folder / "Dockerfile").read_text()
    finally:
        os.umask(before)
    assert not folder.exists()
    assert folders == {"0o755"}
    steps = {name: mode for name, mode in files.items() if name.startswith("steps/")}
    assert set(steps.values()) == {"0o755"} and len(steps) == 5
    assert files["app/main.py"] == "0o444"
    assert set(files) - set(steps) == {
        "Dockerfile", "app/main.py", "requirements.txt", "operator-requirements.txt",
        "operators/pyproject.toml", "operators/scale/scale.cpp", "extra/scale/scale.cpp",
        "wheelhouse/a-1-py3-none-any.whl",
    }  # fmt: skip


def test_an_old_frontend_gets_no_flag_that_it_does_not_know(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    with staged(recipe, tmp_path, nothing) as folder:
        new = write_dockerfile(recipe, folder, "k").read_text()
        old = write_dockerfile(recipe, folder, "k", old=True).read_text()
    assert "RUN --network=none" in new
    assert "--network" not in old
    assert old.replace("\n", "") == new.replace(" --network=none", "").replace("\n", "")


def test_labels_say_what_is_in_the_image(tmp_path: Path) -> None:
    assert labels_of(recipe_in(tmp_path)) == {
        "org.opencontainers.image.title": "web",
        "org.opencontainers.image.base.name": "debian:bookworm-slim",
        "org.opencontainers.image.base.digest": f"sha256:{'ab' * 32}",
        "opsctl.flavour": "cpu",
        "opsctl.system": "debian-12",
        "opsctl.python": "3.11",
        "opsctl.tensorflow": "2.21.0",
        "opsctl.operators": "yes",
    }
