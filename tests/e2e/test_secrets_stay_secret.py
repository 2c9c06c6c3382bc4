"""Secrets reach the replicas and nothing else."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.apps.project import Candidate
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site

FROM_ENV = "sentinel-from-the-environment-6f1d"
FROM_FILE = "sentinel-from-a-file-92ab"
FROM_COMMAND = "sentinel-from-a-command-55e0"
SENTINELS = (FROM_ENV, FROM_FILE, FROM_COMMAND)
NEW_VALUE = "sentinel-rotated-0c77"

SHOUT = "env | grep TOKEN || true; echo the app says $TOKEN_OF_FILE >&2"


def service_with_secrets(make_site: MakeSite) -> Site:
    """The files that sources name stand outside of what is searched for leaks."""
    site = make_site()
    (site.home / "token").write_text(FROM_FILE + "\n")
    (site.home / "token-command").write_text(FROM_COMMAND + "\n")
    secrets = {
        "TOKEN_OF_ENV": {"env": "TEST_SOURCE_TOKEN"},
        "TOKEN_OF_FILE": {"file": str(site.home / "token")},
        "TOKEN_OF_COMMAND": {"command": ["cat", str(site.home / "token-command")]},
    }
    hooks = [{"when": "before", "step": "smoke", "run": ["sh", "-c", SHOUT]}]
    return site.with_options(app={"secrets": secrets}, hooks=hooks)


def make_loud(site: Site) -> None:
    """From now on the application itself shouts its whole environment into its log."""
    shout = "import os, sys; print('loud', dict(os.environ), file=sys.stderr, flush=True)\n"
    light = site.project.root / "app" / "light.py"
    light.write_text(light.read_text().replace("import argparse\n", f"{shout}import argparse\n", 1))


def leaks(site: Site, *texts: str) -> list[str]:
    """Where a sentinel stands: files but those of secrets/, command lines, given texts."""
    found = []
    for path in site.project.root.rglob("*"):
        if path.is_file() and path.parent != site.state / "secrets":
            content = path.read_bytes()
            found += [f"{path}: {s}" for s in (*SENTINELS, NEW_VALUE) if s.encode() in content]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        found += [f"pid {pid}: {s}" for s in (*SENTINELS, NEW_VALUE) if s.encode() in line]
    return found + [s for text in texts for s in (*SENTINELS, NEW_VALUE) if s in text]


def environment(pid: int) -> dict[str, str]:
    """The variables of a process."""
    words = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    return dict(word.decode().split("=", 1) for word in words if b"=" in word)


def test_secrets_reach_the_replica_and_appear_nowhere_else(make_site: MakeSite) -> None:
    site = service_with_secrets(make_site)
    source = {"TEST_SOURCE_TOKEN": FROM_ENV}
    first = site.good("deploy", **source)
    pid = site.pids("r1")["r1-1"]
    variables = environment(pid)
    assert variables["TOKEN_OF_ENV"] == FROM_ENV
    assert variables["TOKEN_OF_FILE"] == FROM_FILE
    assert variables["TOKEN_OF_COMMAND"] == FROM_COMMAND
    bad = site.deploy(Candidate("wrong_value", 10, {"value_error": 1e-3}), **source)
    crash = site.deploy(Candidate("exits", 10, {"exit_at_start": 3}), **source)
    assert (bad.exit_code, crash.exit_code) == (10, 10)
    looks = [
        site.opsctl.run(*command, **source)
        for command in (
            ["status"], ["history"], ["audit"], ["config", "show"], ["plan"],
            ["releases", "show", "r1"], ["health"], ["smoke"],
        )
    ]  # fmt: skip
    logs = site.text("logs", "r1")
    outputs = [json.dumps(dict(r.data)) + r.stderr for r in (first, bad, crash, *looks)]
    assert leaks(site, logs, *outputs) == []
    kept = list((site.state / "secrets").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert stat.S_IMODE((site.state / "secrets").stat().st_mode) == 0o700


def test_secrets_that_an_application_shouts_stay_in_its_own_private_log(
    make_site: MakeSite,
) -> None:
    site = service_with_secrets(make_site)
    make_loud(site)
    source = {"TEST_SOURCE_TOKEN": FROM_ENV}
    site.good("deploy", **source)
    crash = site.deploy(Candidate("exits", 10, {"exit_at_start": 3}), **source)
    assert "light: told to exit at start" in crash.stderr
    logs = site.text("logs", "r2")
    assert "loud" in logs
    own = [path for path in (site.state / "logs").iterdir() if FROM_ENV in path.read_text()]
    assert {path.name for path in own} == {"r1-1.log", "r2-1.log"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in own} == {0o600}
    for path in own:
        path.unlink()
    assert leaks(site, logs, crash.stderr, json.dumps(dict(crash.data))) == []


@pytest.mark.long
def test_a_secret_that_changed_is_a_release_and_a_rollback_has_the_old_value(
    make_site: MakeSite,
) -> None:
    site = service_with_secrets(make_site)
    site.good("deploy", TEST_SOURCE_TOKEN=FROM_ENV)
    assert site.good("deploy", TEST_SOURCE_TOKEN=FROM_ENV).data["outcome"] == "unchanged"
    result = site.good("deploy", TEST_SOURCE_TOKEN=NEW_VALUE)
    assert result.data["serving_release"] == "r2"
    assert environment(site.pids("r2")["r2-1"])["TOKEN_OF_ENV"] == NEW_VALUE
    # No source is asked for a rollback.
    assert site.good("rollback").data["serving_release"] == "r1"
    assert environment(site.pids("r1")["r1-1"])["TOKEN_OF_ENV"] == FROM_ENV
    assert leaks(site) == []


def test_a_secret_without_a_value_is_refused_with_nothing_touched(make_site: MakeSite) -> None:
    site = service_with_secrets(make_site)
    (site.home / "token").unlink()
    result = site.run("deploy")
    assert result.exit_code == 4
    assert "TOKEN_OF_ENV (variable TEST_SOURCE_TOKEN)" in result.stderr
    assert "TOKEN_OF_FILE" in result.stderr
    assert site.processes() == {}
