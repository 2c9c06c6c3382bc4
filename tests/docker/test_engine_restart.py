"""The Docker engine restarts under a service: what users notice, and what is there afterwards."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opsctl import shell
from opsctl.model import Share
from opsctl.targets.docker import agent_image
from opsctl.targets.docker.target import DockerTarget
from tests.contract.docker_stage import DockerStage
from tests.contract.stage import Holder
from tests.docker.bench_yard import FIRST_TIME_MAX_S, host_or_skip
from tests.docker.second_engine import SecondEngine

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(FIRST_TIME_MAX_S),
    # The Docker library leaves its socket to the garbage collector when an engine does not answer.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OPEN_LOOP = Path(__file__).parents[1] / "targets" / "open_loop.py"
CONVERGE_MAX_S = 400.0
"""On a machine that is very busy."""


class RestartStage(DockerStage):
    """The tests' service on an engine that may be restarted."""

    def __init__(self, folder: Path, second: SecondEngine) -> None:
        first = host_or_skip()
        agent = f"opsctl-agent:{agent_image.build_digest(first.base)}"
        agent_image.require_image(first.engine, first.project(folder).service.docker, print)
        # On top of the agent's image: that is half as much to copy.
        self.image = first.app_image(python=agent)
        project = first.project(folder, image=self.image)
        self.host = second.host(first, [self.image, agent])
        first.engine.close()
        self.target = DockerTarget(project, self.host.engine, print)
        self.target.storage.prepare()


@pytest.fixture(params=[True, False], ids=["live-restore", "plain"])
def second(request: pytest.FixtureRequest) -> Iterator[SecondEngine]:
    with SecondEngine(live_restore=request.param) as made:
        yield made


def test_a_service_outlives_a_restart_of_its_engine(second: SecondEngine, tmp_path: Path) -> None:
    stage = RestartStage(tmp_path / "project", second)
    holder = Holder(stage)
    stage.release("r1")
    stage.release("r2")
    before = holder.converge(Share("r1", 2, 80), Share("r2", 1, 20), unattended=True)
    port = stage.target.observe().front_url.rpartition(":")[2]
    stop = tmp_path / "stop"
    argv = [
        *second.enter,
        sys.executable,
        str(OPEN_LOOP),
        "127.0.0.1",
        port,
        "50",
        "120",
        str(stop),
    ]
    client = shell.spawn(argv, cwd=tmp_path, env={}, log=tmp_path / "client.json")
    time.sleep(1)
    stage.target.close()
    second.stop()
    second.start()
    after = until_converged(stage)
    stop.touch()
    client.wait(CONVERGE_MAX_S)
    seen: dict[str, Any] = json.loads((tmp_path / "client.json").read_text())
    assert after.weights == {"r1": 80, "r2": 20}
    assert after.stamp == before.stamp
    assert sorted(r.name for r in after.replicas) == ["r1-1", "r1-2", "r2-1"]
    assert set(holder.answers(40)) == {"r1", "r2"}
    if second.live_restore:
        assert seen["failed"] == []
        assert [r.restarts for r in after.replicas] == [0, 0, 0]
        # Somebody is in charge again, with the engine's new socket.
        newer = Holder(stage, epoch=2)
        newer.converge(Share("r2", 1, 100))
        assert newer.answers(10) == {"r2": 10}
    stage.target.close()


def until_converged(stage: DockerStage) -> Any:
    """Watch the service until it is as ordered again."""
    deadline = time.monotonic() + CONVERGE_MAX_S
    while True:
        try:
            seen = stage.target.observe()
        except Exception:  # noqa: BLE001  (whatever the engine says while it starts)
            assert time.monotonic() < deadline
            time.sleep(0.5)
            continue
        if seen.converged and len(seen.replicas) == 3:
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)
