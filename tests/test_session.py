"""What a journal that was lost is rebuilt from."""

from __future__ import annotations

from opsctl.model import DesiredState, Share
from opsctl.rollout import ReleaseMarks
from opsctl.session import state_without_trial


def test_a_rebuilt_state_gives_all_traffic_to_the_release_that_was_proved() -> None:
    split = DesiredState((Share("r1", 1, 25), Share("r2", 1, 75)))
    rebuilt = state_without_trial(split, ReleaseMarks(("r1",)))
    assert rebuilt == DesiredState((Share("r1", 1, 100),))


def test_a_rebuilt_state_without_marks_keeps_the_release_with_the_most_traffic() -> None:
    split = DesiredState((Share("r1", 1, 80), Share("r2", 1, 20)))
    assert state_without_trial(split, ReleaseMarks()) == DesiredState((Share("r1", 1, 100),))


def test_a_rebuilt_state_keeps_warm_releases_and_drops_candidates_without_traffic() -> None:
    warm = Share("r1", 1, 0, retire_at=9.0)
    state = DesiredState((warm, Share("r2", 2, 100), Share("r3", 1, 0)))
    assert state_without_trial(state, ReleaseMarks()) == DesiredState((warm, Share("r2", 2, 100)))


def test_a_rebuilt_state_of_nothing_that_serves_is_empty() -> None:
    state = DesiredState((Share("r1", 1, 0),))
    assert state_without_trial(state, ReleaseMarks()) == DesiredState()
