"""The one template: every flavour, system and processor gives a Dockerfile without faults."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opsctl.images.dockerfile import render
from opsctl.images.files import image_file
from opsctl.images.recipe import read_recipe
from tests.images.dockerfile_check import faults_of, stages_of
from tests.images.projects import CANN, CPU, OPERATORS, make_project

ARCHITECTURES = ["x86_64", "aarch64"]
OWN = {**OPERATORS, "extra_operators": ["kernels/scale"]}
CONTEXT = {"app", "steps", "requirements.txt"}


def rendered(folder: Path, build: dict[str, Any], **service: Any) -> str:
    return render(read_recipe(make_project(folder, build, **service)))


def cann_from_files(folder: Path, architecture: str) -> dict[str, Any]:
    names = [f"Ascend-cann-{part}_8.5.0_linux-{architecture}.run"
             for part in ("toolkit", "910b-ops", "nnal")]  # fmt: skip
    (folder / "cann").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "cann" / name).write_text("")
    cann = {**CANN["cann"], "packages": "cann", "accept_eula": True,
            "checksums": dict.fromkeys(names, "ab" * 32)}  # fmt: skip
    return {**CANN, "python": "3.11", "architecture": architecture, "cann": cann}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("operators", [{}, OPERATORS, OWN], ids=["none", "ours", "own too"])
def test_a_cpu_image_has_no_faults(
    tmp_path: Path, architecture: str, operators: dict[str, Any]
) -> None:
    text = rendered(tmp_path, {**CPU, **operators, "architecture": architecture})
    extra = {"operators", "operator-requirements.txt"} if operators else set()
    extra |= {"extra"} if "extra_operators" in operators else set()
    assert faults_of(text, CONTEXT | extra) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_cann_image_from_packages_has_no_faults(tmp_path: Path, architecture: str) -> None:
    build = {**cann_from_files(tmp_path, architecture), **OPERATORS}
    text = rendered(tmp_path, build)
    context = CONTEXT | {"operators", "operator-requirements.txt", "cann"}
    assert faults_of(text, context) == []


@pytest.mark.parametrize("system", ["openeuler-22.03", "openeuler-24.03", "ubuntu-22.04"])
def test_a_cann_image_on_a_base_with_cann_has_no_faults(tmp_path: Path, system: str) -> None:
    build = {**CANN, "python": "3.11", "system": system, **OPERATORS}
    context = CONTEXT | {"operators", "operator-requirements.txt"}
    assert faults_of(rendered(tmp_path, build), context) == []


def test_a_wheelhouse_takes_the_place_of_the_cache_of_downloads(tmp_path: Path) -> None:
    text = rendered(tmp_path, {**CPU, "sources": {"wheelhouse": "wheels", "network": False}})
    assert faults_of(text, CONTEXT | {"wheelhouse"}) == []
    assert "source=wheelhouse,target=/wheelhouse" in text
    assert "type=cache" not in text
    runs = [rest for stage in stages_of(text) for word, rest in stage.instructions if word == "RUN"]
    assert [rest for rest in runs if "--network=none" not in rest] == []


def test_a_system_whose_pip_needs_more_gets_it_where_wheels_are_installed(tmp_path: Path) -> None:
    build = {**CANN, "architecture": "x86_64", "python": "3.10"}
    (tools,) = [one for one in stages_of(rendered(tmp_path, build)) if one.name == "tools"]
    assert "install-packages python3.10-venv python3-distutils &&" in tools.runs()[0]


def test_no_search_path_has_an_empty_entry(tmp_path: Path) -> None:
    text = rendered(tmp_path, {**cann_from_files(tmp_path, "aarch64"), **OPERATORS})
    values = dict(
        rest.split("=", 1) for stage in stages_of(text) for word, rest in stage.instructions
        if word == "ENV"
    )  # fmt: skip
    paths = {name: json.loads(value).split(":") for name, value in values.items() if "PATH" in name}
    assert set(paths) == {
        "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH",
        "ASCEND_CUSTOM_OPP_PATH",
    }  # fmt: skip
    assert [name for name, entries in paths.items() if "" in entries] == []


def test_the_code_comes_after_everything_that_changes_less_often(tmp_path: Path) -> None:
    final = stages_of(rendered(tmp_path, {**CPU, **OPERATORS}))[-1]
    words = [(word, rest.split()[0]) for word, rest in final.instructions]
    assert words.index(("COPY", "app")) > words.index(("COPY", "--from=operators"))
    after = [word for word, _ in words[words.index(("COPY", "app")) + 1 :]]
    assert set(after) <= {"WORKDIR", "EXPOSE", "LABEL", "CMD"}


def test_a_foundation_that_is_built_already_takes_the_place_of_its_stage(tmp_path: Path) -> None:
    recipe = read_recipe(make_project(tmp_path, CPU))
    pinned = f"registry.example/team/web@sha256:{'12' * 32}"
    stages = {stage.name: stage for stage in stages_of(render(recipe, foundation=pinned))}
    assert (stages["foundation"].source, stages["foundation"].instructions) == (pinned, [])
    assert stages["runtime"].source == "foundation"


def test_values_with_quotes_and_dollars_reach_the_image_as_they_are(tmp_path: Path) -> None:
    text = rendered(tmp_path, CPU, app={"env": {"GREETING": 'a "b" $HOME'}})
    assert 'ENV GREETING="a \\"b\\" \\$HOME"' in text.splitlines()


@pytest.mark.parametrize(
    "step", ["add-user", "compile-operators", "install-cann", "install-packages", "install-wheels"]
)
def test_each_step_is_a_script_that_a_shell_can_read(step: str) -> None:
    path = image_file(f"steps/{step}")
    assert subprocess.run(["sh", "-n", path], capture_output=True, check=False).stderr == b""
    assert path.read_text().splitlines()[0] == "#!/bin/sh"
    assert "set -eu" in path.read_text()
