"""The gate keeps its bars in the simulator, with a seed that nobody chose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from tests.bench.simulator.ours import Result
from tests.bench.simulator.rows import ROWS, Run, Share, in_limit, judge
from tests.bench.simulator.world import Case, World


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_simulated_bar_is_kept_with_a_new_seed(seed: int) -> None:
    with ProcessPoolExecutor(2) as pool:

        def each(run: Run, seeds: Sequence[tuple[int, ...]]) -> Iterable[Result]:
            return pool.map(run, seeds, chunksize=5)

        seen = [judge(row, number, seed, each, quick=True) for number, row in enumerate(ROWS)]
    missed = [f"{one.name}: {one.seen} (bar: {one.bar})" for one in seen if not one.ok]
    assert missed == []


def test_a_bar_is_missed_when_too_many_runs_end_wrongly() -> None:
    assert Share("fail", most=0.01).kept(1, 100, quick=False)
    assert not Share("fail", most=0.01).kept(2, 100, quick=False)
    assert not Share("fail", least=0.98).kept(97, 100, quick=False)
    assert Share("fail", least=0.98).kept(77, 80, quick=True), "chance explains it"
    assert not Share("fail", least=0.98).kept(60, 80, quick=True)


def test_a_time_is_missed_in_a_quick_run_only_when_chance_does_not_explain_it() -> None:
    """Of 80 runs with a median at its bar 57 are beyond it once in 10,000 times (binomial)."""
    for late, whole, quick in ((40, True, True), (41, False, True), (58, False, False)):
        seconds = [11.0] * late + [9.0] * (80 - late)
        assert in_limit(seconds, 0.5, 10.0, quick=False) == whole
        assert in_limit(seconds, 0.5, 10.0, quick=True) == quick
    assert in_limit([99.0], 0.5, None, quick=False)


def test_a_seed_fixes_a_world() -> None:
    case = Case("noisy", effect=1.05)
    at_s = np.arange(100) / 100
    first, second = (World(case, (1, 2)).latencies(at_s, candidate=True) for _ in range(2))
    assert first.tolist() == second.tolist()
