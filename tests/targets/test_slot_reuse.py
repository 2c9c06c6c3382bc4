"""One slot, many replicas: on a real HAProxy, nothing of a replica is ever met by the next."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from opsctl.errors import TargetUnreachable
from opsctl.targets.supervisor import runtime_api, slots
from opsctl.targets.supervisor.haproxy_config import FREE_PORT, NOBODY
from tests.targets.front import Front, is_free, users


async def reuse(front: Front, times: int) -> dict[str, Any]:
    """Replace one of two replicas `times` times, under load; what the users saw.

    Ports come from a handful, so that each new replica answers where another one did before.
    """
    await front.up()
    chosen = random.Random(times)
    low = chosen.randrange(21_000, 31_000)  # clients' own ports begin at 32768
    ports = [port for port in range(low, low + 100) if is_free(port)][:6]
    apps = [await front.app("r0-1", ports[0]), await front.app("r0-2", ports[1])]
    await front.balancer.put({app.name: app.as_server(1) for app in apps})
    result: dict[str, Any] = {}
    async with users(front, result):
        for number in range(1, times + 1):
            taken = {app.port for app in apps}
            port = chosen.choice([port for port in ports if port not in taken])
            new = await front.app(f"r{number}-1", port)
            old = apps.pop(chosen.randrange(2))
            await front.replace(old, new, apps)
            apps.append(new)
    front.ledger.absorb(await runtime_api.statistics())
    return result


def check(front: Front, result: dict[str, Any]) -> None:
    """No failed request (a wrong release in the header is one), and each one counted right."""
    assert result["failed"] == []
    assert {t.release: t.requests for t in front.ledger.traffic() if t.requests} == result[
        "by_release"
    ]
    assert sum(result["by_release"].values()) == result["sent"]
    assert sum(text.startswith("load balancer started") for text in front.told) == 1


@pytest.mark.long
def test_slots_are_used_again_and_again_and_no_request_fails(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four slots only, so that the next replica gets what the last one left a moment ago."""
    monkeypatch.setattr(slots, "SLOTS_MIN", 4)
    times = int(os.environ.get("OPSCTL_SLOT_REUSES", "100"))
    began = time.monotonic()
    result = front.play(lambda: reuse(front, times), 1800)
    print(f"HAProxy did not answer {front.silences} times")
    figures = {name: result[name] for name in ("sent", "failed", "p99_ms", "max_ms")}
    print(json.dumps({"reuses": times, "took_s": round(time.monotonic() - began, 1), **figures}))
    check(front, result)


def test_no_idle_connection_of_a_replica_is_left_for_the_next(front: Front) -> None:
    """The old replica stays alive here and would answer, if it were asked."""

    async def scene() -> None:
        await front.up()
        old, new = await front.app("r1-1"), await front.app("r2-1")
        await front.balancer.put({old.name: old.as_server(1)})
        answers = await asyncio.gather(*(front.ask() for _ in range(20)))
        assert set(answers) == {(200, "r1", "r1-1")}
        await front.balancer.remove(old.name, 10.0)
        await front.balancer.vacate(old.name)
        while old.connections:  # HAProxy closes them itself
            await asyncio.sleep(0.01)
        rows = await runtime_api.slots()
        assert {(row.replica, row.port, row.resting) for row in rows.values()} == {
            (NOBODY, FREE_PORT, True)
        }
        front.balancer._slots._free.sort()  # the very slot that the old one had
        await front.balancer.put({new.name: new.as_server(1)})
        assert (await runtime_api.slots())["s1"].replica == "r2-1"
        answers = await asyncio.gather(*(front.ask() for _ in range(50)))
        assert set(answers) == {(200, "r2", "r2-1")}
        assert not old.connections

    front.play(scene)


