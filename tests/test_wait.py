"""Waits can be stopped at any moment, and tell that they live."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from opsctl.clock import SystemClock
from opsctl.errors import Aborted
from opsctl.wait import Wait
from tests.checks.fakes import ManualClock, Waiting


def test_a_pause_takes_its_time_on_the_real_clock() -> None:
    wait = Wait(SystemClock(), print, lambda: None)
    began = time.monotonic()
    wait.pause(0.12)
    assert 0.12 <= time.monotonic() - began < 12


def test_a_pause_asks_at_least_twenty_times_a_second_and_once_at_its_end() -> None:
    clock = ManualClock()
    asked: list[float] = []
    Wait(clock, print, lambda: asked.append(clock.monotonic() - 1000.0)).pause(1.0)
    assert asked[0] == 0.0
    assert asked[-1] == pytest.approx(1.0)
    gaps = [after - before for before, after in pairwise(asked)]
    assert max(gaps) == pytest.approx(0.05)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_pause_still_asks(seconds: float) -> None:
    waiting = Waiting(stop=Aborted("stop"))
    with pytest.raises(Aborted):
        waiting.wait.pause(seconds)
    assert waiting.clock.monotonic() == 1000.0


def test_a_pause_ends_when_it_is_interrupted() -> None:
    clock = ManualClock()

    def stop_after_a_while() -> None:
        if clock.monotonic() >= 1000.2:
            raise Aborted("stop")

    with pytest.raises(Aborted):
        Wait(clock, print, stop_after_a_while).pause(60.0)
    # At most a slice of 0.05 s too late.
    assert 1000.2 <= clock.monotonic() < 1000.3


def test_a_heartbeat_is_told_after_five_quiet_seconds_and_not_before() -> None:
    waiting = Waiting()
    beat = waiting.wait.heartbeat(lambda elapsed: f"alive after {elapsed:.0f} s")
    for _ in range(12):
        beat()
        waiting.clock.sleep(1.0)
    assert waiting.told == ["alive after 5 s", "alive after 10 s"]
