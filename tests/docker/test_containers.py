"""Real containers of a real engine: what they may do, how they end, and who outlives whom."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from opsctl.config.settings import Project
from opsctl.errors import ConfigError, LockHeld, Superseded
from opsctl.model import Share
from opsctl.secrets import SecretStore
from opsctl.storage import Holder as LockHolder
from opsctl.targets.docker.place import target_of
from tests.apps.processes import wait_until
from tests.contract.docker_stage import DockerStage
from tests.contract.stage import Holder
from tests.docker.bench_yard import FIRST_TIME_MAX_S
from tests.docker.forwarder import Forwarder
from tests.targets.house import ask

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]


def container_of(stage: DockerStage, replica: str) -> dict:  # type: ignore[type-arg]
    found: dict = stage.target.engine.api.inspect_container(  # type: ignore[type-arg]
        stage.target.names.replica(replica)
    )
    return found


def control(stage: DockerStage, release: str, **order: int) -> None:
    """Give an order to the application of a release's first replica."""
    (endpoint, *_) = stage.target.endpoints(release)
    try:
        ask(endpoint.host, endpoint.port, "/control", "POST", json.dumps(order))
    except OSError:
        assert {"exit", "grow_mb"} & set(order)


def test_a_replica_may_do_as_little_as_possible(stage: DockerStage, holder: Holder) -> None:
    stage.release("r1", memory_mb=256)
    holder.converge(Share("r1", 1, 100, cpus=(1,)))
    info = container_of(stage, "r1-1")
    host = info["HostConfig"]
    assert info["Config"]["User"] == "10001:10001"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert (host["Memory"], host["MemorySwap"]) == (256 << 20, 256 << 20)
    assert host["PidsLimit"] == 4096
    assert host["CpusetCpus"] == "1"
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["LogConfig"]["Config"] == {"max-size": "20m", "max-file": "6"}
    assert list(host["Tmpfs"]) == ["/tmp"]
    assert info["Image"] == stage.image


def test_the_balancer_sees_no_secret_and_no_capability(stage: DockerStage, holder: Holder) -> None:
    stage.release("r1")
    holder.converge(Share("r1", 1, 100))
    names = stage.target.names
    info = stage.target.engine.api.inspect_container(names.balancer)
    assert [mount["Name"] for mount in info["Mounts"]] == [names.run_volume]
    assert info["HostConfig"]["CapDrop"] == ["ALL"]
    assert info["Config"]["User"] == "10001:10001"


def test_memory_over_the_limit_is_told_as_such(stage: DockerStage, holder: Holder) -> None:
    stage.release("r2", memory_mb=64)
    holder.converge(Share("r2", 1, 0))
    control(stage, "r2", grow_mb=200)
    seen = holder.wait(lambda seen: seen.of("r2") and seen.of("r2")[0].restarts == 1)
    assert "at its memory limit of 64 MiB" in "\n".join(stage.target.events("r2"))
    assert seen.of("r2")[0].exit_code == -9


def test_a_command_that_is_not_in_the_image_is_told_at_once(
    stage: DockerStage, holder: Holder
) -> None:
    stage.release("r3", command=["/no/such/program"])
    holder.apply(Share("r3", 1, 0))
    seen = holder.wait(lambda seen: any(r.phase == "backoff" for r in seen.of("r3")))
    assert "cannot be started" in seen.of("r3")[0].reason
    assert "/no/such/program" in seen.of("r3")[0].reason


def test_an_image_that_is_gone_is_told_at_once(stage: DockerStage, holder: Holder) -> None:
    stage.release("r4", image="sha256:" + "0" * 64)
    holder.apply(Share("r4", 1, 0))
    seen = holder.wait(lambda seen: any(r.phase == "backoff" for r in seen.of("r4")))
    assert "the image of r4 is missing" in seen.of("r4")[0].reason


