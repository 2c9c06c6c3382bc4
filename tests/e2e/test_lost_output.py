"""Whoever reads along may go away: the rollout goes on, and its exit code stays the truth."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from tests.apps.project import Candidate
from tests.e2e.site import Site

FAILS_AT_START = Candidate("exits_at_start", fault={"exit_at_start": 3})
DISK_FULL = "> /dev/full"


def in_shell(site: Site, redirection: str, *arguments: str) -> int:
    """Run opsctl with its streams led elsewhere by a shell; its own exit code."""
    code = site.home / "code"
    opsctl = shlex.join([sys.executable, "-m", "opsctl.cli", *arguments])
    subprocess.run(
        ["/bin/sh", "-c", f"( {opsctl} {redirection}; echo $? > {code} ) | head -1"],
        cwd=site.project.root, env=site.opsctl.env(), timeout=120, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return int(code.read_text())


@pytest.mark.parametrize(
    "redirection", ["2>&1", "2>&-", "2>/dev/full", ">/dev/null 2>&- <&-"], ids=str
)
def test_a_deploy_whose_progress_nobody_reads_goes_on(site: Site, redirection: str) -> None:
    site.change(Candidate("code"))
    assert in_shell(site, redirection, "deploy") == 0
    assert (site.serving, site.status()["rollout"]) == ("r2", None)


@pytest.mark.long
def test_a_refused_candidate_keeps_its_exit_code_when_the_reader_of_events_is_gone(
    site: Site,
) -> None:
    site.change(FAILS_AT_START)
    assert in_shell(site, "", "deploy", "-o", "ndjson") == 10
    assert (site.serving, site.status()["rollout"]) == ("r1", None)


@pytest.mark.long
@pytest.mark.parametrize("output", ["text", "json", "ndjson"])
def test_a_result_that_cannot_be_written_is_an_error_but_what_was_done_stays(
    site: Site, output: str
) -> None:
    site.change(Candidate("code"))
    assert in_shell(site, DISK_FULL, "deploy", "-o", output) == 1
    assert (site.serving, site.status()["rollout"]) == ("r2", None)


def test_the_reader_of_a_log_may_have_enough(site: Site) -> None:
    assert in_shell(site, "", "logs", "r1") == 0


@pytest.mark.long
def test_every_last_object_has_the_three_words(site: Site) -> None:
    commands = (
        "status", "history", "plan", "wait", "logs", "health", "abort", "pause", "resume",
        "deploy --dry-run", "down --dry-run", "rollback r99", "releases list", "releases prune",
        "lock status", "audit", "config validate", "statu", "status --bogus",
    )  # fmt: skip
    lacking = []
    for command in commands:
        done = site.raw(*command.split(), "-o", "json")
        data = json.loads(done.stdout)
        words = (data.get("exit_code"), data.get("serving_release"), "outcome" in data)
        if words[0] != done.exit_code or words[2] is not True or "serving_release" not in data:
            lacking.append((command, words))
    assert lacking == []
