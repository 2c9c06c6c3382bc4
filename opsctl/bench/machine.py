"""The machine of a benchmark: its fingerprint, CPU time of processes, and one gate at a time."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opsctl.model import Json, digest

GATE_ADDRESS = b"\0opsctl-gate"
"""Abstract socket that the running gate holds: the kernel frees it however its holder ends."""

WAIT_S = 600.0
"""Least wait for another gate on this machine: a default one with warm-up and confirmation."""

POLL_S = 0.05
"""How often the end of another gate is looked for."""

PROC = Path("/proc")

NANOSECONDS = 1e9


def fingerprint() -> Json:
    """What makes figures comparable: CPU, cores, memory, kernel, machine; `id` digests them."""
    facts: Json = {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "machine": hashlib.sha256(_read("/etc/machine-id").encode()).hexdigest()[:12],
    }
    return {**facts, "id": digest(facts)[:12]}


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.partition(":")[2].strip()
    return platform.processor()


@dataclass(frozen=True)
class CpuUse:
    """Seconds that a process and its living descendants ran, and that they were ready to run but
    had to wait for a CPU."""

    ran_s: float
    waited_s: float

    def since(self, before: CpuUse) -> CpuUse:
        return CpuUse(self.ran_s - before.ran_s, self.waited_s - before.waited_s)


def cpu_use(pid: int) -> CpuUse | None:
    """CPU time and waiting time of a process; None when it does not exist or can't be seen.

    Source: /proc/PID/task/TID/schedstat (kernel documentation, scheduler/sched-stats).
    """
    if pid <= 0 or not (PROC / str(pid)).exists():
        return None
    ran = waited = 0
    for task in (task for one in _family(pid) for task in (PROC / str(one) / "task").glob("*")):
        fields = _read(f"{task}/schedstat").split()
        if len(fields) < 2:
            continue
        ran += int(fields[0])
        waited += int(fields[1])
    return CpuUse(ran / NANOSECONDS, waited / NANOSECONDS)


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in (PROC / str(one) / "task").glob("*"):
            found += [int(child) for child in _read(f"{task}/children").split()]
    return found


def cpus_of(pids: list[int]) -> int:
    """How many CPUs the processes may use together; 0 when that can't be told."""
    cpus: set[int] = set()
    for pid in pids:
        try:
            cpus |= os.sched_getaffinity(pid) if pid > 0 else set()
        except OSError:
            return 0
    return len(cpus)


@contextmanager
def pinned(cpus: tuple[int, ...]) -> Iterator[None]:
    """Run this thread on `cpus` only; those the machine does not have are left out."""
    before = os.sched_getaffinity(0)
    wanted = before & set(cpus)
    if wanted:
        os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def wait_for_machine(
    least_s: float, tell: Callable[[str], None], interrupt: Callable[[], None]
) -> socket.socket | None:
    """Become the machine's one running measurement, as two of them disturb each other; None when
    another one has not ended after `least_s` or what a gate may last, whichever is longer."""
    deadline = time.monotonic() + max(least_s, WAIT_S)
    holder = hold_machine()
    if holder is None:
        tell("another gate runs on this machine: waiting for its end")
    while holder is None and time.monotonic() < deadline:
        interrupt()
        time.sleep(POLL_S)
        holder = hold_machine()
    return holder


def hold_machine() -> socket.socket | None:
    """Become the machine's one running gate until the socket is closed; None if another is."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        holder.bind(GATE_ADDRESS)
    except OSError:
        holder.close()
        return None
    return holder
