"""Agents that end or are replaced: nobody notices, and what they did not finish is finished."""

from __future__ import annotations

import time
from typing import Any

import pytest

from opsctl.model import Share
from opsctl.targets.docker import agent_image
from opsctl.targets.docker.bring_up import AgentSetup
from opsctl.targets.supervisor.log_watch import ALL_LOGS_S, QUIET_LOOK_S
from tests.contract.docker_stage import DockerStage
from tests.contract.stage import Holder
from tests.docker.bench_yard import FIRST_TIME_MAX_S

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]


def test_users_notice_nothing_of_an_agent_that_is_killed(
    stage: DockerStage, holder: Holder
) -> None:
    stage.release("r1")
    before = holder.converge(Share("r1", 2, 100))
    stage.target.engine.api.kill(stage.target.names.agent)
    assert holder.answers(50) == {"r1": 50}
    after = holder.wait(lambda seen: seen.converged)
    assert [(r.name, r.pid, r.restarts) for r in after.replicas] == [
        (r.name, r.pid, 0) for r in before.replicas
    ]


def test_what_an_agent_that_dies_in_the_middle_of_down_has_left_goes_too(
    stage: DockerStage, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = stage.target
    stage.release("r8")
    holder.converge(Share("r8", 2, 100))
    call = target.call
    orders: list[Any] = []

    def call_and_kill(request: Any, *rest: Any) -> Any:
        answer = call(request, *rest)
        orders.append(request)
        if len(orders) == 1:
            target.engine.api.kill(target.names.agent)
        return answer

    monkeypatch.setattr(target, "call", call_and_kill)
    target.down(holder.epoch + 1)
    monkeypatch.undo()
    assert orders[0] == {"call": "down", "epoch": holder.epoch + 1}
    assert stage.left_over() == []


def test_an_agent_outlives_the_end_of_its_service_and_tells_of_the_next_one(
    stage: DockerStage, holder: Holder
) -> None:
    api, agent = stage.target.engine.api, stage.target.names.agent
    stage.release("r1")
    holder.converge(Share("r1", 1, 100))
    before = api.inspect_container(agent)["State"]
    stage.target.down(holder.epoch + 1)
    stage.release("r1")
    again = Holder(stage, epoch=holder.epoch + 2)
    again.converge(Share("r1", 1, 100))
    # It looks at all logs now and then, which it must have done with a new release there.
    time.sleep(ALL_LOGS_S + QUIET_LOOK_S)
    after = api.inspect_container(agent)["State"]
    assert (after["Pid"], after["StartedAt"]) == (before["Pid"], before["StartedAt"])
    assert any("r1-1 ready" in event for event in stage.target.events("r1"))


def test_an_older_agent_works_until_the_image_of_the_new_one_is_made(
    stage: DockerStage, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.release("r1")
    before = holder.converge(Share("r1", 1, 100))
    api, agent = stage.target.engine.api, stage.target.names.agent
    older = api.inspect_container(agent)["Id"]
    require_image = agent_image.require_image
    works: list[bool] = []

    def watched(*arguments: Any) -> str:
        works.append(any(one["Id"] == older for one in api.containers()))
        return require_image(*arguments)

    monkeypatch.setattr(agent_image, "require_image", watched)
    monkeypatch.setattr(AgentSetup, "_is_outdated", lambda self, info: True)
    stage.target.setup.ensure_running(newest=True)
    monkeypatch.undo()
    assert works[0] is True
    assert api.inspect_container(agent)["Id"] != older
    after = holder.wait(lambda seen: seen.converged)
    assert [(r.name, r.pid) for r in after.replicas] == [(r.name, r.pid) for r in before.replicas]


def test_down_forgets_all_although_its_agent_ends_meanwhile(
    stage: DockerStage, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = stage.target
    stage.release("r11")
    holder.converge(Share("r11", 1, 100))
    remove = target.storage.remove
    removed: list[str] = []

    def remove_and_kill(path: str) -> None:
        remove(path)
        removed.append(path)
        if len(removed) == 1:
            target.engine.api.kill(target.names.agent)

    monkeypatch.setattr(target.storage, "remove", remove_and_kill)
    target.down(holder.epoch + 1)
    monkeypatch.undo()
    assert removed == ["logs", "logs", "releases", "secrets", "tls"]
    assert stage.left_over() == []
