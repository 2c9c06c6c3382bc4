"""The part of a gate that Prometheus judges: the load goes on until its values have decided."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence

from opsctl.bench.course import GateCourse, Interrupt, Tell
from opsctl.bench.external import Bounds, Metric
from opsctl.bench.gate import EXTERNAL_WEIGHT
from opsctl.bench.load import Round, Stop
from opsctl.bench.prometheus import Access, NoAnswer, Server
from opsctl.bench.report import GateRequest, QueryCheck, Verdict
from opsctl.bench.session import Session
from opsctl.config import promql, settings
from opsctl.errors import ConfigError
from opsctl.model import Endpoint, Json

LATE_S = 1.0
"""How old a moment must be before its value is asked for: a scrape takes its time."""

NAME_WAITS = 3
"""Intervals that a metric of fresh processes may take to be seen for the first time."""

NAME_POLL_S = 0.5

WORST_FIRST = ("fail", "no_data", "inconclusive", "pass")

MOMENTS_ABOUT = 12
"""Values after which equal arms are told apart from what must be refused (a fail needs 20)."""


SOME_ARM = Endpoint("127.0.0.1", 1, 1, name="r1-1")
"""Fills the placeholders of a query when only its language is checked."""


class External:
    """All queries of a gate, from their check to their verdict."""

    def __init__(self, request: GateRequest, tell: Tell, interrupt: Interrupt) -> None:
        asked = request.gate.prometheus
        assert asked is not None
        self.asked: settings.Prometheus = asked
        self.request = request
        self.tell = tell
        self.interrupt = interrupt
        access = Access.of(asked, request.prometheus_token, request.root)
        self.server = Server(access, interrupt)
        share = EXTERNAL_WEIGHT / (1.0 + EXTERNAL_WEIGHT * len(asked.queries))
        bounds = Bounds(share, request.gate.alpha, request.gate.beta)
        compared = request.baseline is not None
        self.metrics = [Metric(query, bounds, compared) for query in asked.queries]
        self.failure = ""
        """Why Prometheus could not be asked; empty when it answered."""
        self.started_s = self.began = 0.0

    def close(self) -> None:
        """Let the server go."""
        self.server.close()

    def check(self) -> None:
        """Before any load: queries that Prometheus refuses and names that it does not know raise
        ConfigError. When it does not answer, that is told, and no data in the end."""
        try:
            for metric in self.metrics:
                for arm in self._arms():
                    self.server.check(filled(metric.query, arm))
                self._require_names(metric)
        except NoAnswer as error:
            self.tell(f"caution: {error}")

    def _require_names(self, metric: Metric) -> None:
        """Metrics of processes that have just started are known after their first scrape."""
        query = filled(metric.query, self.request.candidate)
        deadline = time.monotonic() + NAME_WAITS * self.asked.interval_s
        waited = False
        while True:
            try:
                return self.server.require_names(query)
            except ConfigError:
                if time.monotonic() >= deadline:
                    raise
            if not waited:
                self.tell(f"waiting for Prometheus to see the metrics of {metric.query.name}")
                waited = True
            self.interrupt()
            time.sleep(min(NAME_POLL_S, self.asked.interval_s / 2))

    def begin(self) -> None:
        """The measurement starts: values count from now on."""
        self.started_s, self.began = time.time(), time.monotonic()

    def judge(self, opened: Session, course: GateCourse, verdict: Verdict) -> Verdict:
        """The verdict on all metrics together, after a benchmark that passed: the load goes on
        until every query is decided, or the budget is used up. What `interrupt` raises comes out.
        """
        seconds = MOMENTS_ABOUT * self.asked.interval_s
        self.tell(f"load goes on for Prometheus' values (about {seconds:.0f} s of it in all)")
        budget_s = self.request.gate.budget_s - course.spent_s
        while True:
            moments = len(self.metrics[0].candidate)
            due = self.began + (moments + 1) * self.asked.interval_s + self._late_s
            opened.drive(Holding(course, due), course.turns)
            self._read()
            decided = all(metric.look() for metric in self.metrics)
            if decided or self._failed() or time.monotonic() - self.began >= budget_s:
                return self._verdict(verdict)

    @property
    def _late_s(self) -> float:
        return min(LATE_S, self.asked.interval_s / 2)

    def _failed(self) -> bool:
        return any(v is not None and v.outcome == "fail" for v in (m.look() for m in self.metrics))

    def _read(self) -> None:
        """Take in the values of the moments that are old enough."""
        step = self.asked.interval_s
        have = len(self.metrics[0].candidate)
        count = int((time.monotonic() - self.began - self._late_s) / step) - have
        if count < 1:
            return
        first = self.started_s + (have + 1) * step
        for metric in self.metrics:
            arms = [self._values(metric, arm, first, count) for arm in self._arms()]
            baseline = arms[0] if metric.compared else ()
            metric.take(baseline, arms[-1])

    def _values(
        self, metric: Metric, arm: Endpoint, first: float, count: int
    ) -> Sequence[float | None]:
        query = filled(metric.query, arm)
        try:
            return self.server.values(query, first, count, self.asked.interval_s)
        except NoAnswer as error:
            self.failure = str(error)
            return [None] * count

    def _verdict(self, passed: Verdict) -> Verdict:
        """The worst of all; a pass keeps the benchmark's words and names the queries."""
        found = [metric.close() for metric in self.metrics]
        worst = min(found, key=lambda verdict: WORST_FIRST.index(verdict.outcome))
        if worst.outcome == "pass":
            names = ", ".join(metric.query.name for metric in self.metrics)
            return Verdict("pass", passed.kind, f"{passed.reason}; no worse in {names}", "")
        if worst.outcome == "no_data" and self.failure:
            return Verdict("no_data", "no_answer", self.failure, worst.metric)
        return worst

    def _arms(self) -> list[Endpoint]:
        request = self.request
        return [arm for arm in (request.baseline, request.candidate) if arm is not None]

    def report(self) -> Json:
        """What the gate's report says of each query, beside its other metrics."""
        step = self.asked.interval_s
        times = [(number + 1) * step for number in range(len(self.metrics[0].candidate))]
        return {metric.key: metric.report(times) for metric in self.metrics}


