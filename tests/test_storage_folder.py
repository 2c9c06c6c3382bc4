"""State in a folder: what cannot be read is told, and what is not there is empty."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from opsctl.errors import TargetUnreachable
from opsctl.inbox import Inbox
from opsctl.releases import LocalReleaseStore
from opsctl.storage import copied
from opsctl.storage_folder import FolderStorage
from tests.ordinary import open_folder, ordinary_user


def test_another_users_state_is_refused_with_the_folder() -> None:
    with open_folder() as base:
        FolderStorage(base).write("inbox/x.json", b"{}")
        (base / "inbox").chmod(0o000)
        with ordinary_user(), pytest.raises(TargetUnreachable, match=f"{base}/inbox") as refused:
            Inbox(FolderStorage(base)).items()
        (base / "inbox").chmod(0o700)
    assert refused.value.exit_code == 30


def test_another_users_lock_and_releases_are_refused_and_not_called_free() -> None:
    with open_folder() as base:
        for name in ("lock", "releases/r1/release.json"):
            FolderStorage(base / "state").write(name, b"{}")
        (base / "state").chmod(0o000)
        looks = (FolderStorage(base / "state").holder, LocalReleaseStore(base / "state").list)
        for look in looks:
            with ordinary_user(), pytest.raises(TargetUnreachable, match="Permission denied"):
                look()
        (base / "state").chmod(0o700)


def test_a_state_folder_that_is_a_file_has_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    storage = FolderStorage(tmp_path / "file" / "state")
    assert (storage.exists(), storage.names("journal"), storage.read("x")) == (False, [], None)
    assert LocalReleaseStore(tmp_path / "file" / "state").next_name() == "r1"


def test_a_folder_that_is_not_there_has_no_entries(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "nowhere")
    assert (storage.exists(), storage.names("journal"), storage.read("x")) == (False, [], None)


def test_contents_are_the_files_of_one_folder_alone(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    storage.write("bundles/000001/opsctl.yaml", b"a: 1\n")
    storage.write("bundles/000001/1-body.bin", bytes(range(256)))
    storage.write("bundles/000001/deeper/x", b"x")
    storage.write("bundles/000002/opsctl.yaml", b"b: 1\n")
    found = storage.contents("bundles/000001")
    assert found == {"opsctl.yaml": b"a: 1\n", "1-body.bin": bytes(range(256))}
    assert storage.contents("nowhere") == {}


def test_copies_go_with_their_owner(tmp_path: Path) -> None:
    class Owner:
        """Somebody who needs them."""

    owner = Owner()
    folder = copied({"a": b"1", "b": b"2"}, owner)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"1", "b": b"2"}
    del owner
    gc.collect()
    assert not folder.exists()
