"""The memory monitor against allocations of known size."""

import numpy as np
import pytest
from ascend_ops import memory

MEBIBYTE = 1 << 20


def take(mebibytes: int) -> np.ndarray:
    """An array of that size, with every page touched."""
    return np.ones(mebibytes * MEBIBYTE, np.uint8)


def take_and_drop(mebibytes: int) -> int:
    """Touches memory and gives it back before returning."""
    return int(take(mebibytes)[-1])


@pytest.fixture(params=["high_water_mark", "sampled"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sampled":
        monkeypatch.setattr(memory, "_reset_high_water", lambda: False)
    elif not memory._reset_high_water():
        pytest.skip("this kernel does not let a process reset its high-water mark")
    return str(request.param)


def test_memory_that_stays_is_the_increase(method: str) -> None:
    report = memory.measure_memory(take, 64)
    assert report.method == method
    assert report.result.size == 64 * MEBIBYTE
    assert report.increase_bytes == pytest.approx(64 * MEBIBYTE, abs=4 * MEBIBYTE)
    assert report.peak_bytes >= report.after_bytes


def test_a_peak_that_is_gone_at_the_end_is_seen(method: str) -> None:
    report = memory.measure_memory(take_and_drop, 128)
    assert report.result == 1
    assert report.method == method
    assert report.increase_bytes < 16 * MEBIBYTE
    assert report.peak_increase_bytes > 100 * MEBIBYTE


def test_virtual_memory_that_is_not_touched_does_not_count() -> None:
    report = memory.measure_memory(np.empty, 256 * MEBIBYTE, np.uint8)
    assert report.peak_increase_bytes < 16 * MEBIBYTE


def test_an_earlier_peak_is_not_this_calls() -> None:
    take_and_drop(128)
    assert memory.measure_memory(take_and_drop, 8).peak_increase_bytes < 32 * MEBIBYTE


def test_an_exception_passes_through(method: str) -> None:
    with pytest.raises(ZeroDivisionError):
        memory.measure_memory(lambda: 1 // 0)
