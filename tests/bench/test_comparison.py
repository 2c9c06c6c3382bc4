"""Stored reports compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opsctl.bench.comparison import bounds_ms, compare
from opsctl.bench.figures import figures, histogram
from opsctl.errors import ConfigError, GateUndecided

RANDOM = np.random.default_rng(3)


def report(effect: float = 1.0, machine: str = "a", path: str = "/", size: str = "1") -> Any:
    latencies = (effect * RANDOM.lognormal(-5, 0.2, 4000)).tolist()
    arm = figures(latencies, {}, timeout_s=5.0, instances_per_s=1.0).to_dict()
    keys = ("method", "rate_per_s", "arrivals", "connections", "requests_file", "body")
    return {
        "machine": {"id": machine, "cpu": machine},
        "bench": {"path": path, **dict.fromkeys(keys)},
        "batch_sizes": {size: {"candidate": arm}},
    }


def words(before: Any, after: Any) -> dict[str, str]:
    return {change.metric: change.word for change in compare(before, after).changes}


def test_a_slower_run_is_called_slower_and_an_equal_one_unchanged() -> None:
    assert words(report(), report(1.2)) == {"p50": "slower", "p90": "slower", "p99": "slower"}
    assert words(report(1.2), report())["p50"] == "faster"
    assert set(words(report(), report()).values()) == {"no clear change"}


def test_other_machines_and_other_loads_are_named() -> None:
    plain = compare(report(), report())
    assert len(plain.cautions) == 1 and "not interleaved" in plain.cautions[0]
    other = compare(report(), report(machine="b", path="/x"))
    assert other.cautions[1] == "different machines (cpu): the ratio means little"
    assert other.cautions[2] == "different load (bench.path)"
    assert other.lines()[1] == f"caution: {other.cautions[1]}"


def test_reports_without_a_common_batch_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="no batch size in common"):
        compare(report(), report(size="4"))


def test_bounds_of_a_percentile_hold_the_truth_as_often_as_they_say() -> None:
    truth = 1000.0 * np.exp(-5.0 + 0.2 * 1.2815515655446004)
    held = 0
    for _ in range(200):
        low, high = bounds_ms(histogram(RANDOM.lognormal(-5, 0.2, 500).tolist(), 5.0), 90.0)
        assert low is not None and high is not None
        held += low <= truth <= high
    # Each report's bounds get half of 5 %: 97.5 % of 200 is 195, and 188 is three sigma less.
    assert held >= 188


def test_a_small_sample_has_no_bound_for_p99() -> None:
    assert bounds_ms(histogram([0.01] * 50, 5.0), 99.0)[1] is None


def test_files_that_are_no_measurement_are_refused() -> None:
    with pytest.raises(ConfigError, match="is no measurement"):
        compare(report(), {"format": 1, "kind": "trend"})


def test_measurements_that_were_disturbed_are_not_compared() -> None:
    disturbed = {
        **report(), "release": "r2", "outcome": "inconclusive", "reason_kind": "environment",
        "reason": "the machine is too busy",
    }  # fmt: skip
    for pair, word in (((disturbed, report()), "first"), ((report(), disturbed), "second")):
        with pytest.raises(GateUndecided) as caught:
            compare(*pair)
        assert caught.value.what == f"the {word} measurement, of r2, can't be compared"
        assert caught.value.why == "the machine is too busy"
    assert GateUndecided.exit_code == 15
