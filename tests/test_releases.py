"""Releases: nothing half-built is seen, nothing changes afterwards, numbers are used once."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from opsctl.config.settings import Project, Retention, SecretSource
from opsctl.errors import Aborted, BuildFailed, ConfigError, OpsctlError, PreflightRefused
from opsctl.release import Release
from opsctl.releases import LocalReleaseStore
from opsctl.secrets import SecretStore
from opsctl.storage_folder import FolderStorage
from tests.release_projects import (
    build,
    digest_of,
    silent,
    store_of,
    with_app,
    write_project,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_project(tmp_path)


def test_a_release_holds_copies_of_application_and_model(project: Project) -> None:
    release = build(project)
    app, model = Path(release.launch.directory), Path(release.launch.model_path)
    assert app == project.service_dir / "releases" / "r1" / "app"
    assert (app / "main.py").read_text() == "print('one')\n"
    assert (app / "lib" / "run.sh").read_text() == "#!/bin/sh\n"
    assert (model / "saved_model.pb").read_bytes() == b"graph"
    assert (model / "variables" / "data").read_bytes() == b"weights"
    assert release.model is not None
    assert release.model.source == str(project.root / "models" / "v1")
    assert release.created_by == "tester"
    assert release.launch.env == {"MODE": "fast"}
    assert release.launch.python == sys.executable


def test_copied_files_are_read_only_and_keep_their_executable_bit(project: Project) -> None:
    app = Path(build(project).launch.directory)
    assert stat.S_IMODE((app / "main.py").stat().st_mode) == 0o444
    assert stat.S_IMODE((app / "lib" / "run.sh").stat().st_mode) == 0o555


def test_release_json_gives_the_release_back(project: Project) -> None:
    release = build(project)
    assert store_of(project).get("r1") == release
    assert store_of(project).list() == (release,)


def test_the_model_digest_does_not_depend_on_where_the_model_lies(project: Project) -> None:
    first = build(project)
    shutil.copytree(project.root / "models" / "v1", project.root / "models" / "v2")
    (project.root / "models" / "production").unlink()
    (project.root / "models" / "production").symlink_to("v2")
    second = build(project)
    assert first.model is not None and second.model is not None
    assert second.model.digest == first.model.digest
    assert second.digest == first.digest
    assert len(list((project.service_dir / "models").iterdir())) == 1


def test_the_same_content_has_the_same_digest_without_copying(project: Project) -> None:
    release = build(project)
    (project.root / "app" / "main.py").touch()
    assert digest_of(project) == release.digest
    folders = [path for path in (project.service_dir / "releases").iterdir() if path.is_dir()]
    assert [folder.name for folder in folders] == ["r1"]


def test_no_space_is_refused_with_the_figures(project: Project) -> None:
    free_mb = shutil.disk_usage(project.root).free >> 20
    greedy = replace(
        project, service=replace(project.service, retention=Retention(min_free_mb=free_mb * 2))
    )
    with pytest.raises(PreflightRefused, match=rf"must leave {free_mb * 2} MB") as caught:
        build(greedy)
    assert caught.value.next_step.startswith("Run: opsctl releases prune")
    assert store_of(project).list() == ()


def test_the_build_command_runs_in_the_copy(project: Project) -> None:
    project = with_app(
        project, build=("{python}", "-c", "open('made.txt', 'w').write('{release}')")
    )
    release = build(project)
    app = Path(release.launch.directory)
    assert (app / "made.txt").read_text() == "r1"
    assert stat.S_IMODE((app / "made.txt").stat().st_mode) == 0o444
    assert not (project.root / "app" / "made.txt").exists()
    assert release.built_digest != release.app_digest


def test_the_build_does_not_see_secrets(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD_SOURCE", "swordfish")
    monkeypatch.setenv("HARMLESS", "yes")
    project = with_app(
        project,
        secrets={"DB_PASSWORD": SecretSource(env="DB_PASSWORD_SOURCE")},
        build=("sh", "-c", "env > env.txt"),
    )
    seen = (Path(build(project).launch.directory) / "env.txt").read_text().splitlines()
    assert "HARMLESS=yes" in seen
    assert "MODE=fast" in seen
    assert [line for line in seen if "swordfish" in line] == []


def test_a_failed_build_says_why_and_leaves_only_its_log(project: Project) -> None:
    project = with_app(project, build=("sh", "-c", "echo compiling; echo no header >&2; exit 7"))
    with pytest.raises(BuildFailed) as caught:
        build(project)
    assert caught.value.exit_code == 5
    assert caught.value.why == "exit code 7\n  compiling\n  no header"
    log = project.service_dir / "logs" / "r1-build.log"
    assert str(log) in caught.value.next_step
    assert log.read_text().endswith("compiling\nno header\n")
    assert not (project.service_dir / "releases" / "r1").exists()


def test_a_build_over_its_time_limit_fails(project: Project) -> None:
    project = with_app(project, build=("sleep", "20"), build_timeout_s=0.2)
    began = time.monotonic()
    with pytest.raises(BuildFailed, match=r"it ran longer than 0.2 s \(app.build_timeout_s\)"):
        build(project)
    assert time.monotonic() - began < 18


def test_a_stopped_copy_leaves_no_release(project: Project) -> None:
    (project.root / "app" / "big").write_bytes(b"x" * (3 << 20))
    asked = 0

    def stop_late() -> None:
        nonlocal asked
        asked += 1
        if asked > 12:
            raise Aborted("enough")

    with pytest.raises(Aborted):
        store_of(project).build(project, "r1", actor="", tell=silent, interrupt=stop_late)
    assert store_of(project).list() == ()
    assert not (project.service_dir / "releases" / "r1").exists()


KILLED_BUILD = """
import os, sys
from pathlib import Path
import opsctl.config.settings as s
from tests.release_projects import build, project_of
root = Path(sys.argv[1])
service = s.Service(
    app=s.App(directory="app", command=("x",), build=("sh", "-c", "kill -9 $PPID; sleep 0.2")),
    retention=s.Retention(min_free_mb=0),
)
build(project_of(root, service))
"""


def test_a_killed_build_is_not_seen_and_the_next_one_removes_it(project: Project) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BUILD, str(project.root)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    left = project.service_dir / "releases" / "r1"
    assert (left / "app" / "main.py").exists()
    (left / "app" / "half").touch()
    assert store_of(project).list() == ()
    with pytest.raises(ConfigError, match="there is no release r1"):
        store_of(project).get("r1")
    # The number was taken by the killed build.
    assert store_of(project).next_name() == "r2"
    release = build(project, "r1")
    assert not (Path(release.launch.directory) / "half").exists()


def test_a_complete_release_is_given_as_it_is(project: Project) -> None:
    release = build(project, "r1")
    (project.root / "app" / "main.py").write_text("print('two')\n")
    assert build(project, "r1") == release


def change_on(calls: int, path: Path) -> Callable[[], None]:
    """An `interrupt` that writes to `path` when it is asked for the n-th time."""
    asked = 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked == calls:
            path.write_bytes(b"changed meanwhile")

    return interrupt


@pytest.mark.parametrize("calls", range(5, 9))
def test_a_source_that_changes_while_it_is_copied_is_a_hard_failure(
    project: Project, calls: int
) -> None:
    # Hashing asks 4 times (2 files of the application, 2 of the model), copying 4 times again.
    path = project.root / ("models/v1/saved_model.pb" if calls > 6 else "app/main.py")
    with pytest.raises(BuildFailed, match="changed while"):
        store_of(project).build(
            project, "r1", actor="", tell=silent, interrupt=change_on(calls, path)
        )
    assert store_of(project).list() == ()
    assert not (project.service_dir / "releases" / "r1").exists()


def test_numbers_are_never_used_twice(project: Project) -> None:
    store = store_of(project)
    assert store.next_name() == "r1"
    assert store.next_name() == "r1"
    build(project)
    store.reserve("r2")
    assert store.next_name() == "r3"
    build(project)
    store.remove("r3")
    store.remove("r1")
    assert store.list() == ()
    assert store.next_name() == "r4"
    store.reserve("r2")
    assert store.next_name() == "r4"


def test_releases_are_listed_by_number(project: Project) -> None:
    for name in ("r10", "r9", "r2"):
        build(project, name)
    assert [release.name for release in store_of(project).list()] == ["r2", "r9", "r10"]


def test_removing_a_release_keeps_models_that_others_need(project: Project) -> None:
    first = build(project)
    (project.root / "app" / "main.py").write_text("print('two')\n")
    second = build(project)
    SecretStore(FolderStorage(project.service_dir)).save(first.name, {"A": "value"})
    store_of(project).remove(first.name)
    assert Path(second.launch.model_path).exists()
    assert SecretStore(FolderStorage(project.service_dir)).load(first.name) == {}
    store_of(project).remove(second.name)
    assert list((project.service_dir / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["", "r", "r0", "12", "../r1", "r1/../r2", "R1", "r1\n"])
def test_names_that_are_no_releases_are_refused(project: Project, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a release"):
        store_of(project).get(name)


def test_an_unknown_release_is_answered_with_those_there_are(project: Project) -> None:
    build(project)
    with pytest.raises(ConfigError, match="there is no release r7: releases here: r1"):
        store_of(project).get("r7")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', "null"])
def test_a_damaged_release_is_told_and_never_guessed(project: Project, content: str) -> None:
    release = build(project)
    path = Path(release.launch.directory).parent / "release.json"
    path.write_text(content)
    with pytest.raises(OpsctlError, match="release r1 is damaged") as caught:
        store_of(project).get("r1")
    assert caught.value.exit_code == 1


def test_an_edited_release_is_noticed(project: Project) -> None:
    app = Path(build(project).launch.directory)
    assert store_of(project).altered("r1") == {}
    (app / "main.py").chmod(0o644)
    (app / "main.py").write_text("print('edited')\n")
    (app / "extra.py").touch()
    (app / "__pycache__").mkdir()
    (app / "__pycache__" / "main.pyc").touch()
    assert store_of(project).altered("r1") == {"added": ["extra.py"], "changed": ["main.py"]}


def test_the_difference_names_files_model_and_settings(project: Project) -> None:
    build(project)
    (project.root / "app" / "main.py").write_text("print('two')\n")
    (project.root / "app" / "new.py").touch()
    (project.root / "app" / "lib" / "run.sh").unlink()
    (project.root / "models" / "v1" / "saved_model.pb").write_bytes(b"GRAPH")
    build(with_app(project, env={"MODE": "slow"}))
    found = store_of(project).difference("r1", "r2")
    assert found["app"] == {
        "added": ["new.py"],
        "removed": ["lib/run.sh"],
        "changed": ["main.py"],
    }
    assert found["model"]["from"]["digest"] != found["model"]["to"]["digest"]
    assert found["config"] == {"env": {"from": {"MODE": "fast"}, "to": {"MODE": "slow"}}}


def test_everything_is_new_in_a_first_release(project: Project) -> None:
    build(project)
    found = store_of(project).difference(None, "r1")
    assert found["app"]["added"] == ["lib/", "lib/run.sh", "main.py"]
    assert found["model"]["from"] is None
    assert found["config"]["command"] == {"from": None, "to": ["{python}", "main.py"]}


def test_a_release_of_a_newer_opsctl_is_refused(project: Project) -> None:
    data = build(project).to_dict()
    with pytest.raises(ConfigError, match="release r1 was written by a newer opsctl"):
        Release.from_dict({**data, "format": 2})


def test_a_removed_release_leaves_no_logs_and_its_neighbours_keep_theirs(tmp_path: Path) -> None:
    store = LocalReleaseStore(tmp_path)
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("r1-1.log", "r1-1.log.1", "r1-build.log", "r12-1.log"):
        (logs / name).write_text("x")
    store.remove("r1")
    assert [path.name for path in logs.iterdir()] == ["r12-1.log"]
