"""Whether the data may decide anything, and why not."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from opsctl.bench.gate import Judge
from opsctl.bench.outcome import (
    Share,
    Stretch,
    Surroundings,
    broken,
    decide,
    error_pairs,
    flaw,
    pairs_needed,
    undecided,
)
from opsctl.bench.report import Verdict
from opsctl.bench.stats import log_e_rate
from opsctl.config.settings import Gate

GATE = Gate()
PASS = Verdict("pass", "proved", "all is well")
FAIL = Verdict("fail", "regression", "slower", "p50:1")
CALM = Surroundings(
    rounds=1000,
    alone=True,
    late=0,
    lag_p99_ms=0.2,
    cpu=None,
    baseline_failures=Counter(),
    baseline_requests=1000,
    candidate_failures=Counter(),
    candidate_requests=1000,
)


def kind(around: Surroundings, verdict: Verdict | None = PASS) -> tuple[str, str]:
    found = decide(GATE, around, verdict)
    return found.outcome, found.kind


def test_calm_surroundings_let_the_evidence_speak() -> None:
    assert decide(GATE, CALM, PASS) == PASS
    assert decide(GATE, CALM, FAIL) == FAIL
    assert kind(CALM, None) == ("inconclusive", "power")


def test_too_few_rounds_are_no_data() -> None:
    assert kind(replace(CALM, rounds=199)) == ("no_data", "too_few")


def test_no_answer_at_all_is_no_data() -> None:
    dead = Counter({"cannot connect: ConnectionRefusedError": 1000})
    both = replace(CALM, baseline_failures=dead, candidate_failures=dead)
    assert kind(both, FAIL) == ("no_data", "no_answer")
    assert kind(replace(CALM, baseline_failures=dead)) == ("no_data", "no_answer")
    assert kind(replace(CALM, candidate_failures=dead), FAIL) == ("fail", "regression")


def test_another_gate_or_a_late_client_decides_nothing() -> None:
    assert kind(replace(CALM, alone=False), FAIL) == ("inconclusive", "environment")
    assert kind(replace(CALM, late=334), FAIL) == ("inconclusive", "environment")
    assert kind(replace(CALM, late=333), FAIL) == ("fail", "regression")


def cpu(baseline: tuple[float, float], candidate: tuple[float, float]) -> Surroundings:
    """Calm, but the arms ran and waited for these percents of a core."""
    return replace(CALM, cpu=(Share(*baseline), Share(*candidate)))


def test_a_starved_candidate_is_not_failed_and_a_starved_baseline_passes_nobody() -> None:
    assert kind(cpu((10, 2), (10, 3.1)), FAIL) == ("inconclusive", "environment")
    assert kind(cpu((10, 3.1), (10, 2)), PASS) == ("inconclusive", "environment")
    assert kind(cpu((10, 3.1), (10, 2)), FAIL) == ("fail", "regression")
    assert kind(cpu((10, 0.1), (10, 0.9)), FAIL) == ("fail", "regression")
    assert kind(cpu((10, 40), (10, 41)), FAIL) == ("fail", "regression")


def test_waiting_that_is_less_than_the_margins_spoils_nothing() -> None:
    wide = Gate(tolerated_p50_percent=20, refused_p50_percent=60, metrics=("p50", "errors"))
    assert decide(wide, cpu((10, 6), (10, 3)), PASS) == PASS
    assert decide(wide, cpu((10, 2), (10, 3.9)), FAIL) == FAIL
    assert decide(wide, cpu((10, 2), (10, 4.1)), FAIL).kind == "environment"


def test_a_candidate_that_needs_more_cpu_is_not_called_starved() -> None:
    assert kind(cpu((10, 20), (40, 60)), FAIL) == ("fail", "regression")


def test_a_candidate_that_sleeps_instead_of_working_is_not_called_starved() -> None:
    assert kind(cpu((10, 20), (4, 20)), FAIL) == ("fail", "regression")


def test_a_pass_is_not_believed_when_waiting_thins_out_what_must_be_refused() -> None:
    # +5 % refused and +1.5 % tolerated allow 5 / 1.5 - 1 = 2.33 s of waiting for each second.
    assert kind(cpu((10, 23), (10, 23))) == ("pass", "proved")
    assert kind(cpu((10, 24), (10, 24))) == ("inconclusive", "environment")


def test_a_baseline_that_fails_more_than_allowed_decides_nothing() -> None:
    failing = replace(CALM, baseline_failures=Counter({"HTTP 500": 40}))
    assert kind(failing) == ("inconclusive", "environment")
    some = replace(CALM, baseline_failures=Counter({"HTTP 500": 12}))
    assert kind(some) == ("pass", "proved")


def test_an_effect_between_the_margins_is_unsettled_and_anything_else_lacks_power() -> None:
    judge = Judge(GATE, (1,))
    judge.cleared = {"errors": 500}
    between = undecided(judge, {1: 0.2}, {"p50:1": 1.03, "p99": None})
    assert (between.kind, between.metric) == ("unsettled", "p50:1")
    assert between.reason.startswith("p50 of batch size 1 changed by +3.0%")
    assert undecided(judge, {1: 0.2}, {"p50:1": 1.001}).kind == "power"
    assert undecided(judge, {1: 0.2}, {"p50:1": 1.10}).kind == "power"


def test_planned_pairs_follow_the_formula() -> None:
    needed = pairs_needed(GATE, {1: 0.2, 4: float("nan")})
    # 2 (ln(1/.01) + 2) · 2 · .2² / ln(1.05)² = 443.96
    assert needed["p50:1"] == 444
    assert set(needed) == {"p50:1", "p99", "errors"}


def test_pairs_without_an_error_are_as_many_as_rule_out_the_rate() -> None:
    pairs = error_pairs(0.01, 0.03)
    needed = math.log(1 / 0.03)
    assert log_e_rate(0, 0, pairs, 0.01, above=False) >= needed
    assert log_e_rate(0, 0, pairs - 1, 0.01, above=False) < needed


SOUND = Stretch(4, 500, Counter(), 0, 0.2)
"""500 requests of batch size 4, all answered, none late."""


def reason(*stretches: Stretch, alone: bool = True) -> tuple[str, str]:
    found = flaw(GATE, stretches, alone=alone)
    return (found.kind, found.reason) if found else ("", "")


def test_a_measurement_of_one_arm_is_worth_nothing_when_the_release_or_the_client_failed() -> None:
    assert reason(SOUND, SOUND) == ("", "")
    refused = Counter({"cannot connect: ConnectionRefusedError": 500})
    assert reason(SOUND, replace(SOUND, batch_size=16, failures=refused)) == (
        "no_answer",
        "no request of batch size 16 was answered: cannot connect: ConnectionRefusedError",
    )
    assert reason(replace(SOUND, requests=0)) == (
        "no_answer", "no request of batch size 4 was answered: no request was sent",
    )  # fmt: skip
    # 4 of 500 are within the limit of 1 %; 60 of 500 are not.
    assert reason(replace(SOUND, failures=Counter({"timeout": 4}))) == ("", "")
    assert reason(SOUND, replace(SOUND, failures=Counter({"timeout": 60}))) == (
        "environment", "the release failed 60 of 500 requests (timeout)",
    )  # fmt: skip
    assert reason(replace(SOUND, late=125)) == ("", "")
    assert reason(replace(SOUND, late=126, lag_p99_ms=50.0)) == (
        "environment",
        "the load generator sent 126 of 500 rounds late (p99 50.0 ms): the machine is too busy",
    )
    assert reason(SOUND, alone=False)[1] == "another gate ran on this machine"


def test_stored_latencies_are_broken_when_nobody_answered_or_the_machine_disturbed_them() -> None:
    for outcome, found, metric, is_broken in (
        ("measured", "", None, False),
        ("pass", "proved", "", False),
        ("fail", "regression", "p50:1", False),
        ("inconclusive", "power", "p99", False),
        ("no_data", "too_few", "", False),
        ("no_data", "no_answer", "prometheus:queue", False),
        ("no_data", "no_answer", "", True),
        ("inconclusive", "environment", "", True),
    ):
        report = {"outcome": outcome, "reason_kind": found, "reason": "because"}
        if metric is not None:
            report["deciding_metric"] = metric
        assert broken(report) == ("because" if is_broken else ""), report
    assert broken({"batch_sizes": {}}) == "", "reports from before outcomes were written"
