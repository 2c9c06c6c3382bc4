"""Traffic counters per release that outlive HAProxy's restarts and the change of slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opsctl.model import Traffic
from opsctl.targets.supervisor.runtime_api import BACKEND, Statistics

FRONT = "front"
_ANSWERS = ("hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other")


@dataclass(frozen=True)
class Counts:
    """Counters that only grow."""

    requests: int = 0
    errors: int = 0
    retries: int = 0

    def since(self, before: Counts) -> Counts:
        """What was added."""
        return Counts(
            self.requests - before.requests,
            self.errors - before.errors,
            self.retries - before.retries,
        )

    def at_least(self, known: Counts) -> Counts:
        """These, or what is known already: answers of one HAProxy may come in any order."""
        return Counts(
            max(self.requests, known.requests),
            max(self.errors, known.errors),
            max(self.retries, known.retries),
        )

    def plus(self, more: Counts) -> Counts:
        return Counts(
            self.requests + more.requests, self.errors + more.errors, self.retries + more.retries
        )


@dataclass
class TrafficLedger:
    """Totals by release, and the last raw counters seen by server (of HAProxy `source`)."""

    source: str = ""
    totals: dict[str, Counts] = field(default_factory=dict)
    raw: dict[str, Counts] = field(default_factory=dict)
    in_flight: dict[str, int] = field(default_factory=dict)
    earlier: dict[str, dict[str, Counts]] = field(default_factory=dict)
    """Raw counters of the HAProxy before: at a reload both may be read, in any order."""

    def absorb(self, seen: Statistics) -> bool:
        """Add what a HAProxy counted; whether anything changed.

        HAProxy counts by slot; what was added since the last look belongs to the slot's replica.
        """
        if self.source == str(seen.pid):
            self.source = seen.process  # as an older opsctl remembered it
        if self.source != seen.process:
            known = self.earlier.get(seen.process, {})
            self.earlier = {self.source: self.raw}
            self.source, self.raw = seen.process, known
        before = dict(self.totals)
        raw: dict[str, Counts] = {}
        self.in_flight = {}
        for row in seen.rows:
            name = row["svname"]
            if row["pxname"] == FRONT:
                counted, key = _front_counts(row), FRONT
            elif row["pxname"] == BACKEND and name != "BACKEND":
                counted, key = _server_counts(row), seen.replicas.get(name, name).partition("-")[0]
            else:
                continue
            label = f"{row['pxname']}/{name}"
            already = self.raw.get(label, Counts())
            raw[label] = counted = counted.at_least(already)
            if not key:
                continue  # a free slot answers nothing
            if key != FRONT:
                self.in_flight[key] = self.in_flight.get(key, 0) + _number(row, "scur")
            added = counted.since(already)
            self.totals[key] = self.totals.get(key, Counts()).plus(added)
        self.raw = raw
        return self.totals != before

    def of(self, release: str) -> Counts:
        return self.totals.get(release, Counts())

    def traffic(self) -> tuple[Traffic, ...]:
        """What `observe` reports."""
        return tuple(
            Traffic(release, c.requests, c.errors, c.retries, self.in_flight.get(release, 0))
            for release, c in self.totals.items()
            if release != FRONT
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "totals": {name: list(vars(c).values()) for name, c in self.totals.items()},
            "raw": {name: list(vars(c).values()) for name, c in self.raw.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrafficLedger:
        return cls(
            data["source"],
            {name: Counts(*values) for name, values in data["totals"].items()},
            {name: Counts(*values) for name, values in data["raw"].items()},
        )


def _server_counts(row: Mapping[str, str]) -> Counts:
    """Of one server: answers, 5xx ones, and requests that it left without an answer.

    `eresp` counts answers that broke off, `econ` connections that failed for good
    (management guide, section 9.1).
    """
    lost = _number(row, "eresp") + _number(row, "econ")
    answers = sum(_number(row, column) for column in _ANSWERS)
    errors = _number(row, "hrsp_5xx") + lost
    return Counts(answers + lost, errors, _number(row, "wretr"))


def _front_counts(row: Mapping[str, str]) -> Counts:
    return Counts(_number(row, "req_tot"), _number(row, "hrsp_5xx"), 0)


def _number(row: Mapping[str, str], column: str) -> int:
    return int(row.get(column) or 0)
