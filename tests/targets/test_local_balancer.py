"""The front door: weights, restarts, reloads, TLS, big bodies, counters."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsctl.certificates import served
from opsctl.config.settings import Tls
from opsctl.errors import TargetUnreachable
from opsctl.model import DesiredState, Observed, Share
from opsctl.targets.local import LocalTarget
from tests.certificates import issue
from tests.targets.house import WAIT_MAX_S, House, ask, with_health, with_local
from tests.targets.test_local_switch import RATE, users

Make = Callable[..., House]
WARM = DesiredState((Share("r1", 1, 0),))


def balancer_pid(house: House) -> int:
    return int(house.layout.haproxy_pid_file.read_text().split()[0])


def has_restarted(times: int) -> Callable[[Observed], bool]:
    """Whether replicas have been started again so often, and everything is as it should be.

    That something is not so is no lasting state: on a busy machine nobody may see it.
    """
    return lambda seen: seen.converged and sum(r.restarts for r in seen.replicas) == times


def test_a_killed_balancer_is_back_at_once_with_servers_and_weights(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 75), Share("r2", 1, 25))
    counted = house.releases_that_answer(40)
    house.wait(lambda seen: seen.front_requests == 40)  # it has read the counters
    killed = balancer_pid(house)
    began = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    while True:
        try:
            assert house.ask()[0] == 200
            break
        except OSError:
            assert time.monotonic() - began < WAIT_MAX_S
            time.sleep(0.005)
    print(f"front door back after {time.monotonic() - began:.3f} s")
    seen = house.wait(lambda seen: seen.converged)
    assert balancer_pid(house) != killed
    answers = house.releases_that_answer(100)
    assert abs(answers["r2"] - 25) <= 1
    seen = house.target.observe()
    total = 1 + 40 + 100
    assert seen.front_requests == total
    assert seen.traffic_of("r1").requests + seen.traffic_of("r2").requests == total
    assert seen.traffic_of("r2").requests >= counted["r2"] + answers["r2"]


@pytest.mark.long
def test_a_balancer_killed_together_with_its_supervisor_comes_back(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 2, 100))
    os.kill(house.supervisor_pid(), signal.SIGKILL)
    os.kill(balancer_pid(house), signal.SIGKILL)
    house.wait(lambda seen: seen.converged)
    assert house.releases_that_answer(10) == {"r1": 10}


def test_counters_stay_when_a_release_is_removed(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100))
    house.releases_that_answer(30)
    house.converge(Share("r2", 1, 100))
    house.releases_that_answer(12)
    seen = house.target.observe()
    assert {t.release: t.requests for t in seen.traffic} == {"r1": 30, "r2": 12}
    os.kill(house.supervisor_pid(), signal.SIGKILL)
    seen = house.wait(lambda seen: seen.converged)
    assert {t.release: t.requests for t in seen.traffic} == {"r1": 30, "r2": 12}
    assert seen.front_requests == 42


def test_errors_of_a_release_are_counted(house: House) -> None:
    house.release("r1", env={"APP_FAIL_PERCENT": "10"})
    house.converge(Share("r1", 1, 100))
    statuses = [house.ask()[0] for _ in range(100)]
    seen = house.target.observe()
    assert statuses.count(500) == 10
    assert (seen.traffic_of("r1").requests, seen.traffic_of("r1").errors) == (100, 10)
    assert (seen.front_requests, seen.front_errors) == (100, 10)


def test_big_bodies_survive_the_death_of_a_replica(house: House) -> None:
    """27 KB of a batch: more than HAProxy's own buffer, so it must be kept to be sent again."""
    house.release("r1")
    seen = house.converge(Share("r1", 2, 100))
    door, body = house.target.front_door(), "x" * 27_000
    connection = http.client.HTTPConnection(door.host, door.port, timeout=10)
    for number in range(200):
        if number == 100:
            os.kill(seen.replicas[0].pid, signal.SIGKILL)
        connection.request("POST", "/", body)
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert (response.status, answer["bytes"]) == (200, 27_000)
    connection.close()


@pytest.mark.long
def test_no_request_fails_when_one_of_two_replicas_is_killed_ten_times(house: House) -> None:
    house.release("r1", health=with_health(max_restarts=100))
    house.converge(Share("r1", 2, 100))
    result: dict[str, Any] = {}
    with users(house, result):
        for kills in range(10):
            seen = house.wait(has_restarted(kills))
            victim = min(seen.replicas, key=lambda replica: replica.restarts)
            os.kill(victim.pid, signal.SIGKILL)
        house.wait(has_restarted(10))
    assert result["failed"] == []


