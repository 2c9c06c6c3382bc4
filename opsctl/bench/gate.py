"""The gate's rules: what may be decided from the evidence so far. No I/O, no clock.

A fail needs evidence of a slowdown beyond what is tolerated; a pass needs evidence against the
slowdown that must be refused; anything else is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from opsctl.bench import stats
from opsctl.bench.evidence import RATE_REFUSED, Evidence, PairEvidence
from opsctl.bench.report import Verdict
from opsctl.config import settings

P50_WEIGHT = 0.6
P99_WEIGHT = 0.3
ERROR_WEIGHT = 0.1
THROUGHPUT_WEIGHT = 0.15
"""Shares of alpha, scaled to sum to 1 over the metrics that are asked for; p50's is split evenly
over the batch sizes."""

EXTERNAL_WEIGHT = 0.1
"""Share of alpha of each query to Prometheus, beside the others'."""

RAW_WEIGHTS = {"p99": P99_WEIGHT, "errors": ERROR_WEIGHT, "throughput": THROUGHPUT_WEIGHT}

MIN_PAIRS_A_SIZE = 200
"""Least pairs of each batch size before a verdict (fewer if `gate.min_pairs` is). With 100, and
`beta` 0.03, a regression of one batch size alone escaped in up to 3 of 100 gates: good luck in its
first pairs let the size retire."""

TAIL_SIZES = 2
"""How many of the smallest batch sizes go on for p99 and errors when every p50 is decided."""


def beta_of(metric: str, gate: settings.Gate) -> float:
    """The bound on a false pass of a metric."""
    return gate.beta_p99 if metric == "p99" else gate.beta


class Judge:
    """Decides from pairs, or from other evidence that it is given."""

    def __init__(
        self, gate: settings.Gate, batch_sizes: Sequence[int], evidence: Evidence | None = None
    ) -> None:
        self.gate = gate
        self.batch_sizes = tuple(sorted(set(batch_sizes)))
        self.metrics = frozenset(gate.metrics)
        self.evidence: Evidence = evidence or PairEvidence(gate, self.batch_sizes)
        self.cleared: dict[str, int] = {}
        """Metrics proved good, with the number of pairs at which they were."""

    def add(
        self, size: int, baseline: Sequence[float], candidate: Sequence[float]
    ) -> Verdict | None:
        """Take latencies of a batch size in (seconds, errors infinite); the verdict if there is
        one."""
        fresh = self.evidence.add(size, baseline, candidate)
        return self.look() if fresh else None

    def close(self) -> Verdict | None:
        """The last look, when the time is over."""
        self.evidence.close()
        return self.look()

    def look(self) -> Verdict | None:
        """The verdict that the evidence allows now, or None."""
        if self.evidence.pairs < self.gate.min_pairs or any(map(self._short, self.batch_sizes)):
            return None
        return self._failed() or self._passed()

    def _short(self, size: int) -> bool:
        return self.evidence.pairs_of(size) < min(MIN_PAIRS_A_SIZE, self.gate.min_pairs)

    def _failed(self) -> Verdict | None:
        evidence, weights = self.evidence.log_e_fail(), self.weights()
        total = stats.log_weighted_sum(
            [evidence[name] for name in weights], [weights[name] for name in weights]
        )
        if total < -math.log(self.gate.alpha):
            return None
        worst = max(weights, key=lambda name: evidence[name] + math.log(weights[name]))
        kind = "errors" if worst == "errors" else "regression"
        return Verdict("fail", kind, f"the candidate is worse in {label(worst)}", worst)

    def _passed(self) -> Verdict | None:
        evidence = self.evidence.log_e_pass()
        for name in self.names():
            if name not in self.cleared and evidence[name] >= -math.log(beta_of(name, self.gate)):
                self.cleared[name] = self.evidence.pairs
        if any(name not in self.cleared for name in self.names()):
            return None
        return Verdict("pass", "proved", f"no regression: {self._ruled_out()} are ruled out")

    def _ruled_out(self) -> str:
        words = {
            "p50": f"+{self.gate.refused_p50_percent:g} % p50",
            "p99": f"+{self.gate.refused_p99_percent:g} % p99",
            "errors": f"{self.gate.refused_error_rate:.2%} more errors",
            "throughput": f"-{1 - 1 / RATE_REFUSED:.1%} throughput",
        }
        return ", ".join(word for name, word in words.items() if name in self.metrics)

    def settled(self, metric: str) -> Literal["", "good", "worse"]:
        """What is proved of one metric on its own, by its share of alpha and by beta."""
        if self.evidence.log_e_pass()[metric] >= -math.log(beta_of(metric, self.gate)):
            return "good"
        evidence = self.evidence.log_e_fail()[metric] + math.log(self.weights()[metric])
        return "worse" if evidence >= -math.log(self.gate.alpha) else ""

    def names(self) -> list[str]:
        """The metrics that decide: `p50:<batch size>` …, `p99`, `errors`, `throughput`."""
        result = []
        if "p50" in self.metrics:
            result += [f"p50:{size}" for size in self.batch_sizes]
        return result + [name for name in RAW_WEIGHTS if name in self.metrics]

    def weights(self) -> dict[str, float]:
        """Each deciding metric's share of alpha; with those of queries they sum to 1."""
        parts = {
            name: RAW_WEIGHTS.get(name, P50_WEIGHT / len(self.batch_sizes)) for name in self.names()
        }
        queries = len(self.gate.prometheus.queries) if self.gate.prometheus else 0
        total = sum(parts.values()) * (1.0 + queries * EXTERNAL_WEIGHT)
        return {name: part / total for name, part in parts.items()}

    def open_sizes(self) -> tuple[int, ...]:
        """Batch sizes that still need pairs; those whose p50 is decided retire."""
        short = [size for size in self.batch_sizes if self._short(size)]
        undecided = [
            size
            for size in self.batch_sizes
            if "p50" in self.metrics and f"p50:{size}" not in self.cleared
        ]
        pooled = {"p99", "errors"} & self.metrics - set(self.cleared)
        small = list(self.batch_sizes[:TAIL_SIZES]) if pooled else []
        chosen = tuple(sorted({*short, *undecided, *small}))
        return chosen or self.batch_sizes[:1]


def label(metric: str) -> str:
    """A metric's name for people."""
    name, _, size = metric.partition(":")
    return f"{name} of batch size {size}" if size else name