def test_a_slot_begins_healthy_whatever_its_last_replica_was(front: Front) -> None:
    async def scene() -> None:
        await front.up()
        dead, new = await front.app("r1-1"), await front.app("r2-1")
        await front.balancer.put({dead.name: dead.as_server(1)})
        dead.end()
        while (await front.ask())[0] != 503:  # HAProxy itself found it dead
            await asyncio.sleep(0.05)
        await front.balancer.remove(dead.name, 1.0)
        await front.balancer.vacate(dead.name)
        front.balancer._slots._free.sort()
        await front.balancer.put({new.name: new.as_server(1)})
        assert await front.ask() == (200, "r2", "r2-1")

    front.play(scene)


def test_a_slot_with_a_request_of_its_dead_replica_is_not_given_away(front: Front) -> None:
    """The request hangs on an open connection, as when a child of the replica holds it."""

    async def scene() -> None:
        await front.up()
        old, new = await front.app("r1-1"), await front.app("r2-1")
        new.hold.set()
        await front.balancer.put({old.name: old.as_server(1)})
        hanging = asyncio.create_task(front.ask("/hold"))
        while not (await runtime_api.statistics()).busy:
            await asyncio.sleep(0.01)
        assert not await front.balancer.remove(old.name, 0.1)
        await front.balancer.put({new.name: new.as_server(1)})
        rows = await runtime_api.slots()
        assert (rows["s1"].replica, rows["s2"].replica) == ("r1-1", "r2-1")
        await front.balancer.vacate(old.name)
        rows = await runtime_api.slots()
        assert (rows["s1"].replica, rows["s2"].replica) == (NOBODY, "r2-1")
        assert await hanging == (200, "r2", "r2-1")  # it was cut, and sent again
        old.hold.set()

    front.play(scene)


def test_more_replicas_than_slots_get_a_reload_and_no_request_fails(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "SLOTS_MIN", 2)
    monkeypatch.setattr(slots, "SLOTS_PER_REPLICA", 1)

    async def scene() -> dict[str, Any]:
        await front.up()
        apps = [await front.app(f"r1-{n}") for n in range(1, 6)]
        await front.balancer.put({app.name: app.as_server(1) for app in apps[:2]})
        before = front.running()
        front.balancers.append(before)
        result: dict[str, Any] = {}
        async with users(front, result):
            await front.balancer.put({app.name: app.as_server(1) for app in apps})
            await front.more_answers()
        seen = await runtime_api.statistics()
        assert seen.pid != before.pid
        assert sorted(seen.replicas.values()) == ["r1-1", "r1-2", "r1-3", "r1-4", "r1-5"]
        return result

    result = front.play(scene)
    assert result["failed"] == []
    assert "load balancer: too few slots for the replicas, 5 from now on" in front.told


def test_a_start_has_room_for_a_rollout_of_all_replicas(front: Front) -> None:
    async def scene() -> int:
        await front.up(replicas=20)
        return len(await runtime_api.slots())

    assert front.play(scene) == 80


OLD_FORM = """# frame 0123456789abcdef
global
    stats socket unix@./admin.sock mode 600 level admin expose-fd listeners
    noreuseport
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend front
    bind 127.0.0.1:{port}
    option idle-close-on-response
    default_backend svc
backend svc
    balance roundrobin
    option http-buffer-request
    option redispatch 1
    retries 4
    retry-on conn-failure empty-response
    option httpchk
    http-check send meth GET uri-lf "%[srv_name,map(health.map,/health/ready)]"
    http-check expect status 200-299
    http-response set-header X-Opsctl-Release %[srv_name,field(1,-)]
    server r1-1 127.0.0.1:{first} check port {first} weight 1
"""


