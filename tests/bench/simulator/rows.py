"""The simulated bars: which runs, what must come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.stats import binom

from opsctl.config.settings import Gate
from tests.bench.simulator.ours import Result, run_single, run_sizes
from tests.bench.simulator.slices import run_slices
from tests.bench.simulator.throughput import run_throughput
from tests.bench.simulator.world import SCENES, Case

Run = Callable[[tuple[int, ...]], Result]
Map = Callable[[Run, Sequence[tuple[int, ...]]], Iterable[Result]]

DOUBT = 1e-4
"""In a quick run a bar is missed only when chance explains what was seen less often than this."""


@dataclass(frozen=True)
class Share:
    """How many runs may or must end in an outcome."""

    outcome: str
    least: float = 0.0
    most: float = 1.0

    def kept(self, count: int, runs: int, *, quick: bool) -> bool:
        if not quick:
            return self.least * runs <= count <= self.most * runs
        too_few = self.least > 0 and binom.cdf(count, runs, self.least) < DOUBT
        too_many = self.most < 1 and binom.sf(count - 1, runs, self.most) < DOUBT
        return not too_few and not too_many

    def text(self) -> str:
        bound = f"≥ {self.least:.1%}" if self.least > 0 else f"≤ {self.most:.1%}"
        return f"{self.outcome} {bound}"


@dataclass(frozen=True)
class Row:
    """One line of the table: its runs and its bars (times are those of the verdict)."""

    name: str
    run: tuple[Run, ...]
    runs: int
    quick_runs: int
    shares: tuple[Share, ...] = ()
    median_s: float | None = None
    p95_s: float | None = None


@dataclass
class Seen:
    """What came out of a row."""

    name: str
    bar: str
    seen: str
    ok: bool
    figures: dict[str, object] = field(default_factory=dict)


DEFAULT = Gate(budget_s=240.0)
"""opsctl's defaults for one batch size, with the longest cap that the bars allow."""

WHOLE = Gate(budget_s=480.0)

SHORT = Gate(
    budget_s=5.0,
    tolerated_p50_percent=10.0,
    refused_p50_percent=60.0,
    refused_error_rate=0.02,
    metrics=("p50", "errors"),
)
"""A five second gate for services in tests: sees what doubles latency, and nothing finer."""

RATED = Gate(budget_s=240.0, metrics=("p50", "p99", "errors", "throughput"))

SHORT_RATE = 150.0


def single(case: Case, gate: Gate = DEFAULT) -> Run:
    return partial(_single, replace(case, horizon_s=gate.budget_s), gate)


def _single(case: Case, gate: Gate, seed: tuple[int, ...]) -> Result:
    return run_single(case, gate, seed)


def _short(case: Case, seed: tuple[int, ...]) -> Result:
    return run_single(replace(case, horizon_s=SHORT.budget_s), SHORT, seed, rate=SHORT_RATE)


def _whole(case: Case, slow: tuple[int, ...], seed: tuple[int, ...]) -> Result:
    return run_sizes(replace(case, horizon_s=WHOLE.budget_s), WHOLE, seed, slow)


def _slices(case: Case, seed: tuple[int, ...]) -> Result:
    return run_slices(case, DEFAULT, seed)


def _throughput(case: Case, seed: tuple[int, ...]) -> Result:
    return run_throughput(case, RATED, seed)


ALL = (1, 4, 16, 32)
NOISY = Case("noisy")

