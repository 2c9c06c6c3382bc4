"""What the resident guard decides, without a cluster."""

from __future__ import annotations

import pytest

from opsctl.model import DesiredState, Guard, LiveLimits, Replica, Share, Stamp
from opsctl.targets.kubernetes.desired import Order, next_turns
from opsctl.targets.kubernetes.guarding import (
    Trial,
    lease_reason,
    off_traffic,
    retired,
    trial_reason,
)

SAFE = DesiredState((Share("r1", 2, 100), Share("r2", 2, 0)))
SPLIT = DesiredState((Share("r1", 2, 50), Share("r2", 2, 50)))
ORDER = Order(SPLIT, Stamp(3, 7, "ab"), Guard(SAFE, lease_s=4.0))


def test_it_acts_when_the_holder_has_been_silent_for_longer_than_its_lease() -> None:
    assert lease_reason(ORDER, 4.0) == ""
    assert lease_reason(ORDER, 4.1) == "nobody has been in charge for 4.1 s (limit 4 s)"


def test_it_expects_no_holder_while_a_person_is_waited_for() -> None:
    waiting = Order(SPLIT, ORDER.stamp, Guard(SAFE, unattended=True))
    assert lease_reason(waiting, 1e6) == ""


def test_it_acts_once() -> None:
    assert lease_reason(Order(SPLIT, ORDER.stamp, ORDER.guard, guarded="before"), 99.0) == ""


def ready(name: str = "r2-a", phase: str = "ready", reason: str = "") -> Replica:
    return Replica(name, "r2", "serving", phase, reason=reason)  # type: ignore[arg-type]


LIMITS = LiveLimits(error_rate_max=0.1, requests_min=20)


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (Trial([ready()], 0, 0.0, 1000, 100), ""),
        (Trial([ready()], 0, 0.0, 1000, 101), "failed 101 of 1000 requests"),
        (Trial([ready()], 0, 0.0, 19, 19), ""),
        (Trial([ready()], 1, 0.0), "restarted 1 times (limit 0)"),
        (Trial([ready("r2-b", "crash_loop", "exit 3")], 0, 0.0), "r2-b is not healthy: exit 3"),
        (Trial([ready(phase="unready")], 0, 4.0), ""),
        (Trial([ready(phase="unready")], 0, 4.5), "has not been healthy for"),
    ],
)
def test_a_candidate_left_alone_must_keep_its_limits(trial: Trial, reason: str) -> None:
    told = trial_reason("r2", LIMITS, trial)
    assert (reason in told) if reason else told == ""


def test_a_warm_release_goes_when_its_window_is_over() -> None:
    state = DesiredState((Share("r1", 2, 0, retire_at=100.0), Share("r2", 2, 100)))
    assert retired(state, 99.9) == state
    assert retired(state, 100.0) == DesiredState((Share("r2", 2, 100),))


def test_a_release_with_traffic_never_retires() -> None:
    state = DesiredState((Share("r1", 2, 100, retire_at=100.0),))
    assert retired(state, 1e9) == state


def test_traffic_goes_back_without_changing_what_runs() -> None:
    copy = Share("r1", 1, role="baseline")
    running = DesiredState((Share("r1", 3, 50), Share("r2", 1, 50), copy))
    assert off_traffic(running, SAFE) == DesiredState(
        (Share("r1", 3, 100), Share("r2", 1, 0), copy)
    )


def test_nothing_is_sent_to_a_release_that_does_not_run() -> None:
    assert off_traffic(DesiredState((Share("r2", 1, 100),)), SAFE) is None


def test_an_order_is_read_as_it_was_written() -> None:
    order = Order(SPLIT, ORDER.stamp, ORDER.guard, fence=9, guarded="why")
    assert Order.from_dict(order.to_dict()) == order


def test_a_release_that_is_kept_warm_gets_new_pods_once_it_has_lost_the_traffic() -> None:
    goal = DesiredState((Share("r1", 2, 0, retire_at=9.0), Share("r2", 2, 100)))
    serving = DesiredState((Share("r1", 2, 100), Share("r2", 2, 0)))
    moved = DesiredState((Share("r1", 2, 0), Share("r2", 2, 100)))
    began = next_turns({}, serving, serving)
    assert began == {"r1": (0, True), "r2": (0, False)}
    # While it may still get the traffic back in the same rollout its pods stay.
    promoted = next_turns(began, moved, moved)
    assert promoted == {"r1": (0, True), "r2": (0, True)}
    warm = next_turns(promoted, moved, goal)
    assert warm == {"r1": (1, False), "r2": (0, True)}
    assert next_turns(warm, moved, goal) == warm
    back = next_turns(warm, serving, serving)
    assert back == {"r1": (1, True), "r2": (0, True)}
