"""How much memory a call takes: resident set before, after, and its true peak.

The peak is the kernel's own high-water mark (VmHWM of proc(5)), which is reset before the call;
where it cannot be reset, a thread samples the resident set instead.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

SAMPLE_INTERVAL_S: Final = 0.001
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_RESET_PEAK: Final = "5"  # proc(5), clear_refs: reset the peak resident set size


@dataclass(frozen=True)
class MemoryReport(Generic[R]):
    """What a call returned, and the resident set of the process around it, in bytes.

    `increase_bytes` is what stayed (after − before), `peak_increase_bytes` what it took at most.
    """

    result: R
    before_bytes: int
    after_bytes: int
    peak_bytes: int
    method: Literal["high_water_mark", "sampled"]

    @property
    def increase_bytes(self) -> int:
        """What the call left in memory; negative when it freed more than it took."""
        return self.after_bytes - self.before_bytes

    @property
    def peak_increase_bytes(self) -> int:
        """The most that the call had in memory at once, beyond what was there before."""
        return self.peak_bytes - self.before_bytes


def resident_bytes() -> int:
    """The resident set of this process."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE_BYTES


def _high_water_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _reset_high_water() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


class _Sampler:
    """Samples the resident set from a thread until it is stopped."""

    def __init__(self) -> None:
        self.peak_bytes = resident_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, resident_bytes())

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return max(self.peak_bytes, resident_bytes())


def measure_memory(
    function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> MemoryReport[R]:
    """Calls `function` and reports its result with the memory around it.

    Other threads of the process count as well. An exception of the function passes through.
    """
    if _reset_high_water():
        before = resident_bytes()
        result = function(*args, **kwargs)
        # The kernel batches its counters, so that the mark can lag behind the resident set.
        after = resident_bytes()
        peak = max(_high_water_bytes(), before, after)
        return MemoryReport(result, before, after, peak, "high_water_mark")
    before = resident_bytes()
    sampler = _Sampler()
    try:
        result = function(*args, **kwargs)
    finally:
        peak = sampler.stop()
    return MemoryReport(result, before, resident_bytes(), max(peak, before), "sampled")
