"""NPUs on a Docker host: an engine that knows the vendor's runtime, with numbers for devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsctl.config import settings
from opsctl.model import DesiredState, Share
from opsctl.targets.docker import npus
from opsctl.targets.docker.names import NPUS, RELEASE, REPLICA, SERVICE
from opsctl.targets.docker.target import DockerTarget
from tests.contract.stage import Holder
from tests.docker.bench_yard import FIRST_TIME_MAX_S
from tests.docker.second_engine import SecondEngine
from tests.docker.test_engine_restart import RestartStage

RUNTIME = {"count": 1, "devices": [4, 5], "access": "runtime", "share": False, "driver_dir": "/d"}


def holding(name: str, numbers: str, release: str = "r1") -> dict[str, object]:
    """A container as the engine lists it."""
    labels = {NPUS: numbers, RELEASE: release, REPLICA: name, SERVICE: "s"}
    return {"Names": [f"/{name}"], "Labels": labels}


def test_free_npus_are_taken_in_order() -> None:
    assert npus.choose(RUNTIME, "c", "r2", [holding("a", "4")]) == (5,)
    assert npus.choose({**RUNTIME, "count": 2}, "c", "r2", []) == (4, 5)


def test_a_container_keeps_the_npus_that_it_has() -> None:
    assert npus.choose(RUNTIME, "a", "r1", [holding("a", "5"), holding("b", "4")]) == (5,)


def test_two_releases_share_an_npu_only_when_told() -> None:
    held = [holding("a", "4"), holding("b", "5")]
    with pytest.raises(npus.NoFreeNpu, match="NPU 4: a of s; NPU 5: b of s"):
        npus.choose(RUNTIME, "c", "r2", held)
    assert npus.choose({**RUNTIME, "share": True}, "c", "r2", held) == (4,)
    twice = [*held, holding("d", "4")]
    assert npus.choose({**RUNTIME, "share": True}, "c", "r2", twice) == (5,)


def test_the_runtime_is_told_by_a_variable() -> None:
    assert npus.devices_of(RUNTIME, (4, 5)) == {
        "Runtime": "ascend", "Env": {"ASCEND_VISIBLE_DEVICES": "4,5"},
    }  # fmt: skip


def test_without_the_runtime_device_nodes_and_driver_are_passed() -> None:
    made = npus.devices_of({**RUNTIME, "access": "devices"}, (5,))
    assert [one["PathOnHost"] for one in made["Devices"]] == [
        "/dev/davinci5", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc",
    ]  # fmt: skip
    assert [(one["Source"], one["ReadOnly"]) for one in made["Mounts"]] == [
        ("/d", True), ("/usr/local/dcmi", True), ("/usr/local/bin/npu-smi", True),
        ("/etc/ascend_install.info", True),
    ]  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[RestartStage]:
    with SecondEngine(live_restore=True) as second:
        made = RestartStage(tmp_path / "project", second)
        yield made
        made.target.close()


@pytest.mark.docker
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(FIRST_TIME_MAX_S)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_releases_never_meet_on_an_npu(stage: RestartStage) -> None:
    holder = Holder(stage)
    container = {"user": "1:1", "port": 8501, "health_port": 8502, "image_health": True}
    for name in ("r1", "r2"):
        stage.release(name, container={**container, "npus": RUNTIME})
    holder.converge(Share("r1", 2, 100))
    names = stage.target.names
    infos = [stage.target.engine.api.inspect_container(names.replica(n)) for n in ("r1-1", "r1-2")]
    assert {info["HostConfig"]["Runtime"] for info in infos} == {"ascend"}
    given = [v for i in infos for v in i["Config"]["Env"] if v.startswith("ASCEND_")]
    assert sorted(given) == ["ASCEND_VISIBLE_DEVICES=4", "ASCEND_VISIBLE_DEVICES=5"]

    holder.apply(Share("r1", 2, 100), Share("r2", 1, 0))
    seen = holder.wait(lambda seen: any(r.phase == "backoff" for r in seen.of("r2")))
    assert "r2 needs 1 NPUs a replica, 0 are free" in seen.of("r2")[0].reason
    assert holder.answers(10) == {"r1": 10}

    holder.apply(Share("r1", 1, 100), Share("r2", 1, 0))
    holder.wait(lambda seen: seen.converged)

    state = DesiredState((Share("r1", 1, 100), Share("r2", 2, 0)))
    (finding,) = findings(stage, state)
    assert finding.status == "fail"
    assert finding.what == "3 NPUs are needed at the fullest, 2 are to be had (runtime)"
    assert "strategy.type: recreate" in finding.next_step
    assert findings(stage, DesiredState((Share("r1", 1, 100), Share("r2", 1, 0))))[0].status == "ok"


def findings(stage: RestartStage, state: DesiredState) -> list:  # type: ignore[type-arg]
    """What preflight says of NPUs when the project asks for one a replica."""
    project = stage.target.project
    wanted = settings.Npus(count=1, devices=(4, 5))
    docker = dataclasses.replace(project.service.docker, npus=wanted)
    service = dataclasses.replace(project.service, docker=docker)
    changed = dataclasses.replace(project, service=service)
    target = DockerTarget(changed, stage.target.engine, lambda text: None)
    found = [one for one in target.preflight(state) if one.check == "npus"]
    target.channel.close()
    return found
