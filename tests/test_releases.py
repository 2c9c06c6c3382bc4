"""Releases: what is in them decides, nothing half-built is seen, nothing changes afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsctl.config.settings import (
    App,
    Config,
    Model,
    Project,
    Resources,
    Retention,
    SecretSource,
    Service,
)
from opsctl.errors import Aborted, BuildFailed, ConfigError, OpsctlError, PreflightRefused
from opsctl.release import Release
from opsctl.releases import ReleaseStore
from opsctl.secrets import SecretStore

AS_ROOT = os.geteuid() == 0


def never() -> None:
    """Nobody interrupts."""


def silent(line: str) -> None:
    """Nobody listens."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    app = tmp_path / "app"
    (app / "lib").mkdir(parents=True)
    (app / "main.py").write_text("print('one')\n")
    (app / "lib" / "run.sh").write_text("#!/bin/sh\n")
    (app / "lib" / "run.sh").chmod(0o750)
    (tmp_path / "models" / "v1" / "variables").mkdir(parents=True)
    (tmp_path / "models" / "v1" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "models" / "v1" / "variables" / "data").write_bytes(b"weights")
    (tmp_path / "models" / "production").symlink_to("v1")
    service = Service(
        app=App(directory="app", command=("{python}", "main.py"), env={"MODE": "fast"}),
        model=Model(path="models/production", name="detector"),
        retention=Retention(min_free_mb=0),
    )
    return Project(
        path=tmp_path / "opsctl.yaml",
        config=Config(services={"s": service}),
        environment="production",
        service_name="s",
        service=service,
        target="local",
    )


def with_app(project: Project, **changes: Any) -> Project:
    service = replace(project.service, app=replace(project.service.app, **changes))
    return replace(project, service=service)


def store_of(project: Project) -> ReleaseStore:
    return ReleaseStore(project.service_dir)


def build(project: Project, name: str | None = None) -> Release:
    store = store_of(project)
    return store.build(
        project, name or store.next_name(), actor="tester", tell=silent, interrupt=never
    )


def digest_of(project: Project) -> str:
    return store_of(project).content_digest(project)


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


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "app" / "main.py").write_text("print('two')\n"),
        lambda root: (root / "app" / "main.py").chmod(0o755),
        lambda root: (root / "app" / "main.py").rename(root / "app" / "other.py"),
        lambda root: (root / "app" / "empty").mkdir(),
        lambda root: (root / "models" / "v1" / "saved_model.pb").write_bytes(b"GRAPH"),
        lambda root: (root / "models" / "v1" / "variables" / "more").touch(),
    ],
    ids=["bytes", "executable bit", "name", "empty folder", "model bytes", "model file"],
)
def test_each_change_of_content_changes_the_digest(
    project: Project, change: Callable[[Path], object]
) -> None:
    before = digest_of(project)
    change(project.root)
    assert digest_of(project) != before


def test_each_launch_setting_changes_the_digest(project: Project) -> None:
    service = project.service
    variants = [
        project,
        with_app(project, command=("{python}", "main.py", "-v")),
        with_app(project, env={"MODE": "slow"}),
        with_app(project, stop_timeout_s=5.0),
        with_app(project, build=("true",)),
        replace(project, service=replace(service, resources=Resources(memory_mb=64))),
        replace(project, service=replace(service, model=Model(path="models/v1", name="other"))),
    ]
    assert len({digest_of(variant) for variant in variants}) == len(variants)


def test_scale_and_strategy_do_not_make_another_release(project: Project) -> None:
    scaled = replace(project, service=replace(project.service, replicas=5))
    assert digest_of(scaled) == digest_of(project)


def test_excluded_names_and_the_state_folder_are_left_out(project: Project) -> None:
    before = digest_of(with_app(project, directory="."))
    app = project.root / "app"
    (app / "__pycache__").mkdir()
    (app / "__pycache__" / "main.pyc").touch()
    (app / "old.pyc").touch()
    service = project.service
    project = replace(
        project,
        service=replace(service, local=replace(service.local, state_dir="state")),
    )
    whole = with_app(project, directory=".")
    assert digest_of(whole) == before
    release = build(whole)
    assert not (Path(release.launch.directory) / "state").exists()
    assert digest_of(whole) == before


def test_links_inside_the_folder_become_files(project: Project) -> None:
    (project.root / "app" / "alias.py").symlink_to("main.py")
    (project.root / "app" / "lib2").symlink_to("lib")
    app = Path(build(project).launch.directory)
    assert not (app / "alias.py").is_symlink()
    assert (app / "alias.py").read_text() == "print('one')\n"
    assert (app / "lib2" / "run.sh").read_text() == "#!/bin/sh\n"


