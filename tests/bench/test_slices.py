"""Slices of time for arms that share one device."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from opsctl.bench.gate import Judge
from opsctl.bench.slice_course import SliceTurns
from opsctl.bench.slices import GUARD_S, SLICE_S, SliceEvidence, slice_differences
from opsctl.bench.trace import slice_traces
from opsctl.config.settings import Gate
from tests.bench.server import running
from tests.bench.test_run import EQUAL, LOAD, SHORT, gated, request

RANDOM = np.random.default_rng(5)


def test_each_pair_of_slices_has_both_arms_and_no_request_leaves_in_a_guard() -> None:
    turns = SliceTurns(seed=1)
    by_slice: dict[int, set[int]] = {}
    begin = 1000.0
    for at in begin + np.sort(RANDOM.uniform(0.0, 50.0, 5000)):
        placed, (arm,) = turns.place(float(at))
        index, phase = divmod(placed - (turns.started or 0.0), SLICE_S)
        assert placed >= at and phase >= GUARD_S - 1e-9
        by_slice.setdefault(int(index), set()).add(arm)
    assert all(len(arms) == 1 for arms in by_slice.values())
    pairs = [by_slice[index] | by_slice[index + 1] for index in range(0, 198, 2)]
    assert all(arms == {0, 1} for arms in pairs)
    first = [min(by_slice[index]) for index in range(0, 198, 2)]
    assert 25 <= sum(first) <= 75, "a coin decides"


def test_swapping_the_slices_of_a_pair_turns_its_difference_around() -> None:
    block = [(RANDOM.lognormal(0, 0.3, 30), RANDOM.lognormal(0.1, 0.3, 34)) for _ in range(5)]
    swapped = [(second, first) for first, second in block]
    for quantile in (0.5, 0.9):
        there = slice_differences(block, 1.0, quantile)
        assert there.tolist() == pytest.approx(
            (-slice_differences(swapped, 1.0, quantile)).tolist()
        )


def test_a_slice_pair_that_misses_an_arm_is_no_evidence() -> None:
    empty = np.zeros(0)
    assert slice_differences([(empty, np.ones(3))], 1.0, 0.5).tolist() == []


def test_errors_in_the_candidate_s_slices_are_evidence_and_in_both_are_not() -> None:
    one, both = SliceEvidence(Gate(), (1,)), SliceEvidence(Gate(), (1,))
    for _ in range(40):
        one.add(1, [0.01] * 30, [0.01] * 29 + [math.inf])
        both.add(1, [0.01] * 29 + [math.inf], [0.01] * 29 + [math.inf])
    assert one.log_e_fail()["errors"] > math.log(100)
    assert both.log_e_fail()["errors"] == pytest.approx(0.0)


def test_p99_of_slices_has_its_ratio_with_bounds_over_the_slice_pairs() -> None:
    evidence = SliceEvidence(Gate(), (1, 4))
    judge = Judge(Gate(), (1, 4), evidence)
    for number in range(200):
        size = (1, 4)[number % 2]
        old, new = (RANDOM.lognormal(0, 0.3, 40) for _ in range(2))
        evidence.add(size, old.tolist(), np.where(new > 1.6, new * 1.2, new).tolist())
    found = slice_traces(judge, evidence, [])["p99"]
    assert found["ratio"] == pytest.approx(1.2, abs=0.1)
    assert found["low"] < found["ratio"] < found["high"]
    pairs = [point["pairs"] for point in found["over_time"]]
    # A ranking takes 500 requests: 7 slice pairs of 80, 14 times for each batch size.
    assert pairs == list(range(7, 197, 7))


SLICED = replace(LOAD, interleave="slices", rate_per_s=100.0)


@pytest.mark.long
def test_a_copy_passes_and_a_much_slower_candidate_fails_in_slices() -> None:
    gate = replace(SHORT, budget_s=90.0, min_pairs=100)
    with running(EQUAL) as old, running(EQUAL) as new:
        passed = gated(request(old, new, load=SLICED, gate=gate))
    assert (passed.outcome, passed.reason_kind) == ("pass", "proved"), passed.reason
    metric = passed.data["metrics"]["p50:1"]
    assert metric["ratio"] == pytest.approx(1.0, rel=0.5)
    assert metric["over_time"][-1]["seconds"] > 0
    figures = passed.data["batch_sizes"]["1"]
    assert min(figures["baseline"]["requests"], figures["candidate"]["requests"]) >= 100
    with running(EQUAL) as old, running(replace(EQUAL, service_ms=4.0)) as new:
        # Without their pids: on a crowded CPU the slower one waits longer, which is not the point.
        failed = gated(request(old.endpoint, new.endpoint, load=SLICED, gate=gate))
    assert (failed.outcome, failed.reason_kind) == ("fail", "regression"), failed.reason
