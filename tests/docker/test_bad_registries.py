"""`opsctl deploy` of images that can't be had or can't run, while a good release serves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opsctl.targets.docker.names import RELEASE, REPLICA_PART, Names
from scripts.campaigns._opsctl import Result
from tests.apps.processes import start_client
from tests.apps.project import Candidate, Options
from tests.docker.bench_yard import FIRST_TIME_MAX_S, Host
from tests.docker.broken_registry import BrokenRegistry
from tests.docker.docker_project import DockerOpsctl
from tests.docker.light_project import DockerLight, light_on
from tests.docker.small_image import loaded

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]

RATE_PER_S = 20


@dataclass(frozen=True)
class Serving:
    """A service whose first release serves."""

    light: DockerLight
    opsctl: DockerOpsctl
    folder: Path

    def deploy(self, image: str) -> Result:
        """A deploy of another image, during which no user may notice anything."""
        self.light.edit(lambda service: service["app"].update(image=image))
        with start_client(self.light, self.folder, rate=RATE_PER_S) as client:
            done = self.opsctl.run("deploy")
            seen = client.stop()
        assert seen["failures"] == []
        assert set(seen["releases"]) == {"r1"}
        assert done.data["serving_release"] == "r1"
        assert self.opsctl.status()["serving_release"] == "r1"
        return done


@pytest.fixture(scope="module")
def serving(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("registries")
    name = f"registries-{uuid.uuid4().hex[:8]}"
    options = Options(gate=False, overrides={"health": {"tries": 600}})
    light = light_on(host, folder / "project", options, name)
    opsctl = DockerOpsctl(light)
    first = opsctl.run("deploy")
    assert (first.exit_code, first.data["serving_release"]) == (0, "r1"), first.stderr
    yield Serving(light, opsctl, folder)
    left = opsctl.down()
    host.remove_images(f"opsctl-test-{name}")
    assert left == []


def told(done: Result) -> str:
    """What people read about a deploy that failed."""
    return done.stderr


def test_a_registry_that_is_down_fails_the_build(serving: Serving) -> None:
    done = serving.deploy("127.0.0.1:9/x/y:v1")
    assert done.exit_code == 5, done.stderr
    assert "cannot tell which image 127.0.0.1:9/x/y:v1 is" in told(done)
    assert "connection refused" in told(done)


@pytest.mark.parametrize("fault", ["500", "truncated"])
def test_a_registry_that_gives_nothing_whole_fails_the_build(serving: Serving, fault: str) -> None:
    with BrokenRegistry(fault) as address:
        image = f"{address}/broken@{BrokenRegistry.digest}"
        done = serving.deploy(image)
    assert done.exit_code == 5, done.stderr
    assert f"cannot pull {image}" in told(done)
    assert serving.light.host.engine.api.images(f"{address}/broken") == []


@pytest.mark.slow  # the engine itself waits a minute for such a registry
def test_a_registry_that_hangs_ends_with_the_steps_time_limit(serving: Serving) -> None:
    with BrokenRegistry("hangs") as address:
        done = serving.deploy(f"{address}/broken@{BrokenRegistry.digest}")
    assert (done.exit_code, done.data["outcome"]) == (5, "build_failed"), done.stderr
    assert "the step ran over its time limit: strategy.step_timeout_s" in told(done)


def test_an_image_for_another_machine_is_refused(serving: Serving) -> None:
    foreign = loaded(serving.light.host, "arm64", "deploy")
    done = serving.deploy(foreign)
    assert done.exit_code == 4, done.stderr
    assert f"{foreign} is for arm64, the host is amd64" in told(done)


def test_a_tag_that_moves_after_the_plan_changes_nothing_of_a_pinned_image(
    serving: Serving, host: Host
) -> None:
    light, api = serving.light, host.engine.api
    light.change(Candidate("code"), "moved-good")
    repository = f"{host.registry}/{light.name}"
    good = host.push(f"opsctl-test-{light.name}:moved-good", f"{repository}:v1")
    pinned = f"{repository}@{good}"
    light.edit(lambda service: service["app"].update(image=pinned))
    planned = serving.opsctl.run("plan")
    assert planned.exit_code == 0, planned.stderr
    assert host.push(loaded(host, "arm64", "moved"), f"{repository}:v1") != good
    done = serving.opsctl.run("deploy")
    assert done.exit_code == 0, done.stderr
    release = done.data["serving_release"]
    filters = Names(light.name).filters(REPLICA_PART)
    found = {one["Labels"][RELEASE]: one["Image"] for one in api.containers(filters=filters)}
    assert found[release] == pinned
