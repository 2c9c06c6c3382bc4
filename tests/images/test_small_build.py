"""`opsctl build` from its first step to its last, on the engine's own BuildKit and on a new one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from opsctl.config.load import load
from opsctl.images.reference import parse
from opsctl.images.registry import Registry
from opsctl.targets.docker.place import target_of
from tests.docker.bench_yard import FIRST_TIME_MAX_S, Host
from tests.images.small_build import SmallBuild, small_build
from tests.images.yard import yard_or_skip

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]

SENTINEL = "sentinel-4b1d-never-in-an-image"
PUSHED_MAX_BYTES = 1_000_000


@pytest.fixture(scope="module")
def project(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallBuild]:
    made = small_build(tmp_path_factory.mktemp("small") / "project", host)
    yield made
    host.remove_images(made.repository)


@pytest.fixture(scope="module")
def modern(project: SmallBuild) -> dict[str, Any]:
    """`build` for a BuildKit of its own, with a cache in the registry and a secret."""
    return {
        "builder": yard_or_skip().buildkit,
        "cache": f"{project.repository}-cache",
        "secrets": {"pip.conf": {"env": "PIP_CONF"}},
    }


def build(project: SmallBuild, *words: str) -> dict[str, Any]:
    code, result, errors = project.opsctl(
        "build", "--no-network", *words, PIP_CONF=f"# {SENTINEL}\n"
    )
    assert code == 0, errors
    return {**result, "stderr": errors}


@pytest.fixture(scope="module")
def built(project: SmallBuild, modern: dict[str, Any]) -> dict[str, Any]:
    """The image of the new BuildKit, made without any network."""
    project.configure(**modern)
    return build(project)


def layers(reference: str) -> dict[str, int]:
    place = parse(reference)
    manifest = Registry(place).manifest(place.digest)
    return {layer["digest"]: layer["size"] for layer in manifest["layers"]}


def test_nothing_changed_is_no_build_and_a_changed_file_is_one_small_layer(
    project: SmallBuild, built: dict[str, Any]
) -> None:
    assert (built["outcome"], built["fresh"]) == ("built", True)
    again = build(project)
    assert (again["outcome"], again["reference"]) == ("unchanged", built["reference"])
    (project.root / "app" / "note.txt").write_text("changed")
    changed = build(project)
    (project.root / "app" / "note.txt").unlink()
    new = {d: size for d, size in layers(changed["reference"]).items()
           if d not in layers(built["reference"])}  # fmt: skip
    assert len(new) == 1
    assert sum(new.values()) < PUSHED_MAX_BYTES


def test_a_second_build_from_nothing_gives_the_same_image(
    project: SmallBuild, built: dict[str, Any]
) -> None:
    assert build(project, "--rebuild")["reference"] == built["reference"]


def test_the_cache_of_a_build_is_in_the_registry(
    project: SmallBuild, built: dict[str, Any]
) -> None:
    registry, _, name = project.repository.partition("/")
    asked = requests.get(f"http://{registry}/v2/{name}-cache/tags/list", timeout=60)
    assert asked.json()["tags"] == ["latest"]


def test_the_image_passes_every_check_and_holds_no_secret(
    project: SmallBuild, built: dict[str, Any]
) -> None:
    code, result, errors = project.opsctl("verify", PIP_CONF=SENTINEL)
    assert [check for check in result.get("checks", []) if not check["ok"]] == [], errors
    assert code == 0
    details = {check["name"]: check["detail"] for check in result["checks"]}
    assert details["imports on a read-only root"] == "TensorFlow 2.21.0 as user 10001"
    folder = project.root / ".opsctl" / "production" / "small" / "images"
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in written} >= {".log", ".json"}
    assert [path for path in written if SENTINEL.encode() in path.read_bytes()] == []


def test_the_engines_own_buildkit_builds_it_too_and_what_it_lacks_is_told(
    project: SmallBuild,
) -> None:
    project.configure(builder="default", push=False)
    result = build(project)
    assert result["reference"].startswith("sha256:")
    for lack in ("reproducible digests", "the build's cache in a registry", "cut off from"):
        assert lack in result["stderr"]
    code, verified, errors = project.opsctl("verify")
    assert [check for check in verified.get("checks", []) if not check["ok"]] == [], errors
    assert code == 0


def test_deploy_builds_what_is_missing_and_serves_it(project: SmallBuild) -> None:
    project.configure(builder="default", push=False)
    (project.root / "app" / "note.txt").write_text("deployed")
    target = target_of(load(project.root / "opsctl.yaml", environment=None, service=None))
    try:
        code, result, errors = project.opsctl("deploy")
        assert (code, result["serving_release"]) == (0, "r1"), errors
        answer = requests.get(target.front_door().url, timeout=60)
        assert answer.json()["release"] == "r1"
        last = json.loads((project.root / ".opsctl/production/small/images/last.json").read_text())
        (replica,) = target.engine.api.containers(filters=target.names.filters("replica"))
        assert replica["ImageID"] == last["digest"]
    finally:
        target.storage.destroy()
        target.close()
        (project.root / "app" / "note.txt").unlink()
