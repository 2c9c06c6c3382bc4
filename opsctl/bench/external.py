"""Judgement of the service's own metrics, as Prometheus has them. No I/O, no clock.

Each moment of a grid gives one value an arm. The values are judged as full-load slices are
(`evidence.rate_track`): ranked in blocks, with the same e-values, at every look. Values of one
moment are a pair, so what happens to both arms alike cancels out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from opsctl.bench.evidence import PERCENT, RATE_BLOCK, RATE_MIXTURE, Rule, Track
from opsctl.bench.prometheus import usable
from opsctl.bench.report import Verdict
from opsctl.bench.stats import Sums
from opsctl.bench.trace import traced
from opsctl.config import settings
from opsctl.model import Json

PREFIX = "prometheus:"
"""Before the query's name, in the names of metrics."""

VALID_LEAST = 0.8
"""Share of the moments that must have values, or nothing is decided from the rest."""

EARLY_MOMENTS = 12
EARLY_VALID = 0.5
"""After so many moments with fewer values than this share, waiting longer is pointless."""

TINY = 1e-150
"""Stands for 0, which has no ratio: two zeros are equal, and anything is more than zero."""

Values = Sequence[float | None]


@dataclass(frozen=True)
class Bounds:
    """Error bounds of one metric: its share of the gate's alpha, and beta."""

    weight: float
    total_alpha: float
    beta: float

    @property
    def alpha(self) -> float:
        return self.weight * self.total_alpha


