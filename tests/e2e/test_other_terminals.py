"""abort, pause, resume and approve from another terminal, in every kind of step."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.apps.project import Candidate
from tests.e2e.site import Site, new_site, quick

LONG_S = 120
"""A step that lasts this long is interrupted by the test, or the test fails."""

HEALTH = {"tries": 2400, "interval_s": 0.05}
SLOW_SMOKE = {"smoke": [{"name": "takes its time", "run": ["sleep", "100"], "timeout_s": LONG_S}]}
LONG_GATE = {
    "gate": {"enabled": True, "budget_s": LONG_S, "min_pairs": 5_000, "confirm": False},
    "strategy": {"step_timeout_s": 300},
}
LONG_SHIFT = {"strategy": {"stages": [{"weight": 20, "hold_s": LONG_S}]}}
LONG_PROMOTE = {"strategy": {"promote_hold_s": LONG_S}}
APPROVAL = {"strategy": {"stages": [{"weight": 20, "hold_s": 0.2}], "promote_approval": True}}

STEPS: tuple[tuple[str, Candidate, Mapping[str, Any]], ...] = (
    ("start", Candidate("hangs", fault={"hang_at_start": True}), {"health": HEALTH}),
    ("smoke", Candidate("code"), SLOW_SMOKE),
    ("gate", Candidate("code"), LONG_GATE),
    ("shift-20", Candidate("code"), LONG_SHIFT),
    ("promote", Candidate("code"), LONG_PROMOTE),
)

QUICK_STEPS = ("start", "shift-20")


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service whose options change from test to test."""
    site = new_site(tmp_path_factory.mktemp("crossing"), quick())
    site.good("deploy")
    yield site
    site.close()


@pytest.mark.parametrize(
    ("step", "candidate", "service"),
    [
        pytest.param(*s, id=s[0], marks=() if s[0] in QUICK_STEPS else pytest.mark.long)
        for s in STEPS
    ],
)
def test_pause_then_resume_then_abort_from_another_terminal(
    crossing: Site, step: str, candidate: Candidate, service: Mapping[str, Any]
) -> None:
    site = crossing.with_options(**service)
    old = site.serving
    assert old is not None
    before = site.pids(old)
    with site.users():
        first = site.begin_deploy(candidate)
        site.wait_for_record("began", step)
        site.good("pause", "--reason", "lunch")
        assert first.end() == 20, first.output
        assert site.status()["rollout"]["paused"] is True
        assert site.status()["holder"] is None
        second = site.begin("resume")
        site.wait_for_beginnings(step, 2)
        done = site.good("abort", "--reason", "enough")
        assert second.end() == 23, second.output
    assert (done.data["outcome"], done.data["serving_release"]) == ("aborted", old)
    assert second.data["outcome"] == "aborted"
    assert "abort by" in second.data["reason"]
    assert "enough" in second.data["reason"]
    assert site.pids(old) == before
    assert site.pids(str(second.data["release"])) == {}
    assert site.answers(10) == {old: 10}
    assert site.status()["rollout"] is None


def test_abort_of_a_rollout_that_waits_for_approval_is_done_by_the_one_who_asks(
    crossing: Site,
) -> None:
    site = crossing.with_options(**APPROVAL)
    old = site.serving
    with site.users():
        assert site.deploy().exit_code == 20
        assert site.run("abort").data["outcome"] == "aborted"
    assert site.serving == old
    assert site.run("abort").data["outcome"] == "nothing_to_abort"
    assert site.run("pause").data["outcome"] == "nothing_to_pause"
    assert site.run("approve").exit_code == 2


def test_a_paused_rollout_goes_on_with_resume_to_its_end(crossing: Site) -> None:
    site = crossing.with_options(strategy={"stages": [{"weight": 20, "hold_s": 3}]})
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_record("began", "shift-20")
        site.good("pause")
        assert deploy.end() == 20
        result = site.run("resume")
    assert (result.exit_code, result.data["outcome"]) == (0, "deployed")
    assert site.answers(10) == {str(result.data["release"]): 10}


@pytest.mark.long
def test_rollback_of_an_open_rollout_takes_its_candidate_back(crossing: Site) -> None:
    site = crossing.with_options(**LONG_SHIFT)
    old = site.serving
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_record("began", "shift-20")
        back = site.good("rollback")
        assert deploy.end() == 23
    assert back.data["serving_release"] == site.serving == old


@pytest.mark.long
def test_wait_ends_with_the_exit_code_of_the_rollout_it_waits_for(crossing: Site) -> None:
    site = crossing.with_options(**LONG_SHIFT)
    deploy = site.begin_deploy()
    site.wait_for_record("began", "shift-20")
    late = site.run("wait", "--timeout", "0.5")
    assert late.exit_code == 24
    waiting = site.begin("wait")
    site.good("abort")
    assert (deploy.end(), waiting.end()) == (23, 23)


@pytest.mark.parametrize(
    ("signal_name", "code"), [("INT", 130), pytest.param("TERM", 143, marks=pytest.mark.long)]
)
def test_a_signal_takes_the_candidate_off_at_once_and_resume_goes_on(
    crossing: Site, signal_name: str, code: int
) -> None:
    import signal

    site = crossing.with_options(strategy={"stages": [{"weight": 20, "hold_s": 2}]})
    old = site.serving
    with site.users():
        deploy = site.begin_deploy()
        site.wait_for_record("began", "shift-20")
        deploy.signal(signal.Signals[f"SIG{signal_name}"])
        assert deploy.end() == code, deploy.output
        assert site.answers(20) == {old: 20}
        assert "opsctl resume" in deploy.output
        result = site.run("resume")
    assert (result.exit_code, result.data["outcome"]) == (0, "deployed")
    assert site.serving == result.data["release"]


