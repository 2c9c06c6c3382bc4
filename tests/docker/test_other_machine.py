"""Another machine goes on where one was lost: it has the sources and the Docker host, no more."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsctl.targets.docker.names import RELEASE, REPLICA_PART, Names
from tests.apps.processes import post, start_client, wait_until
from tests.apps.project import Candidate, Options
from tests.docker.bench_yard import FIRST_TIME_MAX_S, Host
from tests.docker.docker_project import DockerOpsctl, DockerProject
from tests.docker.forwarder import Forwarder
from tests.docker.light_project import DockerLight, light_on

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(FIRST_TIME_MAX_S),
]

RATE_PER_S = 50
PREDICT = "/v1/models/light:predict"
BEGIN_MAX_S = 120.0


@pytest.fixture
def here(host: Host, tmp_path: Path) -> Iterator[DockerOpsctl]:
    """A service whose first release serves."""
    name = f"machines-{uuid.uuid4().hex[:8]}"
    options = Options(gate=False, overrides={"health": {"tries": 600}})
    light = light_on(host, tmp_path / "here", options, name)
    opsctl = DockerOpsctl(light)
    first = opsctl.run("deploy")
    assert first.exit_code == 0, first.stderr
    yield opsctl
    assert opsctl.down() == []
    host.remove_images(f"opsctl-test-{name}")


@pytest.fixture
def there(here: DockerOpsctl, tmp_path: Path) -> Iterator[DockerOpsctl]:
    """The same service on a machine that has the sources alone, and the engine by its address."""
    root = tmp_path / "there"
    shutil.copytree(here.project.root, root, ignore=shutil.ignore_patterns(".opsctl"))
    with Forwarder() as address:
        assert isinstance(here.project, DockerLight)
        light = dataclasses.replace(here.project, root=root)
        yield Far(light, address)


@dataclasses.dataclass(frozen=True)
class Far(DockerOpsctl):
    """The command on a machine that reaches the engine by TCP."""

    address: str

    def env(self, **more: str) -> dict[str, str]:
        """As on the first machine, with the engine's address."""
        return super().env(DOCKER_HOST=self.address, **more)


def wait_for_a_replica_of(release: str, light: DockerProject) -> None:
    api, names = light.host.engine.api, Names(light.name)
    deadline = time.monotonic() + BEGIN_MAX_S
    while not any(
        one["Labels"][RELEASE] == release
        for one in api.containers(all=True, filters=names.filters(REPLICA_PART))
    ):
        assert time.monotonic() < deadline, f"{release} never began"
        time.sleep(0.05)


def test_a_rollout_whose_machine_was_lost_is_brought_to_its_end_from_another(
    here: DockerOpsctl, there: DockerOpsctl, tmp_path: Path
) -> None:
    for machine in (here, there):
        machine.project.change(Candidate("code"), 1)
    with start_client(here.project, tmp_path, rate=RATE_PER_S) as client:
        lost = here.spawn(tmp_path / "lost.log", "deploy")
        wait_for_a_replica_of("r2", here.project)
        os.killpg(lost.pid, signal.SIGKILL)
        lost.wait()
        resumed = there.run("resume")
        seen = client.stop()
    assert resumed.exit_code in (0, 10), resumed.stderr
    assert resumed.data["serving_release"] == ("r2" if resumed.exit_code == 0 else "r1")
    assert seen["failures"] == []
    assert seen["sent"] > 0
    status = here.status()
    assert status["serving_release"] == resumed.data["serving_release"]
    assert there.status()["serving_release"] == status["serving_release"]


def test_a_journal_that_is_lost_is_rebuilt_by_another_machine_from_what_runs(
    here: DockerOpsctl, there: DockerOpsctl, tmp_path: Path
) -> None:
    with here.project.target() as target:
        before = target.observe()
        target.storage.remove("journal")
    with start_client(here.project, tmp_path, rate=RATE_PER_S) as client:
        resumed = there.run("resume")
        seen = client.stop()
    assert resumed.exit_code == 0, resumed.stderr
    assert "the journal is rebuilt from what runs" in resumed.stderr
    assert resumed.data["serving_release"] == "r1"
    assert seen["failures"] == []
    with here.project.target() as target:
        after = target.observe()
    assert [(r.name, r.pid, r.restarts) for r in after.of("r1")] == [
        (r.name, r.pid, r.restarts) for r in before.of("r1")
    ]
    assert after.weights == {"r1": 100}
    there.project.change(Candidate("code"), 2)
    done = there.run("deploy")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr


def test_another_machine_aborts_a_rollout_and_rolls_a_release_back(
    here: DockerOpsctl, there: DockerOpsctl, tmp_path: Path
) -> None:
    here.project.change(Candidate("hangs_at_start", 23, {"hang_at_start": True}), 1)
    with start_client(here.project, tmp_path, rate=RATE_PER_S) as client:
        rollout = here.spawn(tmp_path / "deploy.log", "deploy")
        wait_for_a_replica_of("r2", here.project)
        aborted = there.run("abort", "--reason", "seen from afar")
        assert (aborted.exit_code, aborted.data["outcome"]) == (0, "aborted"), aborted.stderr
        assert rollout.wait(BEGIN_MAX_S) == 23
        here.project.change(Candidate("code"), 2)
        assert here.run("deploy").data["serving_release"] == "r3"
        back = there.run("rollback")
        seen = client.stop()
    assert (back.exit_code, back.data["serving_release"]) == (0, "r1"), back.stderr
    assert [machine.status()["serving_release"] for machine in (here, there)] == ["r1", "r1"]
    assert seen["failures"] == []
    assert set(seen["releases"]) == {"r1", "r3"}


def test_requests_of_users_are_recorded_from_another_machine_and_a_killed_recording_ends(
    here: DockerOpsctl, there: DockerOpsctl, tmp_path: Path
) -> None:
    log, file = tmp_path / "killed.log", tmp_path / "recorded.jsonl"
    killed = there.spawn(log, "bench", "record", str(tmp_path / "killed.jsonl"))
    wait_until(lambda: "from now on" in log.read_text(), "it records", BEGIN_MAX_S)
    second = here.run("bench", "record", str(tmp_path / "second.jsonl"))
    assert second.exit_code == 30
    assert "recorded already" in second.data["error"]["what"]
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    log = tmp_path / "recorded.log"
    recording = there.spawn(log, "bench", "record", str(file), "--count", "2", "--redact",
                            "instances.*.1")  # fmt: skip
    wait_until(lambda: "from now on" in log.read_text(), "it records", BEGIN_MAX_S)
    for row in ([1, 2, 3, 4], [5, 6, 7, 8]):
        assert post(here.project.port, PREDICT, {"instances": [row]})[0] == 200
    assert recording.wait(BEGIN_MAX_S) == 0, log.read_text()
    assert file.read_text() == "[1,0,3,4]\n[5,0,7,8]\n"
