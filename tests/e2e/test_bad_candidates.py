"""Candidates that must be refused, each with the old release untouched."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.refusal import refuse
from tests.e2e.site import Site, quick

WRONG_BY = 1e-3


@pytest.fixture
def impatient(standing: Site) -> Iterator[Site]:
    """The service that stands, with few tries for a candidate that never gets healthy."""
    yield standing.with_options(health={"tries": 100})
    standing.with_options()


def test_a_candidate_that_exits_at_start_is_refused_at_once(standing: Site) -> None:
    refusal = refuse(standing, Candidate("exits", 10, {"exit_at_start": 3}))
    assert refusal.step == "start"
    assert refusal.what.startswith(f"{refusal.candidate}-1 ")
    assert refusal.what.endswith(" with exit code 3 before it was healthy")
    assert "light: told to exit at start" in refusal.why
    assert f"opsctl logs {refusal.candidate}" in refusal.next_step


@pytest.mark.long
def test_a_candidate_that_hangs_at_start_is_refused_when_its_tries_are_over(
    impatient: Site,
) -> None:
    refusal = refuse(impatient, Candidate("hangs", 10, {"hang_at_start": True}))
    assert refusal.step == "start"
    # 100 tries 0.05 s apart and the last one's second.
    assert refusal.what == f"0 of 1 replicas of {refusal.candidate} were healthy within 6 s"
    assert "health.tries" in refusal.next_step


@pytest.mark.long
def test_a_candidate_whose_health_is_500_is_refused(impatient: Site) -> None:
    refusal = refuse(impatient, Candidate("health_500", 10, {"health_status": 500}))
    assert refusal.step == "start"
    assert "500" in refusal.why


@pytest.mark.long
def test_a_candidate_whose_health_flaps_reaches_no_streak(make_site: MakeSite) -> None:
    streak = {"interval_s": 0.05, "tries": 120, "streak": 6}
    site = make_site(quick(health=streak))
    site.good("deploy")
    refusal = refuse(site, Candidate("flaps", 10, {"health_flaps": 5}))
    assert refusal.step == "start"
    assert "503" in refusal.why


def test_a_candidate_that_dies_when_it_has_traffic_is_refused(make_site: MakeSite) -> None:
    stages = {"stages": [{"weight": 20, "hold_s": 20}]}
    site = make_site(quick(strategy=stages))
    site.good("deploy")
    refusal = refuse(site, Candidate("dies", 10, {"dies_after_s": 4.0}), met=True)
    # On a very busy machine its time is over before its first user comes.
    assert refusal.step in ("start", "smoke", "shift-20")
    assert refusal.candidate in refusal.what


@pytest.mark.long
def test_a_candidate_that_dies_after_10_seconds_is_refused(make_site: MakeSite) -> None:
    stages = {"stages": [{"weight": 20, "hold_s": 30}]}
    site = make_site(quick(strategy=stages))
    site.good("deploy")
    refusal = refuse(site, Candidate("dies", 10, {"dies_after_s": 10.0}), met=True)
    assert refusal.step == "shift-20"


def test_a_candidate_whose_values_are_off_by_a_thousandth_is_refused(standing: Site) -> None:
    refusal = refuse(standing, Candidate("wrong_value", 10, {"value_error": WRONG_BY}))
    assert refusal.step == "smoke"
    assert "'predicts right values'" in refusal.what + refusal.why
    assert "predictions.0.0: expected" in refusal.why


@pytest.mark.long
def test_a_candidate_whose_answers_have_a_wrong_shape_is_refused(standing: Site) -> None:
    refusal = refuse(standing, Candidate("wrong_shape", 10, {"wrong_shape": True}))
    assert refusal.step == "smoke"
    assert "shape" in refusal.why


@pytest.mark.long
def test_a_candidate_that_leaks_is_stopped_at_its_memory_limit(make_site: MakeSite) -> None:
    stages = {"stages": [{"weight": 20, "hold_s": 30}]}
    site = make_site(quick(strategy=stages, resources={"memory_mb": 150}))
    site.good("deploy")
    refusal = refuse(site, Candidate("leaks", 10, {"leak_mb_per_s": 40.0}), met=True)
    assert "memory" in refusal.why
    assert "150" in refusal.why


def test_a_bad_candidate_that_ignores_sigterm_is_removed_within_its_limits(
    standing: Site,
) -> None:
    fault = {"ignores_sigterm": True, "value_error": WRONG_BY}
    began = time.monotonic()
    refusal = refuse(standing, Candidate("stubborn", 10, fault))
    assert refusal.step == "smoke"
    # stop_timeout_s is 1 s; a step that stands still for good would take its 30 s each time.
    assert time.monotonic() - began < 60


def test_a_candidate_whose_port_is_taken_is_refused_with_its_own_words(standing: Site) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refusal = refuse(standing, Candidate("port_taken", 10, {"fixed_port": port}))
    assert refusal.step == "start"
    assert "light: cannot listen" in refusal.why
    assert "address already in use" in refusal.why


def test_a_taken_front_door_is_refused_before_anything_is_touched(make_site: MakeSite) -> None:
    site = make_site()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", site.project.port))
        other.listen()
        result = site.run("deploy")
    assert result.exit_code == 4
    assert str(site.project.port) in result.data["reason"]
    assert "local.port" in result.data["next_step"]
    assert site.processes() == {}
    assert site.deploy().exit_code == 0


def test_a_model_that_the_application_misses_is_refused(standing: Site) -> None:
    refusal = refuse(standing, Candidate("model_missing", 10, {"model_missing": True}))
    assert refusal.step == "start"
    assert "light: cannot load the model" in refusal.why


def test_a_model_path_that_is_not_there_is_refused_with_nothing_touched(standing: Site) -> None:
    old = standing.serving
    before = (standing.processes(), len(standing.records()))
    with standing.users() as users:
        result = standing.deploy(Candidate("no_model", 4, model_path="no-such-model"))
    assert result.exit_code == 4
    assert "no-such-model" in result.stderr
    assert standing.processes() == before[0]
    assert users.releases == {old}


def test_a_first_release_that_fails_leaves_nothing_that_serves(make_site: MakeSite) -> None:
    site = make_site()
    result = site.deploy(Candidate("wrong_value", 12, {"value_error": WRONG_BY}))
    assert (result.exit_code, result.data["outcome"]) == (12, "failed_without_base")
    assert result.data["serving_release"] is None
    assert site.replicas() == []
    assert site.deploy().exit_code == 0
    assert site.answers(5) == {"r2": 5}


def test_a_change_of_the_model_alone_is_a_release_of_its_own(site: Site) -> None:
    result = site.deploy(Candidate("model", model_note=True))
    assert (result.exit_code, result.data["release"]) == (0, "r2")
    change = site.report(result)["changes"]
    assert change["model"]["from"]["digest"] != change["model"]["to"]["digest"]
    assert site.answers(5) == {"r2": 5}
    back = site.good("rollback")
    assert back.data["serving_release"] == "r1"
    assert site.answers(5) == {"r1": 5}
