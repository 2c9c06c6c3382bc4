"""One service as its operator has it: the real command, supervisor, HAProxy, and users."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opsctl import shell
from scripts.campaigns._opsctl import Opsctl, Result, processes_of
from tests.apps.processes import ClientRun, end, start_client, wait_until
from tests.apps.project import Candidate, LightProject, Options, merged, write

SETTLE_MAX_S = 30.0
"""On a machine that is very busy."""

QUICK: Mapping[str, Any] = {
    "health": {"interval_s": 0.05, "timeout_s": 1.0, "tries": 500, "streak": 2},
    "strategy": {
        "stages": [{"weight": 20, "hold_s": 0.2}],
        "promote_hold_s": 0.1,
        "rollback_window_s": 600,
    },
}
"""Short waits on top of the light project's own, for tests that are not about them."""


def quick(*, gate: bool = False, replicas: int = 1, **service: Any) -> Options:
    """Options of a project whose deploy takes a second or two; `service` is merged in."""
    return Options(gate=gate, replicas=replicas, overrides=merged(QUICK, service))


@dataclass
class Site:
    """A project, the command in it, and everything of it that runs."""

    project: LightProject
    home: Path
    """Folder of what the test itself keeps: logs of commands, the client's figures."""
    began: list[subprocess.Popen[bytes]] = field(default_factory=list)
    changes: int = 0

    @property
    def opsctl(self) -> Opsctl:
        """The command."""
        return Opsctl(self.project)

    @property
    def state(self) -> Path:
        """The service's state folder."""
        return self.project.state

    # ------------------------------------------------------------------ commands

    def run(self, *arguments: str, **env: str) -> Result:
        """Run a command to its end; its JSON is in `.data`."""
        return self.opsctl.run(*arguments, **env)

    def good(self, *arguments: str, **env: str) -> Result:
        """Run a command that must succeed."""
        result = self.run(*arguments, **env)
        assert result.exit_code == 0, f"opsctl {arguments}: {result.exit_code}\n{result.stderr}"
        assert "after the rollout:" not in result.stderr, result.stderr
        return result

    def deploy(self, candidate: Candidate | None = None, *arguments: str, **env: str) -> Result:
        """Make the project a candidate unlike all before, and deploy it."""
        self.change(candidate or Candidate("code"))
        return self.run("deploy", *arguments, **env)

    def change(self, candidate: Candidate) -> None:
        """Make the project a candidate unlike all before."""
        self.changes += 1
        self.project.change(candidate, self.changes)

    def with_options(self, **service: Any) -> Site:
        """The same service with other settings than the quick ones, from now on."""
        overrides = merged(quick().overrides, service)
        options = replace(self.project.options, overrides=overrides)
        self.project = replace(self.project, options=options)
        self.project.change(Candidate("code"), self.changes)
        return self

    def raw(self, *arguments: str, **env: str) -> shell.Completed:
        """Run a command as people type it, without `-o json`."""
        argv = [sys.executable, "-m", "opsctl.cli", *arguments]
        # Not by `shell`, which keeps the end of a long output only.
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=120, check=False,
            cwd=self.project.root, env=self.opsctl.env(**env),
        )  # fmt: skip
        return shell.Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def text(self, *arguments: str) -> str:
        """What a command that succeeds prints for people, stdout and stderr."""
        done = self.raw(*arguments)
        assert done.exit_code == 0, done.stderr
        return done.stdout + done.stderr

    def change_files_only(self, candidate: Candidate) -> None:
        """Make the application's and the model's files a candidate's, opsctl.yaml as it is."""
        config = self.project.config.read_text()
        self.change(candidate)
        self.project.config.write_text(config)

    def begin(self, *arguments: str, **env: str) -> Began:
        """Start a command and go on."""
        log = self.home / f"command-{len(self.began)}.log"
        process = self.opsctl.spawn(log, *arguments, **env)
        self.began.append(process)
        return Began(process, log)

    def begin_deploy(self, candidate: Candidate | None = None) -> Began:
        """Start a deploy and return when its rollout stands in the journal."""
        before = len(self.records())
        self.change(candidate or Candidate("code"))
        began = self.begin("deploy")
        wait_until(lambda: len(self.records()) > before, "the rollout was opened", SETTLE_MAX_S)
        return began

    # ------------------------------------------------------------------ what is there

    def status(self) -> Mapping[str, Any]:
        """What `opsctl status` says."""
        return self.opsctl.status()

    @property
    def serving(self) -> str | None:
        """The release that serves, by `opsctl status`."""
        return self.status()["serving_release"]  # type: ignore[no-any-return]

    def pids(self, release: str) -> dict[str, int]:
        """Process ids of a release's replicas, by name."""
        return {r["name"]: r["pid"] for r in self.replicas() if r["release"] == release}

    def replicas(self) -> list[dict[str, Any]]:
        """The replicas, as `opsctl status` shows them."""
        observed = self.status()["observed"]
        return list(observed["replicas"]) if observed else []

    def records(self) -> list[dict[str, Any]]:
        """The journal's lines, oldest first; those that can be read."""
        found = []
        for path in sorted(self.state.glob("journal/[0-9]*.jsonl")):
            for line in path.read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def newest_records(self) -> list[dict[str, Any]]:
        """The newest rollout's lines of the journal."""
        records = self.records()
        opened = [i for i, record in enumerate(records) if record["kind"] == "opened"]
        return records[opened[-1] :] if opened else []

    def report(self, result: Result) -> dict[str, Any]:
        """The JSON report of the rollout that `result` ended."""
        path = self.state / "reports" / f"{result.data['rollout']:04d}.json"
        return dict(json.loads(path.read_text()))

    def answers(self, count: int = 20) -> dict[str, int]:
        """Who answers at the front door: how often each release, by its own header's word."""
        import http.client

        body = json.dumps(json.loads(self.project.requests.read_text())[0]["body"])
        seen: dict[str, int] = {}
        for _ in range(count):
            door = http.client.HTTPConnection("127.0.0.1", self.project.port, timeout=10)
            door.request("POST", "/v1/models/light:predict", body)
            answer = door.getresponse()
            answer.read()
            door.close()
            name = answer.headers["X-Light-Release"] if answer.status == 200 else "none"
            assert answer.headers["X-Opsctl-Release"] == name
            seen[name] = seen.get(name, 0) + 1
        return seen

    def wait_for_record(self, kind: str, step: str = "") -> None:
        """Wait until the journal's newest rollout has a record of `kind`, of step `step`."""

        def is_there() -> bool:
            records = self.newest_records()
            return any(r["kind"] == kind and step in ("", step_of(r)) for r in records)

        wait_until(is_there, f"the journal has {kind} {step}", SETTLE_MAX_S)

    def wait_for_traffic(self, release: str) -> None:
        """Wait until users' traffic goes to `release`."""

        def flows() -> bool:
            observed = self.status()["observed"]
            return bool(observed and observed["weights"].get(release))

        wait_until(flows, f"{release} has traffic", SETTLE_MAX_S)

    def wait_for_beginnings(self, step: str, count: int) -> None:
        """Wait until the newest rollout began `step` `count` times."""

        def are_there() -> bool:
            begun = [step_of(r) for r in self.newest_records() if r["kind"] == "began"]
            return begun.count(step) >= count

        wait_until(are_there, f"{step} began {count} times", SETTLE_MAX_S)

    @contextlib.contextmanager
    def users(self, rate: float = 100.0, *, failures: int = 0) -> Iterator[Users]:
        """Users for the length of a block; at its end at most `failures` of them failed."""
        with start_client(self.project, self.home, rate=rate) as client:
            users = Users(client)
            yield users
            seen = users.seen = client.stop()
        assert seen["answered"] > 0
        assert seen["failed"] <= failures, f"{seen['failed']} failed: {seen['failures'][:5]}"

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """End what runs, and be sure that nothing is left."""
        for process in self.began:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGCONT)
                end(process)
        left = self.opsctl.down()
        shutil.rmtree(self.project.root, ignore_errors=True)
        assert left == [], left

    def processes(self) -> dict[int, str]:
        """Everything that runs for this service, by pid."""
        own = {p.pid for p in self.began} | {os.getpid()}
        return {p: line for p, line in processes_of(self.project.root).items() if p not in own}


@dataclass
class Users:
    """The client at work; `seen` is its summary once the block is left."""

    client: ClientRun
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def releases(self) -> set[str]:
        """Releases that answered them."""
        return set(self.seen["releases"])


@dataclass(frozen=True)
class Began:
    """A command that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def end(self, timeout_s: float = 120.0) -> int:
        """Wait for its end; its exit code."""
        return self.process.wait(timeout_s)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        end(self.process)

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self.log.read_text()

    @property
    def data(self) -> dict[str, Any]:
        """The JSON object that it printed last."""
        text = self.output
        start = text.rindex("\n{\n") if not text.startswith("{") else 0
        return dict(json.loads(text[start:]))


def step_of(record: Mapping[str, Any]) -> str:
    """Id of the step that a record is about."""
    step = record["data"].get("step", "")
    return str(step["id"] if isinstance(step, Mapping) else step)


def new_site(folder: Path, options: Options, port: int | None = None) -> Site:
    """A project of its own in `folder`; nothing runs yet."""
    home = folder / "home"
    home.mkdir()
    return Site(write(folder / "project", options, port), home)
