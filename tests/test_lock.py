"""The lock: one holder, freed by death, taken from the frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opsctl import lock as lock_module
from opsctl.clock import SystemClock
from opsctl.errors import LockHeld, Superseded
from opsctl.lock import acquire, break_lock, current_holder
from opsctl.storage import Holder

CLOCK = SystemClock()
HOLD = """
import os, sys, time
from pathlib import Path
from opsctl.clock import SystemClock
from opsctl.lock import acquire
from opsctl.storage import Holder
lock = acquire(Path(sys.argv[1]), Holder(os.getpid(), "eve", "deploy", 0.0), wait_s=0,
               clock=SystemClock())
print("held", flush=True)
while True:
    time.sleep(0.05)
    lock.beat()
"""


def me(name: str = "test") -> Holder:
    return Holder(os.getpid(), name, "deploy", 0.0)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock and beats."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_one_is_refused_and_told_who_holds_it(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with pytest.raises(LockHeld, match=rf"pid {other.pid} \(eve, deploy\)"):
        acquire(tmp_path / "lock", me(), wait_s=0, clock=CLOCK)


def test_death_frees_it_at_once(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    other.kill()
    other.wait()
    lock = acquire(tmp_path / "lock", me(), wait_s=0, clock=CLOCK)
    try:
        assert current_holder(tmp_path / "lock") is not None
    finally:
        lock.free()
    assert current_holder(tmp_path / "lock") is None


def test_a_waiter_gets_it_when_the_holder_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = acquire(path, me("first"), wait_s=0, clock=CLOCK)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(acquire, path, me("second"), wait_s=60, clock=CLOCK)
        time.sleep(0.3)
        assert not waiting.done()
        first.free()
        second = waiting.result()
    holder = current_holder(path)
    assert holder is not None and holder.actor == "second"
    second.free()


def test_a_living_holder_is_not_overtaken_however_long_one_waits(
    tmp_path: Path, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Thirty beats long, as a slow machine keeps the holder from some of them.
    monkeypatch.setattr(lock_module, "STALE_AFTER_S", 1.5)
    with pytest.raises(LockHeld):
        acquire(tmp_path / "lock", me(), wait_s=2.5, clock=CLOCK)


def test_a_frozen_holder_is_overtaken_and_finds_out_when_it_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "STALE_AFTER_S", 0.5)
    path = tmp_path / "lock"
    frozen = acquire(path, me("frozen"), wait_s=0, clock=CLOCK)  # never beats again
    taker = acquire(path, me("taker"), wait_s=60, clock=CLOCK)
    with pytest.raises(Superseded, match="took the lock over"):
        frozen.check()
    taker.check()
    frozen.free()
    holder = current_holder(path)
    assert holder is not None and holder.actor == "taker"


def test_a_stopped_process_is_overtaken(
    tmp_path: Path, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "STALE_AFTER_S", 0.5)
    os.kill(other.pid, signal.SIGSTOP)
    lock = acquire(tmp_path / "lock", me(), wait_s=60, clock=CLOCK)
    try:
        lock.check()
    finally:
        lock.free()


def test_break_lock_voids_the_holders(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = acquire(path, me(), wait_s=0, clock=CLOCK)
    break_lock(path)
    with pytest.raises(Superseded):
        first.check()
    assert current_holder(path) is None