def test_a_balancer_of_an_older_opsctl_is_reloaded_and_no_request_fails(front: Front) -> None:
    """It has a server for each replica, one of them from its file and one added later."""

    async def scene() -> dict[str, Any]:
        one, two = await front.app("r1-1"), await front.app("r2-1")
        text = OLD_FORM.format(port=front.settings.port, first=one.port)
        front.layout.haproxy_config.write_text(text)
        (front.layout.run / "health.map").write_text("r1-1 /health/r1\n")
        await front.balancer.process.start("haproxy", front.count)
        before = front.running()
        front.balancers.append(before)
        await runtime_api.command(
            ["add map health.map r2-1 /health/r2",
             f"add server svc/r2-1 127.0.0.1:{two.port} check port {two.port} weight 1",
             "enable health svc/r2-1", "enable server svc/r2-1"]
        )  # fmt: skip
        result: dict[str, Any] = {}
        async with users(front, result):
            front.ledger.absorb(await runtime_api.statistics())
            newer = front.balancer = front.made()
            await newer.adopt(same_boot=True)
            assert {s.name: (s.port, s.health_path, s.weight) for s in newer.servers.values()} == {
                "r1-1": (one.port, "/health/r1", 1), "r2-1": (two.port, "/health/r2", 1)
            }  # fmt: skip
            await front.up()
            await newer.put({app.name: app.as_server(1) for app in (one, two)})
            await front.more_answers()
        rows = await runtime_api.slots()
        assert (rows["s1"].replica, rows["s2"].replica, len(rows)) == ("r1-1", "r2-1", 32)
        return result

    result = front.play(scene)
    assert result["failed"] == []
    assert set(result["by_release"]) == {"r1", "r2"}


def test_a_new_supervisor_knows_which_replica_has_which_slot(front: Front) -> None:
    async def scene() -> None:
        await front.up()
        front.balancer.note = {"stamp": {"epoch": 1}}
        apps = [await front.app(name) for name in ("r1-1", "r1-2", "r2-1")]
        await front.balancer.put({app.name: app.as_server(2) for app in apps})
        await front.leave(apps[1])
        before = await runtime_api.slots()
        child = front.running()
        front.balancers.append(child)
        newer = front.balancer = front.made()
        await newer.adopt(same_boot=True)
        assert sorted(newer.servers) == ["r1-1", "r2-1"]
        assert newer.note == {"stamp": {"epoch": 1}}
        await front.up()
        await newer.put({app.name: app.as_server(2) for app in (apps[0], apps[2])})
        assert await runtime_api.slots() == before
        assert (await runtime_api.statistics()).pid == child.pid

    front.play(scene)


def test_a_balancer_that_is_silent_while_it_is_adopted_keeps_its_slots(front: Front) -> None:
    async def scene() -> None:
        await front.up()
        apps = [await front.app(name) for name in ("r1-1", "r2-1", "r3-1")]
        await front.put({app.name: app.as_server(1) for app in apps})
        await front.leave(apps[0])
        before = await runtime_api.slots()
        child = front.freeze()
        front.balancers.append(child)
        newer = front.balancer = front.made()
        with pytest.raises(TargetUnreachable):
            await newer.adopt(same_boot=True)
        with pytest.raises(TargetUnreachable):
            await front.up()
        child.signal(signal.SIGCONT)
        await front.up()
        # In another order than before: who was given a slot keeps it.
        await front.put({app.name: app.as_server(1) for app in (apps[2], apps[1])})
        assert await runtime_api.slots() == before

    front.play(scene)


@pytest.mark.parametrize("ask", [runtime_api.slots, runtime_api.statistics])
def test_an_answer_that_breaks_off_is_none(
    front: Front, ask: Callable[[], Coroutine[Any, Any, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when HAProxy is killed while it answers: each part of a real answer, all but the whole."""
    texts: list[str] = []
    original = runtime_api.command

    async def keeping(lines: Sequence[str]) -> str:
        texts.append(await original(lines))
        return texts[-1]

    async def scene() -> None:
        await front.up()
        app = await front.app("r1-1")
        await front.put({app.name: app.as_server(1)})
        with monkeypatch.context() as patch:
            patch.setattr(runtime_api, "command", keeping)
            await ask()
        text = texts[-1]
        for length in (*range(0, len(text) - 1, 97), len(text) - 1):
            part = text[:length]

            async def broken(lines: Sequence[str], part: str = part) -> str:
                return part

            with monkeypatch.context() as patch:
                patch.setattr(runtime_api, "command", broken)
                with pytest.raises(TargetUnreachable, match="broke off"):
                    await ask()

    front.play(scene)
