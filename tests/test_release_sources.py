"""What a release is made of: which content counts, and what is refused."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsctl.config.settings import (
    App,
    Model,
    Notification,
    Project,
    Resources,
    Retention,
    SecretSource,
    Service,
    Tls,
)
from opsctl.errors import OpsctlError, PreflightRefused
from tests.ordinary import open_folder, ordinary_user
from tests.release_projects import build, digest_of, project_of, with_app, write_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_project(tmp_path)


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


def test_files_of_secrets_are_left_out_and_copies_are_for_their_owner(project: Project) -> None:
    app = project.root / "app"
    for name in ("password", "hook.key", "tls.key", "tls.crt", "far.key"):
        (app / name).write_text(name)
    service = replace(
        project.service,
        app=replace(project.service.app, secrets={"P": SecretSource(file="app/password")}),
        notifications=(
            Notification("https://chat.example", secret=SecretSource(file="app/hook.key")),
            Notification("https://other.example", secret=SecretSource(env="HOOK_KEY")),
        ),
        local=replace(project.service.local, tls=Tls("app/tls.crt", "app/tls.key")),
        docker=replace(project.service.docker, tls=Tls("app/tls.crt", "app/far.key")),
    )
    copy = Path(build(replace(project, service=service)).launch.directory)
    assert sorted(path.name for path in copy.iterdir()) == ["lib", "main.py", "tls.crt"]
    for folder in ("releases", "models"):
        assert stat.S_IMODE((project.service_dir / folder).stat().st_mode) == 0o700


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


def test_an_unreadable_file_is_refused_by_name() -> None:
    with open_folder() as root:
        project = write_project(root)
        (root / "app" / "main.py").chmod(0)
        with (
            ordinary_user(),
            pytest.raises(PreflightRefused, match=r"app/main.py can't be part of a release"),
        ):
            digest_of(project)


def test_an_unreadable_folder_is_refused_by_name() -> None:
    with open_folder() as root:
        project = write_project(root)
        (root / "app" / "lib").chmod(0)
        with (
            ordinary_user(),
            pytest.raises(PreflightRefused, match=r"app/lib can't be part of a release"),
        ):
            digest_of(project)


def test_an_unreadable_model_is_refused() -> None:
    with open_folder() as root:
        project = write_project(root)
        (root / "models" / "v1").chmod(0)
        with ordinary_user(), pytest.raises(PreflightRefused, match=r"models/v1 can't be read"):
            digest_of(project)


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
    project = project_of(root, service)
    app = Path(build(project).launch.directory)
    copied = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in app.iterdir()}
    assert copied == {name: hashlib.sha256(content).digest() for name, content in files.items()}
