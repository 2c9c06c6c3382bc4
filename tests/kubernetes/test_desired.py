"""What is put in force on the way to a state: traffic waits for replicas, replicas for traffic."""

from __future__ import annotations

import pytest

from opsctl.model import DesiredState, Share
from opsctl.targets.kubernetes.desired import (
    Ready,
    Scenery,
    by_selector,
    described,
    is_at_hand,
    leaving,
    next_state,
    ordered_by_name,
    plain,
    read_state,
    shrinks,
    spelled,
)


def state(*shares: Share) -> DesiredState:
    return DesiredState(shares)


OLD = state(Share("r1", 3, 100))
BESIDE = state(Share("r1", 3, 100), Share("r2", 3))


def ready(**counts: int) -> Ready:
    return {(name, "serving"): count for name, count in counts.items()}


def test_a_first_release_gets_no_traffic_before_all_of_its_replicas_are_ready() -> None:
    goal = state(Share("r1", 2, 100))
    waiting = next_state(goal, Scenery(DesiredState(), ready()))
    assert waiting == state(Share("r1", 2, 0))
    assert next_state(goal, Scenery(waiting, ready(r1=1))) == waiting
    assert next_state(goal, Scenery(waiting, ready(r1=2))) == goal


def test_traffic_stays_with_the_old_release_until_the_new_one_is_ready() -> None:
    goal = state(Share("r2", 3, 100))
    assert next_state(goal, Scenery(OLD, ready(r1=3))) == BESIDE
    assert next_state(goal, Scenery(BESIDE, ready(r1=3, r2=2))) == BESIDE
    moved = next_state(goal, Scenery(BESIDE, ready(r1=3, r2=3)))
    assert moved == state(Share("r1", 3, 0), Share("r2", 3, 100))


def test_a_release_that_lost_the_traffic_stays_until_nobody_sends_it_any_more() -> None:
    goal = state(Share("r2", 3, 100))
    moved = state(Share("r1", 3, 0), Share("r2", 3, 100))
    both = ready(r1=3, r2=3)
    assert next_state(goal, Scenery(moved, both, lingered=False)) == moved
    assert next_state(goal, Scenery(moved, both, lingered=True)) == goal


def test_replicas_that_have_traffic_are_not_taken_away_while_more_come_up() -> None:
    canary = state(Share("r1", 3, 80), Share("r2", 1, 20))
    goal = state(Share("r2", 3, 100))
    growing = next_state(goal, Scenery(canary, ready(r1=3, r2=1)))
    assert growing == state(Share("r1", 3, 80), Share("r2", 3, 20))
    assert next_state(goal, Scenery(growing, ready(r1=3, r2=1))) == growing
    moved = next_state(goal, Scenery(growing, ready(r1=3, r2=3)))
    assert moved == state(Share("r1", 3, 0), Share("r2", 3, 100))


def test_the_release_that_served_well_takes_all_back_also_with_a_replica_less() -> None:
    canary = state(Share("r1", 3, 80), Share("r2", 1, 20))
    goal = state(Share("r1", 3, 100), Share("r2", 1, 0))
    seen = Scenery(canary, ready(r1=2, r2=1), proved="r1")
    assert next_state(goal, seen) == goal
    assert next_state(goal, Scenery(canary, ready(r1=2, r2=1))) == canary


def test_one_replica_that_answers_is_better_than_none() -> None:
    goal = state(Share("r2", 3, 100))
    dead = Scenery(BESIDE, ready(r1=0, r2=1))
    assert next_state(goal, dead) == state(Share("r1", 3, 0), Share("r2", 3, 100))


def test_a_baseline_copy_comes_and_goes_at_once_and_never_has_traffic() -> None:
    goal = state(Share("r1", 3, 100), Share("r1", 1, role="baseline"))
    with_copy = next_state(goal, Scenery(OLD, ready(r1=3)))
    assert with_copy == state(Share("r1", 1, role="baseline"), Share("r1", 3, 100))
    assert next_state(OLD, Scenery(with_copy, ready(r1=3))) == OLD