@pytest.mark.long
def test_a_time_limit_leaves_the_rollout_safe_and_resume_ends_it(crossing: Site) -> None:
    site = crossing.with_options(strategy={"stages": [{"weight": 20, "hold_s": 8}]})
    old = site.serving
    with site.users():
        result = site.deploy(None, "--timeout", "6")
        assert result.exit_code == 24, result.stderr
        assert site.answers(20) == {old: 20}
        assert site.good("resume").data["outcome"] == "deployed"


def test_a_rollback_typed_again_after_a_kill_ends_where_the_first_one_was_going(
    site: Site,
) -> None:
    assert site.deploy().exit_code == 0
    site.run("rollback", OPSCTL_KILL_AT="after:4:KILL")
    assert [r["data"]["step"]["id"] for r in site.newest_records() if r["kind"] == "began"][
        -1:
    ] == ["promote"]
    preview = site.good("rollback", "--preview")
    again = site.good("rollback")
    assert (preview.data["release"], again.data["serving_release"], site.serving) == (
        "r1", "r1", "r1"
    )  # fmt: skip
    rows = site.good("history").data["rollouts"]
    assert [row["outcome"] for row in rows] == ["rolled_back_on_request", "deployed", "deployed"]


@pytest.mark.long
def test_a_deploy_after_a_killed_rollback_lets_it_reach_its_release_first(site: Site) -> None:
    assert site.deploy().exit_code == 0
    site.run("rollback", OPSCTL_KILL_AT="after:4:KILL")
    with site.users():
        deployed = site.deploy()
    assert (deployed.exit_code, deployed.data["base"], site.serving) == (0, "r1", "r3")


@pytest.mark.long
def test_two_rollbacks_at_once_leave_one_release_once(site: Site) -> None:
    assert site.deploy().exit_code == 0
    assert site.deploy().exit_code == 0
    both = [site.begin("rollback", "--lock-wait", "60") for _ in range(2)]
    assert [one.end() for one in both] == [0, 0]
    assert site.serving == "r2"


@pytest.mark.long
def test_rollback_to_a_named_release_goes_there_even_when_a_deploy_is_open(site: Site) -> None:
    assert site.deploy().exit_code == 0
    waiting = site.with_options(**APPROVAL)
    assert waiting.deploy().exit_code == 20
    for unknown in ("r99", ""):
        refused = waiting.run("rollback", unknown)
        assert (refused.exit_code, "there is no release" in refused.stderr) == (2, True)
    assert waiting.status()["rollout"]["candidate"] == "r3"
    assert waiting.good("rollback", "r1", "--preview").data["release"] == "r1"
    assert waiting.good("rollback", "r1").data["serving_release"] == waiting.serving == "r1"
    assert waiting.good("rollback", "r1").data["outcome"] == "unchanged"


@pytest.mark.parametrize(
    "command", ["down --yes", "resume", "abort", "rollback", "pause", "approve", "init away"]
)
def test_a_dry_run_changes_nothing(standing: Site, command: str) -> None:
    before = (standing.records(), standing.pids("r1"))
    done = standing.raw(*command.split(), "--dry-run")
    assert (done.exit_code in (0, 2), (standing.records(), standing.pids("r1"))) == (True, before)
    assert not (standing.project.root / "away").exists()
    assert done.exit_code == 0 or "nothing was done" in done.stderr or "cannot" in done.stderr


@pytest.mark.long
def test_a_deploy_hears_a_request_that_nobody_was_there_to_read(crossing: Site) -> None:
    site = crossing.with_options(**APPROVAL)
    assert site.deploy().exit_code == 20
    assert site.good("pause").data["outcome"] == "asked"
    assert site.run("deploy").exit_code == 20
    assert site.good("approve").data["outcome"] == "deployed"


def test_a_release_that_never_passed_its_trials_is_no_way_back(site: Site) -> None:
    assert site.deploy(Candidate("wrong", fault={"value_error": 1.0})).exit_code == 10
    for flags in ((), ("--preview",)):
        refused = site.run("rollback", "r2", *flags)
        assert (refused.exit_code, "it was never proved" in refused.stderr) == (2, True)
    assert site.serving == "r1"


@pytest.mark.long
def test_plan_says_what_a_deploy_of_the_same_content_would_mend(crossing: Site) -> None:
    site = crossing.with_options()
    site.good("deploy")
    assert site.run("plan", "--exit-code").exit_code == 0
    site = crossing.with_options(replicas=2)
    planned = site.run("plan", "--exit-code")
    assert (planned.exit_code, len(planned.data["steps"])) == (3, 1)
    assert len(site.good("deploy").data) > 0
    assert site.run("plan", "--exit-code").exit_code == 0
    assert len(site.pids(str(site.serving))) == 2


@pytest.mark.long
def test_an_abort_passes_by_a_holder_that_is_frozen(crossing: Site) -> None:
    site = crossing.with_options(**LONG_SHIFT)
    old = site.serving
    deploy = site.begin_deploy()
    site.wait_for_record("began", "shift-20")
    deploy.signal(signal.SIGSTOP)
    back = site.run("abort")
    deploy.kill()
    assert (back.exit_code, back.data["outcome"], site.serving) == (0, "aborted", old)
    assert "stands still; going on without it" in back.stderr
    assert site.status()["rollout"] is None