def test_a_program_for_another_machine_is_told_at_once(stage: DockerStage, holder: Holder) -> None:
    stage.release("r5", command=["/app/alien"])
    holder.apply(Share("r5", 1, 0))
    seen = holder.wait(lambda seen: any(r.phase == "backoff" for r in seen.of("r5")))
    assert "exec format error" in seen.of("r5")[0].reason


@pytest.mark.parametrize(
    ("access", "reason"),
    [("devices", "/usr/local/dcmi"), ("runtime", "ascend")],
    ids=["driver", "runtime"],
)
def test_what_the_host_lacks_of_an_npu_is_told_at_once(
    stage: DockerStage, holder: Holder, access: str, reason: str
) -> None:
    npus = {"count": 1, "devices": [63], "access": access, "share": False, "driver_dir": "/usr"}
    limits = {"user": "10001:10001", "port": 8501, "health_port": 8502, "npus": npus}
    stage.release("r10", container={**limits, "image_health": True})
    holder.apply(Share("r10", 1, 0))
    seen = holder.wait(lambda seen: any(r.phase == "backoff" for r in seen.of("r10")))
    assert "r10-1" in seen.of("r10")[0].reason
    assert reason in seen.of("r10")[0].reason
    holder.converge()


def test_a_killed_balancer_comes_back_with_its_weights(stage: DockerStage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r6")
    holder.converge(Share("r1", 1, 75), Share("r6", 1, 25))
    stage.target.engine.api.kill(stage.target.names.balancer)
    ended = "the load balancer's container ended"
    holder.wait(lambda seen: any(ended in text for text in stage.target.events("r6")))
    seen = holder.wait(lambda seen: seen.balancer_up and seen.converged)
    assert seen.weights == {"r1": 75, "r6": 25}
    answers = holder.answers(100)
    assert abs(answers["r6"] - 25) <= 2


def test_a_balancer_that_the_engine_has_started_again_is_taken_over(
    stage: DockerStage, holder: Holder
) -> None:
    stage.release("r1")
    holder.converge(Share("r1", 1, 100))
    api, names = stage.target.engine.api, stage.target.names
    before = api.inspect_container(names.balancer)["State"]
    ends = ends_of_the_balancer(stage)
    api.pause(names.agent)
    # A crash; after `docker kill` the engine would leave it to the agent.
    crash = api.exec_create(names.balancer, ["/bin/sh", "-c", "kill -KILL -1"])
    api.exec_start(crash["Id"])
    wait_until(lambda: _runs_again(api.inspect_container(names.balancer), before), "it is back")
    api.unpause(names.agent)
    # Until it has looked, it believes what it saw last.
    holder.wait(lambda _: ends_of_the_balancer(stage) > ends)
    seen = holder.wait(lambda seen: seen.converged)
    assert (seen.balancer_up, seen.trouble) == (True, "")
    assert holder.answers(20) == {"r1": 20}
    stage.release("r9")
    holder.converge(Share("r9", 1, 100))
    assert holder.answers(20) == {"r9": 20}


def ends_of_the_balancer(stage: DockerStage) -> int:
    """How often the agent has noticed that the balancer's container ended."""
    ended = "the load balancer's container ended"
    return sum(ended in text for text in stage.target.events("r1"))


def _runs_again(info: dict[str, Any], before: dict[str, Any]) -> bool:
    state = info["State"]
    return state["Pid"] not in (0, before["Pid"]) and state["StartedAt"] != before["StartedAt"]


def test_settings_of_the_balancer_change_under_its_users(
    stage: DockerStage, holder: Holder
) -> None:
    stage.release("r1")
    holder.converge(Share("r1", 1, 100))
    project = stage.target.project
    docker = dataclasses.replace(project.service.docker, request_timeout_s=33.0)
    changed = dataclasses.replace(
        project, service=dataclasses.replace(project.service, docker=docker)
    )
    other = target_of(changed)
    before = stage.target.engine.api.inspect_container(stage.target.names.balancer)["State"]["Pid"]
    newer = Holder(stage, holder.epoch + 1)
    newer.target = other
    newer.apply(Share("r1", 1, 100))
    newer.wait(lambda seen: "with new settings" in " ".join(other.events("r1")))
    assert newer.answers(20) == {"r1": 20}
    after = stage.target.engine.api.inspect_container(stage.target.names.balancer)["State"]["Pid"]
    assert after == before
    other.close()


def test_another_machine_finds_the_service_with_nothing_but_the_engine(
    stage: DockerStage, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.release("r7", APP_COLOUR="green")
    holder.converge(Share("r7", 1, 100))
    with Forwarder() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        far = target_of(stage.target.project)
        assert far.engine.address == address
        assert far.observe().weights == {"r7": 100}
        door = far.front_door()
        with urllib.request.urlopen(f"{door.url}/", data=b"{}", timeout=20) as answer:
            assert answer.headers["X-Opsctl-Release"] == "r7"
        (endpoint,) = far.endpoints("r7")
        with urllib.request.urlopen(f"{endpoint.url}/env", data=b"{}", timeout=20) as answer:
            assert json.load(answer)["env"]["APP_COLOUR"] == "green"
        far.close()


def test_a_context_leads_to_its_engine(
    stage: DockerStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with Forwarder() as address:
        command = ["docker", "context", "create", "far", "--docker", f"host={address}"]
        subprocess.run(command, check=True, capture_output=True)
        far = target_of(with_context(stage, "far"))
        assert far.engine.address == address
        assert far.observe().stamp == stage.target.observe().stamp
        far.close()
        monkeypatch.setenv("DOCKER_CONTEXT", "far")
        assert target_of(stage.target.project).engine.address == address
    with pytest.raises(ConfigError, match="there is no Docker context nowhere"):
        target_of(with_context(stage, "nowhere")).observe()


def with_context(stage: DockerStage, name: str) -> Project:
    """The stage's project on the engine of a context."""
    project = stage.target.project
    docker = dataclasses.replace(project.service.docker, context=name)
    return dataclasses.replace(project, service=dataclasses.replace(project.service, docker=docker))


def test_the_secrets_of_all_releases_come_with_one_question(
    stage: DockerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SecretStore(stage.target.storage)
    for name in ("r81", "r82", "r83"):
        store.save(name, {"TOKEN": f"of {name}"})
    asked: list[str] = []
    call = stage.target.channel.call

    def counted(request: Any, *rest: Any) -> Any:
        asked.append(request["verb"])
        return call(request, *rest)

    monkeypatch.setattr(stage.target.channel, "call", counted)
    found = store.everything()
    monkeypatch.undo()
    for name in ("r81", "r82", "r83"):
        store.remove(name)
    assert found == {f"{name} TOKEN": f"of {name}" for name in ("r81", "r82", "r83")}
    assert asked == ["names"]


def test_the_lock_goes_when_its_holder_does(stage: DockerStage) -> None:
    storage = stage.target.storage
    clock = stage.clock
    lock = storage.hold(LockHolder(1, "a", "deploy", 0.0), wait_s=0, clock=clock)
    other = target_of(stage.target.project)
    with pytest.raises(LockHeld, match=r"pid 1 on .* \(a, deploy\)"):
        other.storage.hold(LockHolder(2, "b", "deploy", 0.0), wait_s=0, clock=clock)
    assert storage.holder() is not None
    stage.target.channel.close()  # as the engine does for a client that died
    taken = other.storage.hold(LockHolder(2, "b", "deploy", 0.0), wait_s=10, clock=clock)
    with pytest.raises(Superseded):
        lock.check()
    taken.check()
    taken.free()
    assert storage.holder() is None
    other.close()


def test_a_holder_whose_line_broke_for_a_moment_keeps_its_lock(stage: DockerStage) -> None:
    storage = stage.target.storage
    lock = storage.hold(LockHolder(1, "a", "deploy", 0.0), wait_s=0, clock=stage.clock)
    stage.target.channel.close()
    lock.beat()
    lock.check()
    assert storage.holder() is not None
    lock.free()
