"""Smoke tests: declared requests and commands against every replica of the candidate.

Requests go to the replicas' private endpoints, so no user has met the candidate yet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl.checks.compare import Mismatch, mismatches
from opsctl.checks.exchange import Answer, Request, exchange
from opsctl.config.placeholders import fill
from opsctl.config.settings import SmokeTest
from opsctl.errors import PreflightRefused, SmokeFailed
from opsctl.model import Endpoint, Json
from opsctl.release import Release
from opsctl.targets.target import Target

OUTPUT_LINES = 20
"""Last lines of a failed command that its result keeps."""

SHOWN_BODY = 300
"""Characters of a wrong answer that its result keeps."""

TESTS_NAMED = 3
"""Failed tests that the error's one line tells; all stand in the results."""


@dataclass(frozen=True)
class SmokeResult:
    """One test on one replica; `problems` is empty when it passed."""

    test: str
    replica: str
    duration_ms: float
    problems: tuple[str, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    output: str = ""

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_dict(self) -> Json:
        return {
            **self.__dict__,
            "ok": self.ok,
            "problems": list(self.problems),
            "mismatches": [mismatch.to_dict() for mismatch in self.mismatches],
        }


class SmokeTestsFailed(SmokeFailed):
    """`SmokeFailed` that carries the results of all tests, the passed ones too."""

    def __init__(self, release: str, results: tuple[SmokeResult, ...]) -> None:
        failed = [result for result in results if not result.ok]
        told = [f"{r.test!r} on {r.replica}: {r.problems[0]}" for r in failed[:TESTS_NAMED]]
        more = len(failed) - len(told)
        super().__init__(
            f"{len(failed)} of {len(results)} smoke tests of {release} failed",
            why="; ".join(told) + (f"; and {more} more" if more else ""),
            next_step=f"Repair the application or the test, or look with: opsctl logs {release}",
        )
        self.results = results

    def to_dict(self) -> dict[str, Any]:
        """As any error, plus `results`."""
        return {
            **super().to_dict(),
            "type": SmokeFailed.__name__,
            "results": [result.to_dict() for result in self.results],
        }


def run_smoke(
    target: Target,
    release: Release,
    tests: Sequence[SmokeTest],
    root: Path,
    interrupt: Callable[[], None],
) -> tuple[SmokeResult, ...]:
    """Run all tests, also after a failure; files are relative to `root`.

    Commands run once, or once a replica when they name {port}, {health_port} or {replica}.
    Raises `SmokeTestsFailed` with all results, `PreflightRefused` when a body file is missing.
    """
    replicas = tuple(target.endpoints(release.name))
    if not replicas:
        nobody = SmokeResult("endpoints", release.name, 0.0, ("it has no replica to ask",))
        raise SmokeTestsFailed(release.name, (nobody,))
    results: list[SmokeResult] = []
    for test in tests:
        if test.run:
            results.extend(_commands(target, release, test, replicas, interrupt))
        else:
            request = request_of(test, root)
            for replica in replicas:
                interrupt()
                results.append(_judged(test, replica, exchange(replica, request, interrupt)))
    if not all(result.ok for result in results):
        raise SmokeTestsFailed(release.name, tuple(results))
    return tuple(results)


def request_of(test: SmokeTest, root: Path) -> Request:
    """The HTTP request of a test. Raises `PreflightRefused` when its body file can't be read."""
    headers = dict(test.headers)
    body: bytes | None = None
    if test.body_file is not None:
        body = read_body(root / test.body_file)
    elif test.body is not None:
        body = json.dumps(test.body).encode()
    if body is not None and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = "application/json"
    return Request(test.method, test.path or "/", headers, body, test.timeout_s)


def read_body(path: Path) -> bytes:
    """A body file. Raises `PreflightRefused`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PreflightRefused(
            f"the body file {path} can't be read",
            why=error.strerror or str(error),
            next_step="Set body_file of the smoke test in opsctl.yaml, then run it again",
        ) from error


def _judged(test: SmokeTest, replica: Endpoint, answer: Answer) -> SmokeResult:
    problems: list[str] = []
    wrong: tuple[Mismatch, ...] = ()
    where = f"{test.method} {test.path}"
    if answer.error:
        problems.append(f"{where}: {answer.error}")
    elif answer.status != test.status:
        problems.append(f"{where}: expected status {test.status}, got {answer.status}")
    elif test.json:
        try:
            wrong = mismatches(json.loads(answer.body), test.json)
        except (ValueError, RecursionError) as error:
            problems.append(f"{where}: the answer is no JSON ({error})")
        problems.extend(f"{where}: {mismatch}" for mismatch in wrong)
    return SmokeResult(
        test=test.name,
        replica=replica.name or replica.url,
        duration_ms=round(answer.duration_s * 1000, 3),
        problems=tuple(problems),
        mismatches=wrong,
        output=answer.body[:SHOWN_BODY].decode(errors="replace") if problems else "",
    )


def _commands(
    target: Target,
    release: Release,
    test: SmokeTest,
    replicas: Sequence[Endpoint],
    interrupt: Callable[[], None],
) -> Iterator[SmokeResult]:
    for replica in replicas if _names_a_replica(test) else replicas[:1]:
        yield _command(target, release, test, replica, interrupt)


def _names_a_replica(test: SmokeTest) -> bool:
    names = ("{port}", "{health_port}", "{replica}")
    return any(name in word for word in test.run for name in names)


def _command(
    target: Target,
    release: Release,
    test: SmokeTest,
    replica: Endpoint,
    interrupt: Callable[[], None],
) -> SmokeResult:
    argv = [fill(word, _values(release, replica)) for word in test.run]
    begin = time.monotonic()
    done = target.run_in(release.name, argv, env={}, timeout_s=test.timeout_s, interrupt=interrupt)
    output = f"{done.stdout}{done.stderr}".strip()
    problems: tuple[str, ...] = ()
    if done.exit_code != 0:
        last = output.splitlines()[-1:]
        said = f": {last[0].strip()}" if last else ""
        problems = (f"{' '.join(argv)}: exit code {done.exit_code}{said}",)
    return SmokeResult(
        test=test.name,
        replica=replica.name if _names_a_replica(test) else release.name,
        duration_ms=round((time.monotonic() - begin) * 1000, 3),
        problems=problems,
        output="\n".join(output.splitlines()[-OUTPUT_LINES:]) if problems else "",
    )


def _values(release: Release, replica: Endpoint) -> Mapping[str, str]:
    return {
        "python": release.launch.python,
        "model": release.launch.model_path,
        "release": release.name,
        "replica": replica.name,
        "port": str(replica.port),
        "health_port": str(replica.health_port),
    }
