"""State in a folder: what cannot be read is told, and what is not there is empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl.errors import TargetUnreachable
from opsctl.inbox import Inbox
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


def test_a_folder_that_is_not_there_has_no_entries(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "nowhere")
    assert (storage.exists(), storage.names("journal"), storage.read("x")) == (False, [], None)
