"""Asks a Prometheus server: values of a query over time, and whether a metric ever had a series.

Source: Prometheus, "HTTP API" (paths, parameters and errors of version 2.42).
"""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from opsctl.config import promql, settings
from opsctl.errors import ConfigError

POLL_S = 0.05
"""How often `interrupt` is called while an answer is awaited."""

HTTP_BAD_DATA = 400
HTTP_REFUSED = (401, 403)
HTTP_FAILED = 422

STEP_SHARE = 0.25
"""How far from a time of the grid, in steps, a value may lie: times have milliseconds."""


class NoAnswer(Exception):
    """Prometheus can't be asked now; its words say why."""


@dataclass(frozen=True)
class Access:
    """How to reach the server. `verify` is what `requests` takes: True, or a PEM file."""

    url: str
    timeout_s: float
    token: str
    verify: bool | str

    @classmethod
    def of(cls, asked: settings.Prometheus, token: str, root: Path) -> Access:
        """From the settings, with the resolved token; ConfigError for a missing ca_file."""
        if asked.ca_file is not None and not (root / asked.ca_file).is_file():
            raise ConfigError(
                f"cannot read gate.prometheus.ca_file {root / asked.ca_file}",
                why="there is no such file",
                next_step="Provide it, or correct gate.prometheus.ca_file.",
            )
        verify = str(root / asked.ca_file) if asked.ca_file is not None else True
        return cls(asked.url.rstrip("/"), asked.timeout_s, token, verify)


class _Bearer(requests.auth.AuthBase):
    """The token in its header; as an `auth` no .netrc of the machine replaces it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Server:
    """One Prometheus server. `interrupt` is called while an answer is awaited."""

    def __init__(self, access: Access, interrupt: Callable[[], None]) -> None:
        self._access = access
        self._interrupt = interrupt
        self._session = requests.Session()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus")

    def close(self) -> None:
        """Forget the connection; a question that is still open is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._session.close()

    def values(self, query: str, first: float, count: int, step_s: float) -> list[float | None]:
        """`count` values of a query from unix time `first` on, each `step_s`; None: no sample.

        Raises ConfigError when Prometheus refuses the query or it gives several series, NoAnswer
        when it can't be asked.
        """
        last = first + (count - 1) * step_s
        parameters = {"query": query, "start": f"{first:.3f}", "end": f"{last:.3f}",
                      "step": f"{step_s:.3f}"}  # fmt: skip
        found = self._ask("query_range", parameters)["result"]
        if len(found) > 1:
            raise ConfigError(
                f"the query {query!r} gives {len(found)} series",
                why=" and ".join(str(one["metric"]) for one in found[:2]),
                next_step="Make it one value: choose by more labels, or aggregate with sum(…)",
            )
        values: list[float | None] = [None] * count
        for at, text in found[0]["values"] if found else ():
            index = round((float(at) - first) / step_s)
            off = abs((float(at) - first) / step_s - index)
            if 0 <= index < count and off <= STEP_SHARE:
                values[index] = float(text)
        return values

    def check(self, query: str) -> None:
        """Have the query read. Raises as `values` does."""
        self.values(query, time.time(), 1, 1.0)

    def require_names(self, query: str) -> None:
        """Raise ConfigError for a metric that no series and no target has ever had."""
        for name in promql.metric_names(query):
            if not self._has_series(name) and not self._is_described(name):
                near = difflib.get_close_matches(name, self._names(), 1)
                hint = f"; the nearest one is {near[0]}" if near else ""
                raise ConfigError(
                    f"Prometheus has never had a metric {name}",
                    why=f"the query {query!r} reads it{hint}",
                    next_step="Correct gate.prometheus.queries, or what Prometheus scrapes.",
                )

    def _has_series(self, name: str) -> bool:
        # Without an end and a beginning the whole retention is searched.
        return bool(self._ask("series", {"match[]": f'{{__name__="{name}"}}', "start": "0"}))

    def _is_described(self, name: str) -> bool:
        """A counter with labels is known to its target before it has any series."""
        return any(self._ask("metadata", {"metric": one}) for one in promql.families(name))

    def _names(self) -> list[str]:
        return [str(name) for name in self._ask("label/__name__/values", {"start": "0"})]

    def _ask(self, path: str, parameters: Mapping[str, str]) -> Any:
        pending = self._thread.submit(self._exchange, path, parameters)
        return _awaited(pending, self._interrupt)

    def _exchange(self, path: str, parameters: Mapping[str, str]) -> Any:
        access = self._access
        url = f"{access.url}/api/v1/{path}"
        try:
            answer = self._session.get(
                url,
                params=dict(parameters),
                auth=_Bearer(access.token),
                timeout=access.timeout_s,
                verify=access.verify,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            raise NoAnswer(f"Prometheus at {access.url} can't be asked: {_cause(error)}") from error
        try:
            body = answer.json()
        except ValueError:
            body = {}
        if isinstance(body, dict) and body.get("status") == "success":
            return body["data"]
        raise self._refusal(answer.status_code, body if isinstance(body, dict) else {})

    def _refusal(self, status: int, body: Mapping[str, Any]) -> Exception:
        said = str(body.get("error") or f"HTTP {status}")
        if status == HTTP_BAD_DATA and body:
            return ConfigError(
                "Prometheus refuses a query",
                why=said,
                next_step="Correct gate.prometheus.queries.",
            )
        if status in HTTP_REFUSED:
            return ConfigError(
                f"Prometheus at {self._access.url} refuses opsctl",
                why=said,
                next_step="Set gate.prometheus.token to a token that may read.",
            )
        if not body and status < 500:
            return ConfigError(
                f"{self._access.url} is no Prometheus",
                why=f"its answer to /api/v1 is HTTP {status} and not Prometheus' JSON",
                next_step="Correct gate.prometheus.url.",
            )
        failed = "could not work the query out" if status == HTTP_FAILED else "is not well"
        return NoAnswer(f"Prometheus at {self._access.url} {failed}: {said}")


def _awaited(pending: Future[Any], interrupt: Callable[[], None]) -> Any:
    while True:
        try:
            return pending.result(POLL_S)
        except NotYet:
            if pending.done():
                raise
            interrupt()


def _cause(error: BaseException) -> str:
    """The innermost reason: `requests` wraps it several times."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def usable(value: float | None) -> bool:
    """Whether a value can be compared as a ratio: there, finite, not negative."""
    return value is not None and math.isfinite(value) and value >= 0.0