def test_the_model_of_one_file_keeps_its_suffix(project: Project) -> None:
    (project.root / "model.keras").write_bytes(b"net")
    project = replace(project, service=replace(project.service, model=Model(path="model.keras")))
    release = build(project)
    path = Path(release.launch.model_path)
    assert path.name == "model.keras"
    assert path.read_bytes() == b"net"


def test_blobs_of_a_model_may_lie_elsewhere(project: Project) -> None:
    (project.root / "blob").write_bytes(b"big")
    (project.root / "models" / "v1" / "weights").symlink_to(project.root / "blob")
    assert (Path(build(project).launch.model_path) / "weights").read_bytes() == b"big"


def _link_out(project: Project) -> Project:
    (project.root / "app" / "passwd").symlink_to("/etc/passwd")
    return project


def _broken_link(project: Project) -> Project:
    (project.root / "app" / "gone").symlink_to("nowhere")
    return project


def _cycle(project: Project) -> Project:
    (project.root / "app" / "lib" / "up").symlink_to("..")
    return project


def _self_link(project: Project) -> Project:
    (project.root / "app" / "me").symlink_to("me")
    return project


def _pipe(project: Project) -> Project:
    os.mkfifo(project.root / "app" / "pipe")
    return project


def _bad_name(project: Project) -> Project:
    (project.root / "app" / os.fsdecode(b"caf\xe9")).touch()
    return project


def _model_gone(project: Project) -> Project:
    shutil.rmtree(project.root / "models" / "v1")
    return project


def _model_empty(project: Project) -> Project:
    (project.root / "void").mkdir()
    return replace(project, service=replace(project.service, model=Model(path="void")))


def _python_gone(project: Project) -> Project:
    return with_app(project, python="venv/bin/python")


def _app_empty(project: Project) -> Project:
    return with_app(project, exclude=("*",))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_link_out, "the link leads out of"),
        (_broken_link, "the link leads nowhere"),
        (_self_link, "the link leads nowhere"),
        (_cycle, r"a link inside leads back to it \(lib/up\)"),
        (_pipe, "it is no file, folder or link"),
        (_bad_name, "its name is not UTF-8"),
        (_model_gone, r"the model .*production is missing: a link in its path leads nowhere"),
        (_model_empty, "the model .*void is empty"),
        (_python_gone, "the Python venv/bin/python is missing"),
        (_app_empty, "folder .*app is empty: nothing in it is left after app.exclude"),
        (lambda p: with_app(p, directory="nope"), "nope is missing: there is no such folder"),
        (lambda p: with_app(p, directory="opsctl.yaml"), "missing: there is no such folder"),
    ],
)
def test_what_cannot_be_part_of_a_release_is_refused_before_anything_is_written(
    project: Project, spoil: Callable[[Project], Project], message: str
) -> None:
    project = spoil(project)
    with pytest.raises(PreflightRefused, match=message) as caught:
        build(project)
    assert caught.value.next_step != ""
    assert not project.service_dir.exists()


@pytest.mark.skipif(AS_ROOT, reason="root reads every file")
def test_an_unreadable_file_is_refused_by_name(project: Project) -> None:
    (project.root / "app" / "main.py").chmod(0)
    with pytest.raises(PreflightRefused, match=r"app/main.py can't be part of a release"):
        build(project)


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
    assert time.monotonic() - began < 10


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
from tests.test_releases import *
import opsctl.config.settings as s
root = Path(sys.argv[1])
service = s.Service(
    app=s.App(directory="app", command=("x",), build=("sh", "-c", "kill -9 $PPID; sleep 0.2")),
    retention=s.Retention(min_free_mb=0),
)
project = s.Project(root / "opsctl.yaml", s.Config(services={"s": service}), "production", "s",
                    service, "local")
build(project)
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
    SecretStore(project.service_dir).save(first.name, {"A": "value"})
    store_of(project).remove(first.name)
    assert Path(second.launch.model_path).exists()
    assert SecretStore(project.service_dir).load(first.name) == {}
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


def test_a_socket_in_the_folder_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root / "app")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(OpsctlError, match="it is no file, folder or link"):
            digest_of(project)


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.text("abcé .-", min_size=1, max_size=6).filter(lambda n: n.strip(".") != ""),
        st.binary(max_size=50),
        min_size=1,
        max_size=5,
    )
)
def test_any_folder_is_copied_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("any")
    (root / "app").mkdir()
    for name, content in files.items():
        (root / "app" / name).write_bytes(content)
    service = Service(
        app=App(directory="app", command=("x",), exclude=()), retention=Retention(min_free_mb=0)
    )
    config = Config(services={"s": service})
    project = Project(root / "opsctl.yaml", config, "production", "s", service, "local")
    app = Path(build(project).launch.directory)
    copied = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in app.iterdir()}
    assert copied == {name: hashlib.sha256(content).digest() for name, content in files.items()}