@dataclass
class Metric:
    """One query's values, and what they allow to say."""

    query: settings.PrometheusQuery
    bounds: Bounds
    compared: bool
    """Whether there is an old arm to compare with."""
    baseline: list[float | None] = field(default_factory=list)
    candidate: list[float | None] = field(default_factory=list)

    @property
    def key(self) -> str:
        return PREFIX + self.query.name

    @property
    def compares(self) -> bool:
        return self.compared and self.query.refused_percent is not None

    def take(self, baseline: Values, candidate: Values) -> None:
        """Add the values of further moments; a first deploy has no baseline's."""
        self.baseline.extend(baseline)
        self.candidate.extend(candidate)

    def look(self) -> Verdict | None:
        """The verdict that the values allow now; None while they allow none."""
        # A baseline without values must not save a candidate that breaks its absolute limits.
        limits = self._limits() if self._known_share() >= VALID_LEAST else "open"
        if limits == "bad":
            return Verdict("fail", "slo", self._beyond(), self.key)
        if self._valid_share() < VALID_LEAST:
            return self._no_data() if self._is_hopeless(limits) else None
        compared = self._comparison() if self.compares else "good"
        if compared == "bad":
            return Verdict("fail", "regression", self._worse(), self.key)
        if (limits, compared) == ("good", "good"):
            return Verdict("pass", "proved", f"{self.query.name} is no worse", self.key)
        return None

    def _is_hopeless(self, limits: str) -> bool:
        """Whether waiting longer is pointless: no values come, and no limit is about to break."""
        if len(self.candidate) < EARLY_MOMENTS or self._valid_share() >= EARLY_VALID:
            return False
        return limits == "good" or not self._given_limits() or self._known_share() < EARLY_VALID

    def close(self) -> Verdict:
        """The verdict at the end of the time."""
        decided = self.look()
        if decided is not None:
            return decided
        if self._valid_share() < VALID_LEAST or not self.candidate:
            return self._no_data()
        ratio = self.ratio()
        if self.compares and ratio is not None and self._between(ratio):
            said = f"{self.query.name} got worse by {ratio - 1.0:+.1%}, between what is tolerated"
            return Verdict("inconclusive", "unsettled", f"{said} and what is refused", self.key)
        said = f"{self.query.name} is open after {len(self.candidate)} values"
        advice = "raise gate.budget_s, or lower gate.prometheus.interval_s"
        return Verdict("inconclusive", "power", f"{said}: {advice}", self.key)

    def ratio(self) -> float | None:
        """How many times as bad the candidate's median is, by the direction that is better."""
        old, new = self._worseness()
        if not old:
            return None
        low, high = float(np.median(old)), float(np.median(new))
        return 1.0 if low == high else high / low

    def report(self, times: Sequence[float]) -> Json:
        """As other metrics of a gate, with the values; `times` are the moments' seconds."""
        verdict = self.look()
        blocks = [at for at, pair in zip(times, self._pairs(), strict=False) if pair is not None]
        track = self._track()
        return {
            "query": self.query.query,
            "better": self.query.better,
            "tolerated_percent": self.query.tolerated_percent,
            "refused_percent": self.query.refused_percent,
            "outcome": verdict.outcome if verdict else "open",
            "log_e_fail": track.log_e_fail() if track else None,
            "log_e_pass": track.log_e_pass() if track else None,
            "proved_at_pair": len(self.candidate)
            if verdict and verdict.outcome == "pass"
            else None,
            "weight": self.bounds.weight,
            "values": {
                "seconds": [round(at, 3) for at in times],
                "baseline": [_shown(value) for value in self.baseline],
                "candidate": [_shown(value) for value in self.candidate],
            },
            **(traced(track, blocks[RATE_BLOCK - 1 :: RATE_BLOCK]) if track else {}),
        }

    def _between(self, ratio: float) -> bool:
        refused = self.query.refused_percent or 0.0
        tolerated = self.query.tolerated_percent
        return 1.0 + tolerated / PERCENT <= ratio <= 1.0 + refused / PERCENT

    def _valid_share(self) -> float:
        pairs = self._pairs()
        return sum(pair is not None for pair in pairs) / len(pairs) if pairs else 0.0

    def _known(self) -> list[float]:
        """The candidate's values, those that are no number left out."""
        return [value for value in self.candidate if value is not None and not math.isnan(value)]

    def _known_share(self) -> float:
        return len(self._known()) / len(self.candidate) if self.candidate else 0.0

    def _pairs(self) -> list[tuple[float, float] | None]:
        """Both arms' values at each moment; None where they can't be used. Without a comparison
        the candidate's stand in both places, and may be negative."""
        if self.compares:
            return [
                (float(old or 0.0), float(new or 0.0)) if usable(old) and usable(new) else None
                for old, new in zip(self.baseline, self.candidate, strict=True)
            ]
        return [
            None if value is None or math.isnan(value) else (value, value)
            for value in self.candidate
        ]

    def _worseness(self) -> tuple[list[float], list[float]]:
        """Values of both arms where more is worse: inverted where higher is better."""
        pairs = [pair for pair in self._pairs() if pair is not None]
        arms = ([max(old, TINY) for old, _ in pairs], [max(new, TINY) for _, new in pairs])
        if self.query.better == "lower":
            return arms
        return [1.0 / value for value in arms[0]], [1.0 / value for value in arms[1]]

    def _track(self) -> Track | None:
        if not self.compares:
            return None
        refused = self.query.refused_percent or 0.0
        track = Track(
            Rule(
                0.5,
                RATE_BLOCK,
                RATE_MIXTURE,
                1.0 + self.query.tolerated_percent / PERCENT,
                1.0 + refused / PERCENT,
            )
        )
        track.add(*self._worseness())
        return track

    def _comparison(self) -> str:
        track = self._track()
        assert track is not None
        if track.log_e_fail() >= -math.log(self.bounds.alpha):
            return "bad"
        return "good" if track.log_e_pass() >= -math.log(self.bounds.beta) else "open"

    def _limits(self) -> str:
        found = [self._limit(*limit) for limit in self._given_limits()]
        return "bad" if "bad" in found else "open" if "open" in found else "good"

    def _given_limits(self) -> list[tuple[float, float]]:
        given = ((self.query.most, 1.0), (self.query.least, -1.0))
        return [(limit, sign) for limit, sign in given if limit is not None]

    def _limit(self, limit: float, sign: float) -> str:
        """Whether the median is beyond a limit: a sign test at every look. `sign` -1: it is the
        least that is allowed."""
        leans = Sums()
        leans.add(
            np.array([0.5 if sign * value > sign * limit else -0.5 for value in self._known()])
        )
        share = self.bounds.alpha / len(self._given_limits())
        if leans.log_e_above(RATE_MIXTURE) >= -math.log(share):
            return "bad"
        return "good" if leans.log_e_below(RATE_MIXTURE) >= -math.log(self.bounds.beta) else "open"

    def _beyond(self) -> str:
        middle = float(np.median(self._known()))
        limit, sign = next(one for one in self._given_limits() if self._limit(*one) == "bad")
        word = "most" if sign > 0 else "least"
        return f"{self.query.name} is {middle:.4g} (median), its `{word}` is {limit:g}"

    def _worse(self) -> str:
        ratio = self.ratio() or 1.0
        # Beside a baseline of 0 (see TINY) a percentage says nothing.
        much = f"{ratio - 1.0:+.1%}" if ratio < 1.0 / TINY**0.5 else "it was 0"
        return f"the candidate is worse in {self.query.name} ({much})"

    def _no_data(self) -> Verdict:
        missing: Counter[str] = Counter()
        arms = {"candidate": self.candidate}
        if self.compares:
            arms["baseline"] = self.baseline
        for arm, values in arms.items():
            missing.update(f"{arm}: {what}" for what in map(_flaw, values) if what)
        most = missing.most_common(1)
        common = f"{most[0][1]} of {len(self.candidate)} values of the {most[0][0]}" if most else \
            "no moment has come"  # fmt: skip
        return Verdict("no_data", "no_answer", f"{self.query.name} has too few values: {common}",
                       self.key)  # fmt: skip


def _flaw(value: float | None) -> str:
    """What is wrong with a value, in words."""
    if value is None:
        return "no sample (is it scraped, do the labels fit?)"
    if math.isnan(value):
        return "NaN (0 divided by 0?)"
    if math.isinf(value):
        return "infinite (divided by 0?)"
    return "negative, which has no ratio" if value < 0 else ""


def _shown(value: float | None) -> float | str | None:
    """As JSON has it: what is no number as text."""
    return value if value is None or math.isfinite(value) else str(value)
