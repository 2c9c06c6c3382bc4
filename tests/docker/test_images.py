"""Images as releases: a tag becomes a digest once; what can't run or be had is told by its code."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl.config import settings
from opsctl.errors import BuildFailed, ConfigError, PreflightRefused
from opsctl.model import DesiredState, Share
from opsctl.targets.docker import image_source
from opsctl.targets.docker.docker_releases import DockerReleaseStore
from opsctl.targets.docker.target import DockerTarget
from tests.docker.bench_yard import FIRST_TIME_MAX_S, Host
from tests.docker.broken_registry import BrokenRegistry
from tests.docker.small_image import loaded

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]


@pytest.fixture(scope="module")
def target(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerTarget]:
    target = host.target(tmp_path_factory.mktemp("images"), image=host.app_image())
    target.storage.prepare()
    yield target
    target.storage.destroy()
    target.close()


def with_app(project: settings.Project, **app: Any) -> settings.Project:
    service = project.service
    changed = dataclasses.replace(service, app=dataclasses.replace(service.app, **app))
    return dataclasses.replace(project, service=changed)


def build(target: DockerTarget, project: settings.Project, name: str) -> Any:
    store = DockerReleaseStore(target)
    return store.build(project, name, actor="t", tell=lambda text: None, interrupt=lambda: None)


def test_a_tag_that_moves_afterwards_changes_nothing(host: Host, target: DockerTarget) -> None:
    name = f"{host.registry}/moving-{uuid.uuid4().hex[:8]}:v1"
    project = with_app(target.project, image=name)
    first = host.push(loaded(host, "amd64", "1"), name)
    release = build(target, project, "r1")
    assert release.launch.image == f"{name.removesuffix(':v1')}@{first}"
    store = DockerReleaseStore(target)
    before = store.content_digest(project)
    assert before == release.digest
    second = host.push(loaded(host, "amd64", "2"), name)
    assert second != first
    assert build(target, project, "r1").launch.image.endswith(first)
    assert store.get("r1").launch.image.endswith(first)
    assert store.content_digest(project) != before
    assert build(target, project, "r2").launch.image.endswith(second)
    changed = store.difference("r1", "r2")
    assert changed["app"]["changed"] == [store.get("r2").launch.image]
    assert (changed["model"], list(changed["config"])) == (None, ["image"])


def test_releases_are_numbered_listed_and_removed(host: Host, target: DockerTarget) -> None:
    store = DockerReleaseStore(target)
    store.reserve("r10")
    assert store.next_name() == "r11"
    build(target, target.project, "r11")
    assert "r11" in [release.name for release in store.list()]
    store.remove("r11")
    assert "r11" not in [release.name for release in store.list()]
    assert store.next_name() == "r12"
    with pytest.raises(ConfigError, match="there is no release r11"):
        store.get("r11")


def test_a_model_is_sent_once_and_by_its_content(
    host: Host, target: DockerTarget, tmp_path: Path
) -> None:
    (tmp_path / "model" / "variables").mkdir(parents=True)
    (tmp_path / "model" / "variables" / "data").write_bytes(b"x" * 300_000)
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    service = dataclasses.replace(
        target.project.service, model=settings.Model(path=str(tmp_path / "model"))
    )
    project = dataclasses.replace(target.project, service=service)
    said: list[str] = []
    store = DockerReleaseStore(target)
    for name in ("r21", "r22"):
        store.build(project, name, actor="t", tell=said.append, interrupt=lambda: None)
    assert len([text for text in said if text.startswith("sending model")]) == 1
    path = store.get("r22").launch.model_path
    done = target.run_in(
        "r22", ["/bin/sh", "-c", f"cat {path}/saved_model.pb; wc -c < {path}/variables/data"],
        env={}, timeout_s=30,
    )  # fmt: skip
    assert (done.stdout, done.exit_code) == ("graph300000\n", 0)
    store.remove("r21")
    model = store.get("r22").model
    assert model is not None
    assert models_of(target) == [model.digest]
    store.remove("r22")
    assert models_of(target) == []


def models_of(target: DockerTarget) -> list[str]:
    return list(target.call({"call": "models", "verb": "list"})["digests"])


def test_a_command_that_runs_too_long_is_ended(host: Host, target: DockerTarget) -> None:
    build(target, target.project, "r31")
    done = target.run_in("r31", ["sleep", "600"], env={}, timeout_s=1)
    assert (done.exit_code, done.stderr) == (124, "stopped after 1 s\n")
    left = target.engine.api.containers(all=True, filters=target.names.filters("errand"))
    assert left == []


def test_a_registry_that_is_down_fails_the_build(host: Host, target: DockerTarget) -> None:
    with pytest.raises(BuildFailed, match="its registry gives no digest") as caught:
        build(target, with_app(target.project, image="127.0.0.1:9/x/y:v1"), "r41")
    assert caught.value.exit_code == 5


def test_an_image_of_the_host_is_known_by_its_id(host: Host, target: DockerTarget) -> None:
    image = host.image({"n": b"3"}, "opsctl-test-only-here:v3")
    assert image_source.find(host.engine, "opsctl-test-only-here:v3") == image


@pytest.mark.parametrize("fault", ["500", "truncated"])
def test_a_broken_registry_fails_the_build(host: Host, target: DockerTarget, fault: str) -> None:
    with BrokenRegistry(fault) as address:
        image = f"{address}/broken@{BrokenRegistry.digest}"
        with pytest.raises(BuildFailed, match="cannot pull"):
            build(target, with_app(target.project, image=image), "r42")


def test_a_registry_that_is_slow_is_waited_for(host: Host) -> None:
    with BrokenRegistry("slow") as address:
        image = f"{address}/slow@{BrokenRegistry.digest}"
        found = image_source.fetch(host.engine, image, lambda text: None, lambda: None)
        assert (found.reference, found.digest) == (image, BrokenRegistry.digest)
        assert host.engine.api.inspect_image(found.id)["Architecture"] == "amd64"
        host.remove_images(f"{address}/slow")


class Enough(Exception):
    """Somebody wants the pull to end."""


def test_a_pull_from_a_registry_that_hangs_ends_when_it_is_told_to(host: Host) -> None:
    with BrokenRegistry("hangs") as address:
        image = f"{address}/broken@{BrokenRegistry.digest}"
        began = time.monotonic()

        def interrupt() -> None:
            if time.monotonic() - began > 1:
                raise Enough

        with pytest.raises(Enough):
            image_source.fetch(host.engine, image, lambda text: None, interrupt)
    assert host.engine.api.images(f"{address}/broken") == []


def test_an_image_for_another_machine_is_refused_before_anything(
    host: Host, target: DockerTarget
) -> None:
    foreign = loaded(host, "arm64", "1")
    project = with_app(target.project, image=foreign)
    with pytest.raises(PreflightRefused, match="it is for arm64, the host is amd64"):
        build(target, project, "r43")
    other = DockerTarget(project, host.engine, lambda text: None)
    findings = other.preflight(DesiredState((Share("r1", 1, 0),)))
    (finding,) = [found for found in findings if found.check == "image"]
    assert finding.status == "fail"
    assert finding.what == f"{foreign} is for arm64, the host is amd64"
    other.channel.close()