def test_no_request_fails_when_the_only_replica_is_killed_under_load(house: House) -> None:
    # 20 ms: at 200 requests a second about four are with the replica when it dies.
    house.release("r1", health=with_health(max_restarts=100), env={"APP_DELAY": "0.02"})
    house.converge(Share("r1", 1, 100))
    result: dict[str, Any] = {}
    with users(house, result):
        for kills in range(3):
            (replica,) = house.wait(has_restarted(kills)).replicas
            os.kill(replica.pid, signal.SIGKILL)
        house.wait(has_restarted(3))
    assert result["failed"] == []
    assert result["sent"] > 0


def test_a_taken_front_port_is_refused_with_its_holder_and_nothing_is_started(
    make_house: Make,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        house = make_house(port=port)
        house.release("r1")
        finding = next(f for f in house.target.preflight(WARM) if f.check == "front door")
        assert finding.status == "fail"
        assert f"port {port} of 127.0.0.1 is held by pid {os.getpid()} (" in finding.what
        with pytest.raises(TargetUnreachable, match=f"on port {port}: it is held by pid"):
            house.apply(Share("r1", 1, 100))
        assert house.target.observe().replicas == ()


def test_port_auto_is_the_first_free_one_and_is_remembered(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    port = house.target.front_door().port
    assert 8501 <= port < 9500
    house.apply()
    pid = house.supervisor_pid()
    os.kill(pid, signal.SIGKILL)
    os.kill(balancer_pid(house), signal.SIGKILL)
    house.converge(Share("r1", 1, 100))
    assert house.target.front_door().port == port


def test_two_services_that_start_at_once_get_a_port_each(make_house: Make) -> None:
    """Both find the same first free port; the one that comes second takes the next."""
    houses = [make_house("one"), make_house("two"), make_house("three")]
    for house in houses:
        house.release("r1")
        house.apply(Share("r1", 1, 100))
    for house in houses:
        house.wait(lambda seen: seen.converged)
        assert house.ask()[:2] == (200, "r1")
    assert len({house.target.front_door().port for house in houses}) == 3


def test_changed_settings_reload_the_balancer_without_a_failed_request(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 2, 100))
    before = balancer_pid(house)
    result: dict[str, Any] = {}
    with users(house, result):
        house.target = LocalTarget(with_local(house.project, request_timeout_s=33.0))
        house.converge(Share("r1", 2, 100))
        assert balancer_pid(house) != before
        time.sleep(0.5)
    assert result["failed"] == []
    assert f"load balancer reloaded with new settings: pid {before} hands over" in "\n".join(
        house.target.events("r1")
    )
    assert "timeout server 33s" in house.layout.haproxy_config.read_text()
    # What the old process answers after it handed over (one more request a connection), or
    # between the last look at it and that moment, is not counted: nobody can ask it any more.
    missed = result["sent"] - house.target.observe().front_requests
    assert 0 <= missed <= result["connections"] + RATE / 10


def test_without_retries_a_request_is_sent_once(make_house: Make) -> None:
    house = make_house(retry_requests=False)
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    text = house.layout.haproxy_config.read_text()
    assert "retry-on conn-failure\n" in text
    assert "empty-response" not in text


def certificate(folder: Path, name: str) -> None:
    """A self-signed pair of files for `name`, in place of what was there."""
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    more = ["-keyout", f"{folder}/k.new", "-out", f"{folder}/c.new", "-days", "2", "-nodes"]
    subprocess.run([*argv, *more, "-subj", f"/CN={name}"], check=True, capture_output=True)
    (folder / "k.new").replace(folder / "key.pem")
    (folder / "c.new").replace(folder / "cert.pem")


def common_name(connection: http.client.HTTPSConnection) -> bytes:
    """The subject of the certificate that the server shows, as DER."""
    assert isinstance(connection.sock, ssl.SSLSocket)
    return connection.sock.getpeercert(binary_form=True) or b""


def test_a_renewed_certificate_is_shown_and_open_connections_stay(make_house: Make) -> None:
    house = make_house(tls=Tls("cert.pem", "key.pem"))
    certificate(house.project.root, "first.example")
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    door = house.target.front_door()
    assert door.url.startswith("https://")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def connected() -> http.client.HTTPSConnection:
        made = http.client.HTTPSConnection(door.host, door.port, timeout=10, context=context)
        made.request("POST", "/", "{}")
        assert made.getresponse().read()
        return made

    old = connected()
    assert b"first.example" in common_name(old)
    certificate(house.project.root, "second.example")
    limit = time.monotonic() + WAIT_MAX_S
    while True:
        new = connected()
        if b"second.example" in common_name(new) or time.monotonic() > limit:
            break
        new.close()
        time.sleep(0.2)
    assert b"second.example" in common_name(new)
    old.request("POST", "/", "{}")
    assert old.getresponse().status == 200
    old.close()
    new.close()
    assert "certificate renewed at the front door" in house.all_events()
    # A broken pair is refused, and the good one stays.
    (house.project.root / "key.pem").write_text("no key")
    stays = "the last good certificate stays in force: "
    seen = house.wait(lambda observed: observed.trouble.startswith(stays))
    assert "both must be PEM files that belong together" in seen.trouble
    assert seen.converged
    assert seen.trouble in house.all_events()
    still = connected()
    assert b"second.example" in common_name(still)
    still.close()
    # HAProxy comes back with it when it dies, and orders are still taken.
    before = balancer_pid(house)
    os.kill(before, signal.SIGKILL)
    house.wait(lambda o: o.balancer_up and o.converged and balancer_pid(house) != before)
    assert served(door.host, door.port, 30).name == "second.example"
    house.converge(Share("r1", 2, 100))
    # Good files are put in force, and the trouble is over.
    certificate(house.project.root, "third.example")
    house.wait(lambda observed: not observed.trouble)
    assert served(door.host, door.port, 30).name == "third.example"


def test_an_expired_renewal_does_not_replace_a_certificate_that_holds(make_house: Make) -> None:
    house = make_house(tls=Tls("cert.pem", "key.pem"))
    issue(house.project.root, "good.example", days=30)
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    issue(house.project.root, "old.example", days=-1)
    stays = "the last good certificate stays in force: the certificate of old.example expired on "
    # (Not at once: the key is in place a moment before its certificate.)
    house.wait(lambda observed: observed.trouble.startswith(stays))
    door = house.target.front_door()
    assert served(door.host, door.port, 30).name == "good.example"


def test_settings_that_haproxy_refuses_do_not_hold_up_the_traffic(house: House) -> None:
    house.release("r1")
    house.release("r2")
    house.converge(Share("r1", 1, 100), Share("r2", 1, 0))
    before = balancer_pid(house)
    house.target = LocalTarget(with_local(house.project, request_timeout_s=1e12))
    house.apply(Share("r1", 1, 0), Share("r2", 1, 100))
    seen = house.wait(lambda seen: seen.weights == {"r2": 100})
    assert house.releases_that_answer(10) == {"r2": 10}
    assert not seen.converged
    assert seen.trouble.startswith("HAProxy refuses its new settings")
    os.kill(before, signal.SIGKILL)  # its file must still be the good one
    house.target = LocalTarget(house.project)
    house.converge(Share("r1", 1, 0), Share("r2", 1, 100))
    assert house.releases_that_answer(10) == {"r2": 10}


@pytest.mark.long
def test_a_balancer_that_hangs_is_killed_and_started_again(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    hung = balancer_pid(house)
    os.kill(hung, signal.SIGSTOP)
    house.wait(lambda _: balancer_pid(house) != hung)
    house.wait(lambda seen: seen.converged)
    assert house.ask()[:2] == (200, "r1")
    assert any("is killed: it does not answer any more" in text for text in house.all_events())


def test_each_release_is_checked_on_its_own_health_path(house: House) -> None:
    house.release("r1")
    house.release("r2", health=with_health(path="/another/path"))
    house.converge(Share("r1", 1, 50), Share("r2", 1, 50))
    house.control("r1-1", health=500)
    house.wait(lambda seen: seen.of("r1")[0].phase == "unready")
    house.wait(lambda _: house.releases_that_answer(20) == {"r2": 20})


def test_when_nothing_serves_users_get_503(house: House) -> None:
    house.release("r1")
    house.converge(Share("r1", 1, 100))
    house.converge(Share("r1", 1, 0))
    assert house.ask()[0] == 503
    seen = house.target.observe()
    door = seen.replicas[0]
    assert ask(door.host, door.port, "/", "POST", "{}")[0] == 200
    assert seen.front_errors == 1