def filled(query: settings.PrometheusQuery, arm: Endpoint) -> str:
    """The query for one arm."""
    values = {
        "release": arm.name.partition("-")[0],
        "replica": arm.name,
        "host": arm.host,
        "port": str(arm.port),
        "health_port": str(arm.health_port),
    }
    return promql.fill(query.query, values)


def check_queries(check: QueryCheck, *, tell: Tell, interrupt: Interrupt) -> None:
    """Raise ConfigError for a query that Prometheus refuses, and, where the old release runs, for a
    metric that it never had. That it does not answer is told only: it may until the gate."""
    server = Server(Access.of(check.prometheus, check.token, check.root), interrupt)
    try:
        for query in check.prometheus.queries:
            server.check(filled(query, check.arms[0] if check.arms else SOME_ARM))
            if check.arms:
                server.require_names(query.query)
    except NoAnswer as error:
        tell(f"{error}; the gate will need it")
    finally:
        server.close()


class Holding:
    """Load as before, of all batch sizes, whose latency nobody judges any more."""

    def __init__(self, course: GateCourse, until: float) -> None:
        self.course = course
        self.until = until
        self.sizes = course.judge.batch_sizes
        self.costs = [1.0 / course.steering.costs[size] for size in self.sizes]
        self.random = random.Random(math.floor(until))

    def next_size(self) -> int:
        if self.course.turns is not None:
            return self.course.next_size()
        return self.random.choices(self.sizes, self.costs)[0]

    def rate(self) -> float:
        return self.course.rate()

    def finished(self, done: Round) -> None:
        self.course.raw.add(done, done.started - self.course.started)

    def stop(self) -> Stop:
        self.course.interrupt()
        self.course.raw.flush()
        return "drain" if time.monotonic() >= self.until else ""