ROWS = (
    Row(
        "A/A, four scenes",
        tuple(single(Case(scene)) for scene in SCENES),
        2000,
        40,
        (Share("fail", most=0.005), Share("inconclusive", most=0.01)),
        median_s=45.0,
        p95_s=110.0,
    ),
    Row(
        "exactly what is tolerated (p50 +1.5 %), no bias",
        tuple(single(Case(scene, effect=1.015, bias=0.0)) for scene in ("iid", "noisy")),
        1500,
        30,
        (Share("fail", most=0.01),),
    ),
    Row(
        "p50 +5 %",
        (single(replace(NOISY, effect=1.05)),),
        2000,
        80,
        (Share("fail", least=0.98),),
        median_s=10.0,
        p95_s=25.0,
    ),
    Row(
        "p50 +10 %",
        (single(replace(NOISY, effect=1.10)),),
        2000,
        200,
        (Share("fail", least=0.995),),
        median_s=4.0,
    ),
    Row(
        "p99 alone +10 %, 240 s cap",
        (single(replace(NOISY, tail=1.10)),),
        400,
        40,
        (Share("fail", least=0.95),),
        median_s=75.0,
    ),
    Row(
        "whole gate (4 batch sizes), A/A",
        (partial(_whole, NOISY, ALL),),
        300,
        30,
        (Share("pass", least=0.98),),
        median_s=110.0,
    ),
    Row(
        "whole gate, p50 +5 % in batch 32 alone, sigma .1",
        (partial(_whole, replace(NOISY, effect=1.05, sigma=0.1), (32,)),),
        300,
        30,
        (Share("fail", least=0.98),),
        median_s=62.0,
    ),
    Row(
        "whole gate, p99 +10 %, 480 s cap",
        (partial(_whole, replace(NOISY, tail=1.10), ALL),),
        300,
        30,
        (Share("fail", least=0.90),),
    ),
    Row(
        "slices on a shared device at 0.3, p50 +5 %",
        (partial(_slices, Case("noisy", effect=1.05)),),
        200,
        20,
        (Share("fail", least=0.95),),
        median_s=45.0,
    ),
    Row(
        "slices on a shared device at 0.3, A/A",
        (partial(_slices, NOISY),),
        200,
        10,
        (Share("fail", most=0.01),),
    ),
    Row(
        "throughput (60 s at most), A/A, four scenes",
        tuple(partial(_throughput, Case(scene)) for scene in SCENES),
        500,
        20,
        (Share("fail", most=0.005), Share("inconclusive", most=0.01)),
        median_s=20.0,
        p95_s=30.0,
    ),
    Row(
        "throughput (60 s at most), 5 % more time a request",
        (partial(_throughput, replace(NOISY, effect=1.05)),),
        500,
        40,
        (Share("fail", least=0.98),),
        median_s=30.0,
        p95_s=45.0,
    ),
    Row(
        "short gate (5 s, 150 pairs/s), A/A",
        (partial(_short, NOISY), partial(_short, replace(NOISY, sigma=0.5))),
        2000,
        200,
        (Share("pass", least=0.99),),
        p95_s=5.0,
    ),
    Row(
        "short gate (5 s, 150 pairs/s), p50 +100 %",
        (
            partial(_short, replace(NOISY, effect=2.0)),
            partial(_short, replace(NOISY, effect=2.0, sigma=0.5)),
        ),
        2000,
        200,
        (Share("fail", least=0.999),),
        p95_s=5.0,
    ),
)
"""`runs` are for each of a row's variants. Scenes not named are noisy, the hardest one."""


def judge(row: Row, number: int, seed: int, each: Map, *, quick: bool) -> Seen:
    """Run a row and hold it against its bars."""
    runs = row.quick_runs if quick else row.runs
    results = [
        result
        for variant, run in enumerate(row.run)
        for result in each(run, [(seed, number, variant, index) for index in range(runs)])
    ]
    counts = Counter(result.outcome for result in results)
    seconds = [result.seconds for result in results]
    median, p95 = float(np.median(seconds)), float(np.quantile(seconds, 0.95))
    kept = [share.kept(counts[share.outcome], len(results), quick=quick) for share in row.shares]
    times = ((0.5, row.median_s), (0.95, row.p95_s))
    in_time = all(in_limit(seconds, *bar, quick=quick) for bar in times)
    parts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return Seen(
        name=row.name,
        bar=_bar(row),
        seen=f"{parts} of {len(results)}; median {median:.1f} s, p95 {p95:.1f} s",
        ok=all(kept) and in_time,
        figures={"outcomes": dict(counts), "median_s": median, "p95_s": p95},
    )


def in_limit(
    seconds: Sequence[float], quantile: float, limit_s: float | None, *, quick: bool
) -> bool:
    """Whether a quantile of the times is within its limit; without one, it is."""
    if limit_s is None:
        return True
    if not quick:
        return float(np.quantile(seconds, quantile)) <= limit_s
    late = sum(one > limit_s for one in seconds)
    return bool(binom.sf(late - 1, len(seconds), 1 - quantile) >= DOUBT)


def _bar(row: Row) -> str:
    times = [
        f"{name} ≤ {limit:g} s"
        for name, limit in (("median", row.median_s), ("p95", row.p95_s))
        if limit is not None
    ]
    return "; ".join([*(share.text() for share in row.shares), *times])
