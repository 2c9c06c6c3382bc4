"""A Docker host whose disk is full, or whose engine restarts while a release is rolled out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opsctl.errors import BuildFailed
from opsctl.targets.docker import agent_image, image_source
from opsctl.targets.docker.names import RELEASE, REPLICA_PART, Names
from tests.apps.processes import ClientRun, start, wait_until
from tests.apps.project import APPS, Candidate, Options
from tests.docker.bench_yard import FIRST_TIME_MAX_S, ROOT, Host
from tests.docker.light_project import DockerLight, light_on
from tests.docker.second_engine import SecondEngine

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(FIRST_TIME_MAX_S),
    # The Docker library leaves its socket to the garbage collector when an engine does not answer.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RATE_PER_S = 50
COMMAND_MAX_S = 600.0
LEASE_MAX_S = 120
"""Until the lock of somebody who is gone is free, on a machine that is very busy."""

SMALL_DISK_MB = 60
"""Less than the base image has."""


@pytest.fixture
def second(request: pytest.FixtureRequest) -> Iterator[SecondEngine]:
    with SecondEngine(live_restore=True, disk_mb=request.param) as made:
        yield made


@pytest.mark.parametrize("second", [SMALL_DISK_MB], indirect=True)
def test_a_disk_that_is_full_during_a_pull_is_told_and_nothing_stays(
    host: Host, second: SecondEngine
) -> None:
    second.serve_registry()
    engine = second.engine()
    with pytest.raises(BuildFailed, match="cannot pull") as caught:
        image_source.fetch(engine, host.base, lambda text: None, lambda: None)
    assert caught.value.exit_code == 5
    assert "no space left on device" in caught.value.why
    assert host.base in caught.value.next_step
    assert engine.api.images() == []
    engine.close()


@dataclass(frozen=True)
class Rollout:
    """The light service on an engine of its own, as from another machine."""

    light: DockerLight
    second: SecondEngine

    def change(self, candidate: Candidate, serial: int) -> None:
        """Turn the project into a candidate, whose image the engine gets."""
        self.light.change(candidate, serial)
        first = self.light.host
        agent = f"opsctl-agent:{agent_image.build_digest(first.base)}"
        names = [f"opsctl-test-{self.light.name}:{serial}", agent]
        self.second.host(first, names).engine.close()

    def argv(self, *words: str) -> list[str]:
        """The command line of opsctl."""
        far = [sys.executable, "-m", "tests.docker.far_opsctl", self.second.address]
        return [*far, *words, "-c", str(self.light.config), "-o", "json"]

    @property
    def env(self) -> dict[str, str]:
        """With this checkout's opsctl."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "OPSCTL_DEBUG": "1"}

    def run(self, *words: str) -> tuple[int, Any]:
        """Exit code and result of a command."""
        done = subprocess.run(
            self.argv(*words), env=self.env, cwd=self.light.root, capture_output=True, text=True,
            check=False, timeout=COMMAND_MAX_S,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def users(self, folder: Path) -> ClientRun:
        """Users of the front door, which is in the engine's network."""
        out, log = folder / "client.json", folder / "client.log"
        argv = [
            *(
                *self.second.enter,
                sys.executable,
                "-S",
                "-E",
                str(APPS / "client.py"),
                "--url",
                self.light.url,
            ),
            *("--requests", str(self.light.requests), "--out", str(out)),
            *("--rate", str(RATE_PER_S), "--arrivals", "constant"),
        ]
        run = ClientRun(start(argv, folder, log).process, log, out)
        wait_until(lambda: log.read_bytes().startswith(b"ready"), "users are there", 60)
        return run

    def wait_for_a_replica_of(self, release: str) -> None:
        """Until the engine has a container of the release."""
        engine = self.second.engine()
        filters = Names(self.light.name).filters(REPLICA_PART)
        deadline = time.monotonic() + COMMAND_MAX_S
        while not any(
            one["Labels"][RELEASE] == release
            for one in engine.api.containers(all=True, filters=filters)
        ):
            assert time.monotonic() < deadline, f"{release} never began"
            time.sleep(0.05)
        engine.close()


@pytest.fixture
def rollout(host: Host, second: SecondEngine, tmp_path: Path) -> Iterator[Rollout]:
    name = f"restart-{uuid.uuid4().hex[:8]}"
    options = Options(gate=False, overrides={"health": {"tries": 600}})
    light = light_on(host, tmp_path / "project", options, name)
    agent_image.require_image(host.engine, host.project(tmp_path / "x").service.docker, print)
    made = Rollout(light, second)
    made.change(Candidate("first"), 0)
    yield made
    host.remove_images(f"opsctl-test-{name}")


@pytest.mark.parametrize("second", [0], indirect=True)
def test_an_engine_that_restarts_in_the_middle_of_a_rollout_costs_no_request(
    rollout: Rollout, tmp_path: Path
) -> None:
    code, first = rollout.run("deploy")
    assert code == 0, first
    rollout.change(Candidate("code"), 1)
    with (tmp_path / "deploy.json").open("wb") as out, rollout.users(tmp_path) as users:
        deploy = subprocess.Popen(
            rollout.argv("deploy"), env=rollout.env, cwd=rollout.light.root, stdout=out
        )
        rollout.wait_for_a_replica_of("r2")
        rollout.second.stop()
        rollout.second.start()
        ended = deploy.wait(COMMAND_MAX_S)
        # Its line may look alive for a moment: the engine that would have told of its end is gone.
        resumed, result = rollout.run("resume", "--lock-wait", str(LEASE_MAX_S))
        seen = users.stop()
    told = json.loads((tmp_path / "deploy.json").read_text())
    assert ended in (0, 10, 30), told
    assert resumed in (0, 10), result
    assert seen["failures"] == []
    status = rollout.run("status")[1]
    assert status["serving_release"] in ("r1", "r2")
    if ended == 0:
        assert status["serving_release"] == told["serving_release"] == "r2"
    rollout.change(Candidate("code"), 2)
    code, last = rollout.run("deploy")
    assert (code, last["serving_release"]) == (0, last["release"]), last
