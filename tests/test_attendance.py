"""Attendance: what stops a wait, and that the holder proves it lives."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from opsctl import attendance as module
from opsctl.attendance import Attendance
from opsctl.clock import SystemClock
from opsctl.deploy import OVERRUNS
from opsctl.errors import (
    BuildFailed,
    CandidateFailed,
    Interrupted,
    RequestArrived,
    Superseded,
    TimedOut,
)
from opsctl.inbox import Inbox
from opsctl.lock import acquire, break_lock, read_holder
from opsctl.storage import Holder
from opsctl.storage_folder import FolderStorage
from tests.apps.processes import wait_until

CLOCK = SystemClock()


class Renewals:
    """The one verb of a target that a heartbeat needs."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.refuse = False

    def renew(self, epoch: int) -> None:
        self.epochs.append(epoch)
        if self.refuse:
            raise Superseded("epoch 1 is over")


@pytest.fixture
def target() -> Renewals:
    return Renewals()


@pytest.fixture
def holding(tmp_path: Path, target: Renewals) -> Attendance:
    holder = Holder(os.getpid(), "test", "deploy", 0.0)
    lock = acquire(tmp_path / "lock", holder, wait_s=0, clock=CLOCK)
    return Attendance(lock, target, Inbox(FolderStorage(tmp_path)), CLOCK)  # type: ignore[arg-type]


def test_nothing_happens_when_nothing_is_the_matter(holding: Attendance) -> None:
    holding.interrupt()
    assert holding.epoch == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_wait_and_keeps_its_number(
    holding: Attendance, number: signal.Signals
) -> None:
    with holding.present():
        os.kill(os.getpid(), number)
        time.sleep(0.01)
        with pytest.raises(Interrupted) as caught:
            holding.interrupt()
    assert caught.value.signal_exit_code == 128 + number


def test_the_commands_time_limit_leaves_the_rollout_to_resume(holding: Attendance) -> None:
    holding.limit(0.0)
    time.sleep(0.01)
    with pytest.raises(TimedOut, match="opsctl resume"):
        holding.interrupt()


def test_the_steps_time_limit_is_the_candidates_fault(holding: Attendance) -> None:
    holding.limit_step(0.0)
    time.sleep(0.01)
    with pytest.raises(CandidateFailed):
        holding.interrupt()


def test_the_time_limit_of_a_build_is_a_failed_build(holding: Attendance) -> None:
    holding.limit_step(0.0, OVERRUNS["build"])
    time.sleep(0.01)
    with pytest.raises(BuildFailed, match="the step ran over its time limit"):
        holding.interrupt()
    holding.limit_step(0.0)
    with pytest.raises(CandidateFailed):
        holding.interrupt()


def test_a_request_stops_the_wait_until_the_journal_has_it(
    holding: Attendance, tmp_path: Path
) -> None:
    request = Inbox(FolderStorage(tmp_path)).put("abort", by="ann", reason="", clock=CLOCK)
    with pytest.raises(RequestArrived):
        holding.interrupt()
    holding.seen = frozenset({request.id})
    time.sleep(module.LOOK_S * 1.1)
    holding.interrupt()


def test_losing_the_lock_stops_everything(holding: Attendance, tmp_path: Path) -> None:
    break_lock(tmp_path / "lock")
    with pytest.raises(Superseded):
        holding.interrupt()


def test_the_heart_beats_and_the_lease_is_renewed_once_there_is_an_epoch(
    holding: Attendance, target: Renewals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.02)
    with holding.present():
        wait_until(lambda: beats(tmp_path / "lock") > 5, "the heart beat")
        assert target.epochs == []
        holding.epoch = 7
        wait_until(lambda: len(target.epochs) > 5, "the lease was renewed")
    assert set(target.epochs) == {7}
    assert beats(tmp_path / "lock") > 10


def beats(lock: Path) -> int:
    """How often the holder of a lock has proved that it lives."""
    holder = read_holder(lock)
    return holder.beat if holder else 0


def test_a_refused_renewal_stops_the_wait(
    holding: Attendance, target: Renewals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.02)
    target.refuse, holding.epoch = True, 1
    with holding.present():
        wait_until(lambda: bool(target.epochs), "the lease was renewed")
        wait_until(lambda: holding._lost is not None, "the refusal was noted")
        with pytest.raises(Superseded):
            holding.interrupt()
