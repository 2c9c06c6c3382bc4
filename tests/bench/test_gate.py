"""What the judge may decide, and when."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opsctl.bench.evidence import PairEvidence
from opsctl.bench.gate import Judge, label
from opsctl.config.settings import Gate

RANDOM = np.random.default_rng(7)
SIZES = (1, 4, 16, 32)


def equal_pairs(count: int, effect: float = 1.0) -> tuple[list[float], list[float]]:
    first, second = RANDOM.lognormal(-6, 0.1, (2, count))
    return first.tolist(), (effect * second).tolist()


def test_no_verdict_before_the_least_number_of_pairs() -> None:
    judge = Judge(Gate(min_pairs=500), (1,))
    assert judge.add(1, *equal_pairs(475, effect=3.0)) is None
    verdict = judge.add(1, *equal_pairs(25, effect=3.0))
    assert verdict is not None
    assert (verdict.outcome, verdict.kind, verdict.metric) == ("fail", "regression", "p50:1")


def test_every_batch_size_needs_its_own_pairs_before_a_verdict() -> None:
    judge = Judge(Gate(), (1, 4))
    assert judge.add(1, *equal_pairs(300, effect=3.0)) is None
    assert judge.add(4, *equal_pairs(175, effect=3.0)) is None
    verdict = judge.add(4, *equal_pairs(25, effect=3.0))
    assert verdict is not None and verdict.outcome == "fail"


def test_an_equal_candidate_passes_and_the_reason_says_what_was_ruled_out() -> None:
    judge = Judge(Gate(), (1,))
    verdict = None
    while verdict is None and judge.evidence.pairs < 20_000:
        verdict = judge.add(1, *equal_pairs(25))
    assert verdict is not None
    assert verdict.reason == "no regression: +5 % p50, +8 % p99, 1.00% more errors are ruled out"


@pytest.mark.parametrize(("metric", "bound"), [("p50:1", 0.01), ("p99", 0.03), ("errors", 0.01)])
def test_a_metric_is_cleared_exactly_at_its_own_bound(metric: str, bound: float) -> None:
    for log_e, settled in ((-math.log(bound) - 1e-9, ""), (-math.log(bound) + 1e-9, "good")):
        evidence = PairEvidence(Gate(), (1,))
        evidence.add(1, *equal_pairs(200))
        values = {"p50:1": 100.0, "p99": 100.0, "errors": 100.0} | {metric: log_e}
        evidence.log_e_pass = lambda values=values: values  # type: ignore[method-assign,misc]
        judge = Judge(Gate(), (1,), evidence)
        verdict = judge.look()
        assert judge.settled(metric) == settled
        assert (verdict.outcome if verdict else "") == ("pass" if settled else "")


def test_errors_of_the_candidate_fail_it_however_fast_it_is() -> None:
    judge = Judge(Gate(), (1,))
    verdict = None
    for _ in range(40):
        first, second = equal_pairs(25, effect=0.5)
        second[::5] = [math.inf] * 5
        verdict = verdict or judge.add(1, first, second)
    assert verdict is not None
    assert (verdict.outcome, verdict.kind, verdict.metric) == ("fail", "errors", "errors")


def test_errors_that_hit_both_arms_of_a_pair_are_no_evidence() -> None:
    evidence = PairEvidence(Gate(), (1,))
    evidence.add(1, [math.inf] * 50, [math.inf] * 50)
    assert evidence.failures.both == 50
    assert evidence.log_e_fail()["errors"] == pytest.approx(0.0)


def test_one_pair_at_a_time_decides_as_many_at_once() -> None:
    first, second = equal_pairs(600, effect=1.01)
    one, many = PairEvidence(Gate(), (1,)), PairEvidence(Gate(), (1,))
    for a, b in zip(first, second, strict=True):
        one.add(1, [a], [b])
    many.add(1, first, second)
    for metric, value in many.log_e_pass().items():
        assert one.log_e_pass()[metric] == pytest.approx(value, rel=1e-9)


def test_weights_of_any_choice_of_metrics_sum_to_one() -> None:
    for metrics in (("p50", "p99", "errors"), ("p50",), ("p99", "errors"), ("errors",)):
        judge = Judge(Gate(metrics=metrics), SIZES)
        assert sum(judge.weights().values()) == pytest.approx(1.0)


def test_alpha_is_shared_as_documented() -> None:
    weights = Judge(Gate(), SIZES).weights()
    assert weights == pytest.approx(
        {f"p50:{size}": 0.15 for size in SIZES} | {"p99": 0.3, "errors": 0.1}
    )


def test_a_decided_batch_size_retires_and_the_tail_goes_on_with_the_smallest_two() -> None:
    judge = Judge(Gate(), SIZES)
    assert judge.open_sizes() == SIZES
    judge.cleared = {"p50:32": 200, "p50:1": 200}
    for size in SIZES:
        judge.evidence.add(size, *equal_pairs(200))
    assert judge.open_sizes() == (1, 4, 16)
    judge.cleared |= {"p50:4": 200, "p50:16": 200}
    assert judge.open_sizes() == (1, 4)


def test_a_last_short_block_still_counts() -> None:
    judge = Judge(Gate(min_pairs=210, metrics=("p50",)), (1,))
    judge.add(1, *equal_pairs(210, effect=1.2))
    assert judge.evidence.log_e_fail()["p50:1"] > 0
    before = judge.evidence.log_e_fail()["p50:1"]
    verdict = judge.close()
    assert judge.evidence.log_e_fail()["p50:1"] > before
    assert verdict is not None and verdict.outcome == "fail"


def test_metrics_have_names_for_people() -> None:
    assert label("p50:16") == "p50 of batch size 16"
    assert label("errors") == "errors"


def test_throughput_is_judged_by_slices_of_full_load() -> None:
    gate = Gate(metrics=("throughput",))
    for slower, expected in ((1.0, "log_e_pass"), (1.05, "log_e_fail")):
        evidence = PairEvidence(gate, (1,))
        seconds = 0.01 * RANDOM.lognormal(0, 0.02, (2, 60))
        evidence.rates.add(seconds[0].tolist(), (slower * seconds[1]).tolist())
        found = getattr(evidence, expected)()["throughput"]
        assert found >= math.log(1 / gate.alpha)


def test_throughput_takes_its_weight_from_the_others() -> None:
    weights = Judge(Gate(metrics=("p50", "p99", "errors", "throughput")), SIZES).weights()
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["throughput"] == pytest.approx(0.15 / 1.15)
    assert weights["p50:1"] == pytest.approx(0.15 / 1.15)
