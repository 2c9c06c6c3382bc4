"""Releases that are images: numbered once, written whole, read back or told as damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl.errors import ConfigError, OpsctlError
from opsctl.image_releases import ImageReleases
from opsctl.release import Launch, Release
from opsctl.secrets import SecretStore
from opsctl.storage_folder import FolderStorage


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path)


@pytest.fixture
def releases(storage: FolderStorage) -> ImageReleases:
    return ImageReleases(storage)


def release(name: str, image: str = "one", threads: str = "1") -> Release:
    return Release(
        name=name,
        digest=f"of {image} with {threads}",
        created=1.0,
        app_digest=f"sha256:{image}",
        model=None,
        config_digest=threads,
        launch=Launch(("serve",), "python3", "", env={"THREADS": threads}, image=f"app@{image}"),
    )


def test_a_release_is_read_back_as_it_was_written(releases: ImageReleases) -> None:
    releases.write(release("r10"))
    releases.write(release("r9", "two"))
    assert releases.list() == (release("r9", "two"), release("r10"))
    assert releases.get("r10") == release("r10")
    assert releases.altered("r10") == {}


def test_a_number_is_never_used_twice(releases: ImageReleases) -> None:
    assert releases.next_name() == "r1"
    releases.reserve("r1")
    releases.reserve("r4")
    releases.reserve("r2")
    assert releases.next_name() == "r5"
    releases.write(release("r7"))
    releases.remove("r7")
    assert releases.next_name() == "r5"  # r7 was never reserved
    releases.reserve("r7")
    assert releases.next_name() == "r8"


def test_what_is_not_whole_is_no_release(releases: ImageReleases, storage: FolderStorage) -> None:
    storage.write("releases/r1/notes", b"begun")
    storage.write("releases/other/release.json", b"{}")
    assert releases.list() == ()
    with pytest.raises(ConfigError, match="there is no release r1") as caught:
        releases.get("r1")
    assert caught.value.why == "releases here: none"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_damaged_release_is_told(
    releases: ImageReleases, storage: FolderStorage, text: bytes
) -> None:
    storage.write("releases/r1/release.json", text)
    with pytest.raises(OpsctlError, match="release r1 is damaged"):
        releases.get("r1")


def test_a_release_goes_with_its_secrets(releases: ImageReleases, storage: FolderStorage) -> None:
    releases.write(release("r1"))
    SecretStore(storage).save("r1", {"TOKEN": "a-secret-value"})
    releases.remove("r1")
    assert releases.list() == ()
    assert SecretStore(storage).everything() == {}


def test_image_and_settings_that_changed_are_told_apart(releases: ImageReleases) -> None:
    releases.write(release("r1"))
    releases.write(release("r2", "two"))
    releases.write(release("r3", "two", threads="2"))
    image = releases.difference("r1", "r2")
    assert image["app"] == {"added": [], "removed": [], "changed": ["app@two"]}
    assert image["digest"] == {"from": "of one with 1", "to": "of two with 1"}
    settings = releases.difference("r2", "r3")
    assert settings["app"] == {"added": [], "removed": [], "changed": []}
    assert settings["config"] == {"env": {"from": {"THREADS": "1"}, "to": {"THREADS": "2"}}}
    assert releases.difference(None, "r1")["app"]["added"] == ["app@one"]
