"""Where an image comes from, and builds that are told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from opsctl.errors import Interrupted
from opsctl.images.provenance import make_provenance, source_commit
from opsctl.images.recipe import read_recipe
from opsctl.images.stopping import stop_on_signals
from tests.images.projects import CPU, OPERATORS, make_project


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def sha256sum(folder: Path, name: str) -> str:
    done = subprocess.run(["sha256sum", folder / name], capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def test_the_statement_names_source_builder_parameters_and_materials(tmp_path: Path) -> None:
    project = make_project(tmp_path, {**CPU, **OPERATORS})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    made = make_provenance(read_recipe(project), tmp_path, "k" * 64, "buildx/remote")
    definition = made["buildDefinition"]
    assert definition["externalParameters"]["combination"] == {
        "system": "debian-12", "python": "3.11", "tensorflow": "2.21.0",
        "architecture": "x86_64", "adapter": False, "operators": True,
    }  # fmt: skip
    assert definition["internalParameters"] == {"content": "k" * 64, "uncommitted_changes": False}
    assert definition["resolvedDependencies"] == [
        {"uri": CPU["base"], "digest": {"sha256": "ab" * 32}},
        {
            "uri": "file:requirements.txt",
            "digest": {"sha256": sha256sum(tmp_path, "requirements.txt")},
        },
        {"uri": "file:tools.txt", "digest": {"sha256": sha256sum(tmp_path, "tools.txt")}},
        {"uri": "git+file:.", "digest": {"gitCommit": commit}},
    ]
    assert made["runDetails"]["builder"]["version"] == {"builder": "buildx/remote"}


def test_changes_that_nobody_committed_are_told(tmp_path: Path) -> None:
    make_project(tmp_path, CPU)
    assert source_commit(tmp_path) == ("", False)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    (tmp_path / "app" / "main.py").write_text("changed")
    commit, dirty = source_commit(tmp_path)
    assert (len(commit), dirty) == (40, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_told_to_stop_stops_where_it_looks(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as interrupt:
        interrupt()
        os.kill(os.getpid(), number)
        with pytest.raises(Interrupted) as caught:
            interrupt()
    assert caught.value.signal_exit_code == 128 + number
    assert caught.value.next_step == "Run: opsctl build; finished steps are not done again"
    assert signal.getsignal(number) is before
