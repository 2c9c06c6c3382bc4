"""What target docker decides without an engine."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import ClassVar, cast

import pytest

from opsctl.errors import ConfigError
from opsctl.model import Json, digest
from opsctl.targets.docker import image_source
from opsctl.targets.docker.agent.lease_lock import STALE_AFTER_S, LeaseLock
from opsctl.targets.docker.agent.yard import resident_bytes
from opsctl.targets.docker.bring_up import AgentSetup
from opsctl.targets.docker.channel import Channel
from opsctl.targets.docker.container import Limits, Recipe, config_of, python_health
from opsctl.targets.docker.image_source import Image
from opsctl.targets.docker.names import Names
from opsctl.targets.docker.volume_storage import VolumeStorage

NAMES = Names("production-web")
HOLDER = {"pid": 1, "actor": "a"}


def recipe(**changes: object) -> Recipe:
    values: dict[str, object] = {
        "image": "reg/web@sha256:1", "command": ["python3", "-m", "app"], "env": {"A": "1"},
        "labels": {"l": "v"}, "limits": Limits("7:7", 8501, 8502, cpus_max=1.5, tmp_mb=32),
        "memory_mb": 100, "cpus": (0, 3),
    }  # fmt: skip
    return Recipe(**{**values, **changes})  # type: ignore[arg-type]


def test_the_whole_command_replaces_that_of_the_image() -> None:
    made = config_of(recipe(), NAMES, NAMES.network, {})
    assert (made["Entrypoint"], made["Cmd"]) == (["python3"], ["-m", "app"])
    assert (made["Image"], made["User"]) == ("reg/web@sha256:1", "7:7")
    assert made["Env"] == ["A=1"]


def test_limits_are_those_of_the_engine() -> None:
    host = config_of(recipe(), NAMES, NAMES.network, {})["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 104_857_600
    assert host["NanoCpus"] == 1_500_000_000
    assert host["CpusetCpus"] == "0,3"
    assert host["Tmpfs"] == {"/tmp": "rw,nosuid,nodev,mode=1777,size=32m"}
    assert host["Mounts"][0]["Source"] == "opsctl-production-web-models"
    assert host["Mounts"][0]["ReadOnly"] is True


def test_without_limits_nothing_is_limited() -> None:
    bare = recipe(memory_mb=None, cpus=(), limits=Limits("7:7", 1, 2))
    host = config_of(bare, NAMES, NAMES.network, {})["HostConfig"]
    assert {"Memory", "NanoCpus", "CpusetCpus"}.isdisjoint(host)


def test_devices_join_the_container() -> None:
    devices = {"Runtime": "ascend", "Env": {"B": "2"}, "Mounts": [{"Source": "/d"}]}
    made = config_of(recipe(), NAMES, NAMES.network, devices)
    assert made["Env"] == ["A=1", "B=2"]
    assert made["HostConfig"]["Runtime"] == "ascend"
    assert [mount["Source"] for mount in made["HostConfig"]["Mounts"]] == [
        "opsctl-production-web-models", "/d",
    ]  # fmt: skip


def test_docker_checks_health_with_the_python_of_the_image() -> None:
    made = config_of(recipe(health=python_health("py", 9, "/ready")), NAMES, "n", {})
    test = made["Healthcheck"]["Test"]
    assert test[:3] == ["CMD", "py", "-c"]
    assert "http://127.0.0.1:9/ready" in test[3]
    compile(test[3], "health", "exec")
    assert "Healthcheck" not in config_of(recipe(), NAMES, "n", {})


def test_limits_of_another_version_are_read() -> None:
    limits = Limits("7:7", 1, 2, npus={"count": 1})
    assert Limits.from_dict({**limits.to_dict(), "later": 1}) == limits
    assert len(digest(limits.to_dict())) == 64


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("web", "web"),
        ("web:v1", "web"),
        ("host:5000/team/web", "host:5000/team/web"),
        ("host:5000/team/web:v1", "host:5000/team/web"),
    ],
)
def test_the_tag_is_told_from_a_port(name: str, repository: str) -> None:
    assert image_source.repository(name) == repository


@pytest.mark.parametrize(
    ("image_user", "wanted", "user"),
    [
        ("", "auto", "10001:10001"),
        ("root", "auto", "10001:10001"),
        ("0:0", "auto", "10001:10001"),
        ("app", "auto", "app"),
        ("root", "2000", "2000"),
    ],
)
def test_replicas_never_run_as_root(image_user: str, wanted: str, user: str) -> None:
    assert image_source.replica_user(wanted, Image("", "", image_user, False, "")) == user


def test_root_is_refused_even_when_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"docker\.user is 0:0"):
        image_source.replica_user("0:0", Image("", "", "app", False, ""))


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = LeaseLock(tmp_path / "lock.json")
    first = lock.take(HOLDER, "line 1")
    assert first == {"token": 1, "held_by": {}}
    assert lock.take({"pid": 2}, "line 2") == {"token": 0, "held_by": HOLDER}
    lock.free(1)
    assert lock.take({"pid": 2}, "line 2")["token"] == 2
    assert not lock.beat(1, "line 1")
    assert not lock.is_valid(1)


def test_a_holder_that_hung_up_can_be_followed_at_once(tmp_path: Path) -> None:
    lock = LeaseLock(tmp_path / "lock.json")
    lock.take(HOLDER, "line 1")
    lock.hung_up("another line")
    assert lock.holder == HOLDER
    lock.hung_up("line 1")
    assert lock.holder == {}
    assert lock.beat(1, "line 3")
    assert lock.holder == HOLDER
    lock.hung_up("line 3")
    assert lock.take({"pid": 2}, "line 2")["token"] == 2


def test_a_silent_holder_is_stale_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("opsctl.targets.docker.agent.lease_lock.time.monotonic", lambda: now[0])
    lock = LeaseLock(tmp_path / "lock.json")
    lock.take(HOLDER, "line 1")
    now[0] += STALE_AFTER_S - 0.1
    assert lock.take({"pid": 2}, "line 2")["token"] == 0
    now[0] += 0.1
    assert lock.take({"pid": 2}, "line 2")["token"] == 2


def test_the_lock_survives_its_agent(tmp_path: Path) -> None:
    LeaseLock(tmp_path / "lock.json").take(HOLDER, "line 1")
    again = LeaseLock(tmp_path / "lock.json")
    assert again.holder == HOLDER
    assert again.take({"pid": 2}, "line 2")["token"] == 0
    assert again.beat(1, "line 9")
    again.void()
    assert (again.holder, again.is_valid(1)) == ({}, False)


def test_memory_is_told_without_the_cache() -> None:
    v1 = {"memory_stats": {"usage": 100, "stats": {"total_inactive_file": 30}}}
    v2 = {"memory_stats": {"usage": 100, "stats": {"inactive_file": 40}}}
    assert [resident_bytes(stats) for stats in (v1, v2, {})] == [70, 60, 0]


class AgentOfOld:
    """An agent that knows nothing of contents: it answers what it understands of a request."""

    files: ClassVar = {"r1.json": b"{}", "r2.json": b'{"A": "1"}'}

    def call(self, request: Json, timeout_s: float) -> Json:
        if request["verb"] == "names":
            return {"names": sorted(self.files)}
        data = self.files[request["path"].rpartition("/")[2]]
        encoded = base64.b64encode(data).decode()
        return {"found": True, "identity": "1", "data": encoded, "size": len(data)}


def test_contents_are_read_one_by_one_from_an_agent_of_an_older_version() -> None:
    storage = VolumeStorage(cast(Channel, AgentOfOld()), cast(AgentSetup, None), "a volume")
    assert storage.contents("secrets") == AgentOfOld.files
