"""Parts that are killed: the command, the supervisor, the balancer, all of them at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
import yaml

from tests.apps.processes import wait_until
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick

HOLD_S = 4
SLOW_SHIFT = {"stages": [{"weight": 20, "hold_s": HOLD_S}]}
GUARD_LIMIT_S = 5.0
"""Within this time after a SIGKILL an unproved candidate has no traffic."""


def pid_of(site: Site, name: str) -> int:
    """Pid of the supervisor or of HAProxy, by the program that runs."""
    word = "opsctl.targets.supervisor" if name == "supervisor" else "haproxy"
    found = [
        pid
        for pid, line in site.processes().items()
        if word in line and not line.startswith(("/bin/sh", "sh "))
    ]
    assert found, site.processes()
    return min(found)


def kill_all(site: Site) -> None:
    """What a power cut does to the processes of the service."""

    def none_is_left() -> bool:
        for pid in site.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return site.processes() == {}

    wait_until(none_is_left, "all processes ended")


def test_after_a_sigkill_the_guard_takes_the_candidate_off_and_resume_goes_on(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy={"stages": [{"weight": 20, "hold_s": 6}]}))
    site.good("deploy")
    with site.users() as users:
        deploy = site.begin_deploy()
        site.wait_for_traffic("r2")
        deploy.kill()
        killed = time.time()
        wait_until(lambda: site.status()["observed"]["guarded"], "the guard acted")
        assert site.answers(20) == {"r1": 20}
        resumed = time.time()
        result = site.run("resume")
    assert (result.exit_code, result.data["serving_release"]) == (0, "r2"), result.stderr
    bucket_s = users.seen["bucket_s"]
    sent = [number * bucket_s for number, count in users.seen["buckets"]["r2"]]
    late = [t for t in sent if killed + GUARD_LIMIT_S < t < resumed]
    assert late == []
    assert site.answers(10) == {"r2": 10}


@pytest.mark.long
def test_a_plain_deploy_goes_on_as_resume_does(make_site: MakeSite) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_traffic("r2")
        deploy.kill()
        result = site.run("deploy")
    assert (result.exit_code, result.data["release"]) == (0, "r2"), result.stderr
    assert site.status()["holder"] is None


@pytest.mark.long
def test_a_deploy_of_something_else_takes_the_killed_one_back_first(make_site: MakeSite) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_traffic("r2")
        deploy.kill()
        result = site.deploy()
    assert (result.exit_code, result.data["release"]) == (0, "r3"), result.stderr
    outcomes = {r["release"]: r["outcome"] for r in site.good("history").data["rollouts"]}
    assert outcomes == {"r1": "deployed", "r2": "aborted", "r3": "deployed"}
    assert site.pids("r2") == {}


@pytest.mark.long
def test_a_balancer_that_is_killed_in_the_middle_of_a_switch_is_back_at_once(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    with site.users(failures=500) as users:
        deploy = site.begin_deploy()
        site.wait_for_traffic("r2")
        old = pid_of(site, "haproxy")
        os.kill(old, signal.SIGKILL)
        code = deploy.end()
    # Whether the outage is held against the candidate is a matter of milliseconds.
    assert code in (0, 10), deploy.output
    serving = "r2" if code == 0 else "r1"
    assert deploy.data["serving_release"] == site.serving == serving
    assert pid_of(site, "haproxy") != old
    assert site.answers(20) == {serving: 20}
    last = max(failure["ended"] for failure in users.seen["failures"] or [{"ended": 0}])
    assert users.seen["ended"] > last, "requests were answered again afterwards"
    assert users.seen["answered"] > users.seen["failed"]


@pytest.mark.long
def test_a_supervisor_that_is_killed_in_the_middle_of_a_rollout_is_back_and_nobody_notices(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    before = site.pids("r1")
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_traffic("r2")
        candidate = site.pids("r2")
        old = pid_of(site, "supervisor")
        os.kill(old, signal.SIGKILL)
        assert deploy.end() == 0, deploy.output
    assert pid_of(site, "supervisor") != old
    assert site.pids("r1") == before
    assert site.pids("r2") == candidate
    assert site.answers(10) == {"r2": 10}


@pytest.mark.long
def test_a_rollout_goes_on_with_the_configuration_that_it_began_with(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_traffic("r2")
        deploy.kill()
        # None of this may count for a rollout that is under way.
        config = yaml.safe_load(site.project.config.read_text())
        service = config["services"]["light"]
        service["smoke"] = [{"name": "cannot pass", "path": "/nowhere"}]
        service["strategy"]["stages"] = [{"weight": 90, "hold_s": 1}]
        service["hooks"] = [{"when": "before", "step": "promote", "run": ["false"]}]
        site.project.config.write_text(yaml.safe_dump(config))
        site.change_files_only(Candidate("code", fault={"exit_at_start": 3}))
        result = site.run("resume")
    assert (result.exit_code, result.data["serving_release"]) == (0, "r2"), result.stderr
    steps = [s["id"] for s in site.report(result)["steps"] if s["outcome"] == "passed"]
    assert "shift-20" in steps
    assert "shift-90" not in steps
    assert site.answers(10) == {"r2": 10}


def test_after_a_restart_of_the_machine_resume_brings_back_what_served(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(replicas=2))
    site.good("deploy")
    assert site.deploy().exit_code == 0
    kill_all(site)
    result = site.good("resume")
    assert (result.data["serving_release"], site.serving) == ("r2", "r2")
    assert sorted(site.pids("r2")) == ["r2-1", "r2-2"]
    assert site.answers(10) == {"r2": 10}
    assert site.good("health").data["outcome"] == "healthy"


@pytest.mark.long
def test_after_a_restart_in_the_middle_of_a_rollout_resume_ends_it(make_site: MakeSite) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    deploy = site.begin_deploy()
    site.wait_for_traffic("r2")
    deploy.kill()
    kill_all(site)
    result = site.good("resume")
    assert (result.data["outcome"], result.data["serving_release"]) == ("deployed", "r2")
    assert site.answers(10) == {"r2": 10}


@pytest.mark.long
def test_after_a_restart_in_the_middle_of_a_rollout_abort_brings_the_old_release_back(
    make_site: MakeSite,
) -> None:
    site = make_site(quick(strategy=SLOW_SHIFT))
    site.good("deploy")
    deploy = site.begin_deploy()
    site.wait_for_traffic("r2")
    deploy.kill()
    kill_all(site)
    result = site.good("abort")
    assert (result.data["outcome"], result.data["serving_release"]) == ("aborted", "r1")
    assert site.answers(10) == {"r1": 10}
    assert site.pids("r2") == {}