def test_a_reached_state_stays_as_it_is() -> None:
    assert next_state(OLD, Scenery(OLD, ready(r1=3))) == OLD
    assert next_state(OLD, Scenery(OLD, ready(r1=1))) == OLD


@pytest.mark.parametrize(
    ("base", "candidate", "weight", "replicas"),
    [(9, 3, 10, 1), (3, 3, 20, 1), (4, 4, 50, 4), (3, 1, 25, 1), (8, 8, 20, 2), (1, 1, 1, 1)],
)
def test_one_service_shares_traffic_by_the_number_of_replicas(
    base: int, candidate: int, weight: int, replicas: int
) -> None:
    wanted = state(Share("r1", base, 100 - weight), Share("r2", candidate, weight))
    assert by_selector(wanted).share("r2") == Share("r2", replicas, weight)
    assert by_selector(wanted).share("r1") == wanted.share("r1")


def test_a_release_with_all_traffic_keeps_all_replicas() -> None:
    assert by_selector(BESIDE) == BESIDE


def test_a_state_is_read_as_it_was_spelled() -> None:
    warm = Share("r1", 3, 0, retire_at=9.0)
    goal = ordered_by_name(plain(state(Share("r2", 3, 100, cpus=(1,)), warm)))
    assert spelled(goal) == '[["r1","serving",3,0],["r2","serving",3,100]]'
    assert read_state(spelled(goal)) == goal


@pytest.mark.parametrize("text", ["", "nonsense", "{}", '[["r1"]]', '[["r1","serving",1,7]]'])
def test_what_is_no_state_of_ours_is_an_empty_one(text: str) -> None:
    assert read_state(text) == DesiredState()


def test_helm_history_tells_a_state_in_words() -> None:
    words = described(
        state(Share("r1", 3, 80), Share("r2", 1, 20), Share("r1", 1, role="baseline"))
    )
    assert words == "r1 ×3 80 %, r2 ×1 20 %, r1 baseline ×1 0 %"
    assert described(state(Share("r1", 3, 100), Share("r2", 2))) == "r1 ×3 all traffic, r2 ×2"
    assert described(DesiredState()) == "nothing"


def test_traffic_is_at_hand_where_all_that_gets_it_runs_already() -> None:
    assert is_at_hand(BESIDE, BESIDE.shifted({"r2": 100}))
    assert is_at_hand(BESIDE, state(Share("r2", 3, 100)))
    assert not is_at_hand(OLD, state(Share("r1", 3, 0), Share("r2", 3, 100)))
    assert not is_at_hand(BESIDE, BESIDE)
    assert not is_at_hand(BESIDE, BESIDE.shifted({}))
    baseline = OLD.put(Share("r2", 1, role="baseline"))
    assert not is_at_hand(baseline, state(Share("r2", 3, 100)))


def test_what_grows_or_stays_takes_nothing_away() -> None:
    assert not shrinks(OLD, BESIDE)
    assert not shrinks(BESIDE, BESIDE.shifted({"r2": 100}))
    assert shrinks(BESIDE, OLD)
    assert shrinks(OLD, state(Share("r1", 2, 100)))
    assert shrinks(OLD.put(Share("r1", 1, role="baseline")), OLD)


def test_what_leaves_has_no_traffic_and_is_not_wanted() -> None:
    moved = state(Share("r1", 3, 0), Share("r2", 3, 100))
    assert leaving(moved, state(Share("r2", 3, 100))) == [Share("r1", 3, 0)]
    assert leaving(moved, moved) == []
    assert leaving(BESIDE, state(Share("r2", 3, 100))) == []
    gated = OLD.put(Share("r1", 1, role="baseline"))
    assert leaving(gated, OLD) == [Share("r1", 1, role="baseline")]
