"""The project's own commands around steps, and who is told."""

from __future__ import annotations

import http.server
import json
import shlex
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps.processes import wait_until
from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import quick

SAY = 'printf "%s %s %s %s\\n" "$OPSCTL_STEP" "$OPSCTL_RELEASE" "$OPSCTL_BASE" "$OPSCTL_OUTCOME"'


LONG_STEPS = [pytest.param(step, marks=pytest.mark.long) for step in ("start", "smoke", "shift")]


def hook(when: str, step: str, script: str) -> dict[str, Any]:
    """A hook of opsctl.yaml."""
    return {"when": when, "step": step, "run": ["sh", "-c", script]}


@pytest.mark.parametrize("step", ["deploy", "promote", *LONG_STEPS])
def test_a_failing_hook_before_a_step_stops_the_rollout(make_site: MakeSite, step: str) -> None:
    site = make_site(quick())
    site.good("deploy")
    before = site.pids("r1")
    site = site.with_options(hooks=[hook("before", step, "echo the gate is shut; exit 3")])
    with site.users() as users:
        result = site.deploy()
    assert (result.exit_code, result.data["serving_release"]) == (10, "r1"), result.stderr
    assert f"the hook before {step} failed" in result.data["reason"]
    assert "exit code 3" in result.data["reason"]
    assert "the gate is shut" in result.data["reason"]
    assert "hooks in opsctl.yaml" in result.data["next_step"]
    assert users.releases == {"r1"} or step == "promote"
    assert site.pids("r1") == before
    assert site.pids("r2") == {}


def test_hooks_run_around_their_steps_with_the_context_in_their_environment(
    make_site: MakeSite,
) -> None:
    site = make_site()
    site.good("deploy")
    said = site.home / "said"
    hooks = [
        hook(when, step, f"printf '{when} '; {SAY}".replace("\\n", "\\n") + f" >> {said}")
        for when, step in (("before", "deploy"), ("before", "promote"), ("after", "promote"))
    ]
    hooks.append(hook("after", "deploy", f"{SAY} >> {said}"))
    site = site.with_options(hooks=hooks)
    assert site.deploy().exit_code == 0
    lines = said.read_text().splitlines()
    assert [line.split() for line in lines] == [
        ["deploy", "r2", "r1"],
        ["promote", "r2", "r1"],
        ["promote", "r2", "r1"],
        ["deploy", "r2", "r1", "deployed"],
    ]


def test_a_failing_hook_after_a_step_is_only_a_warning(make_site: MakeSite) -> None:
    site = make_site(quick(hooks=[hook("after", "promote", "exit 4")]))
    result = site.good("deploy")
    assert result.data["serving_release"] == "r1"
    warnings = site.report(result)["warnings"]
    assert any("hook after promote: exit code 4" in warning for warning in warnings)
    assert "warning: hook after promote: exit code 4" in result.stderr


@pytest.fixture
def receiver() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A web server that keeps what is posted; its first answer is 503."""
    posted: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append({**json.loads(body), "signature": self.headers["X-Opsctl-Signature"]})
            self.send_response(503 if len(posted) == 1 else 204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, posted
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhooks_are_tried_again_and_tell_how_a_rollout_ended(
    make_site: MakeSite, receiver: tuple[int, list[dict[str, Any]]]
) -> None:
    port, posted = receiver
    notification = {
        "url": f"http://127.0.0.1:{port}/hooks/1",
        "events": ["finished", "failed", "waiting"],
    }
    site = make_site(quick(notifications=[notification]))
    first = site.good("deploy")
    assert [p["event"] for p in posted] == ["finished", "finished"]
    assert posted[0]["delivery"] == posted[1]["delivery"]
    assert posted[1]["outcome"] == "deployed"
    assert posted[1]["serving_release"] == "r1"
    told = site.report(first)["notifications"]
    assert [(n["event"], n["tries"], n["ok"]) for n in told] == [("finished", 2, True)]
    bad = site.deploy(Candidate("wrong_value", 10, {"value_error": 1e-3}))
    assert bad.exit_code == 10
    assert (posted[-1]["event"], posted[-1]["exit_code"]) == ("failed", 10)
    assert posted[-1]["reason"] == bad.data["reason"]
    site = site.with_options(notifications=[notification], strategy={"promote_approval": True})
    assert site.deploy().exit_code == 20
    assert posted[-1]["event"] == "waiting"
    assert "approval" in posted[-1]["reason"]


def test_started_is_told_once_a_rollout_before_its_first_step(
    make_site: MakeSite, receiver: tuple[int, list[dict[str, Any]]]
) -> None:
    port, posted = receiver
    notification = {"url": f"http://127.0.0.1:{port}/", "events": ["started", "finished"]}
    patient: dict[str, Any] = {"notifications": [notification], "health": {"tries": 2000}}
    site = make_site(quick(**patient))
    first = site.good("deploy")
    # (The receiver answers its first request with 503, so that it comes twice.)
    assert [p["event"] for p in posted] == ["started", "started", "finished"]
    assert posted[0]["delivery"] == posted[1]["delivery"] != posted[2]["delivery"]
    begun = posted[1]
    assert (begun["op"], begun["release"], begun["base"]) == ("deploy", "r1", None)
    assert (begun["outcome"], begun["exit_code"], begun["rollout"]) == ("open", None, 1)
    told = site.report(first)["notifications"]
    assert [(n["event"], n["tries"], n["ok"]) for n in told] == [
        ("started", 2, True),
        ("finished", 1, True),
    ]
    site = site.with_options(**patient, strategy={"promote_approval": True})
    assert site.deploy().exit_code == 20
    assert [(p["event"], p["release"]) for p in posted[3:]] == [("started", "r2")]
    site.good("approve")
    assert [(p["event"], p["release"]) for p in posted[4:]] == [("finished", "r2")]


@pytest.mark.long
def test_a_webhook_that_nobody_answers_holds_nothing_up(make_site: MakeSite) -> None:
    notification = {"url": "http://127.0.0.1:9/", "tries": 2, "timeout_s": 0.5}
    site = make_site(quick(notifications=[notification]))
    result = site.good("deploy")
    assert result.data["serving_release"] == "r1"
    assert "webhook to 127.0.0.1 failed" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(("request_", "exit_code"), [("abort", 23), ("pause", 20)])
def test_a_request_while_the_last_hook_runs_is_heard(
    make_site: MakeSite, request_: str, exit_code: int
) -> None:
    site = make_site(quick())
    site.good("deploy")
    site = site.with_options(hooks=[hook("after", "deploy", "touch hook-runs; sleep 100")])
    deploy = site.begin_deploy()
    wait_until((site.project.root / "hook-runs").exists, "the hook runs", 60)
    site.begin(request_)
    assert deploy.end() == exit_code, deploy.output


@pytest.mark.long
def test_a_hook_that_asks_for_an_abort_cannot_keep_a_rollout_open(make_site: MakeSite) -> None:
    site = make_site(quick())
    site.good("deploy")
    ask = f"{shlex.quote(sys.executable)} -m opsctl.cli abort --timeout 1 || true"
    site = site.with_options(hooks=[hook("after", "deploy", ask)])
    result = site.deploy()
    assert (result.exit_code, result.data["outcome"], site.serving) == (23, "aborted", "r1")
    assert site.status()["rollout"] is None
