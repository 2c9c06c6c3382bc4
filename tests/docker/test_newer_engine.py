"""An engine of a later generation: the same meaning, by the newest API that both sides know."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from opsctl.model import Observed, Share
from tests.contract.stage import Holder
from tests.docker.bench_yard import FIRST_TIME_MAX_S, host_or_skip, newer_engine
from tests.docker.second_engine import SecondEngine
from tests.docker.test_containers import container_of, control
from tests.docker.test_engine_restart import RestartStage

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(FIRST_TIME_MAX_S),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartStage]:
    with SecondEngine(live_restore=True, program=newer_engine()) as second:
        made = RestartStage(tmp_path_factory.mktemp("newer") / "project", second)
        yield made
        made.clear()


@pytest.fixture
def holder(stage: RestartStage) -> Holder:
    """Somebody newer than whoever was in charge before."""
    return Holder(stage, epoch=stage.target.observe().stamp.epoch + 1)


def test_each_engine_is_asked_by_its_own_newest_api(stage: RestartStage) -> None:
    old = host_or_skip()
    versions = [
        tuple(map(int, engine.api.api_version.split(".")))
        for engine in (old.engine, stage.target.engine)
    ]
    old.engine.close()
    assert (1, 41) <= versions[0] < versions[1]


def test_traffic_goes_from_one_release_to_the_next(stage: RestartStage, holder: Holder) -> None:
    stage.release("r1")
    stage.release("r2")
    seen = holder.converge(Share("r1", 2, 75), Share("r2", 1, 25))
    assert seen.weights == {"r1": 75, "r2": 25}
    assert abs(holder.answers(100)["r2"] - 25) <= 2
    assert container_of(stage, "r1-1")["HostConfig"]["ReadonlyRootfs"] is True
    holder.converge(Share("r2", 1, 100))
    assert holder.answers(10) == {"r2": 10}


def test_reasons_are_told_as_on_an_older_engine(stage: RestartStage, holder: Holder) -> None:
    stage.release("r3", command=["/no/such/program"])
    stage.release("r4", image="sha256:" + "0" * 64)
    stage.release("r5", command=["/app/alien"])
    stage.release("r6", memory_mb=64)
    holder.apply(*(Share(name, 1, 0) for name in ("r3", "r4", "r5", "r6")))
    reasons = {"r3": "/no/such/program", "r4": "the image of r4 is missing", "r5": "exec format"}
    for name, reason in reasons.items():
        seen = holder.wait(in_backoff(name))
        assert reason in seen.of(name)[0].reason
    holder.wait(lambda seen: any(r.phase == "ready" for r in seen.of("r6")))
    control(stage, "r6", grow_mb=200)
    holder.wait(lambda seen: seen.of("r6") and seen.of("r6")[0].restarts == 1)
    assert "at its memory limit of 64 MiB" in "\n".join(stage.target.events("r6"))


def in_backoff(release: str) -> Callable[[Observed], bool]:
    return lambda seen: any(replica.phase == "backoff" for replica in seen.of(release))
