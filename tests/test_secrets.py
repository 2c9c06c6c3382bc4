"""Where secrets come from, and that they stay where they belong."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from opsctl.config.settings import SecretSource
from opsctl.errors import PreflightRefused
from opsctl.secrets import SecretStore, resolve_secrets
from opsctl.storage_folder import FolderStorage

VALUE = "correct horse battery staple"


def test_values_come_from_variable_file_and_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE", "from variable\n")
    (tmp_path / "key.txt").write_text("from file\n\n")
    command = (sys.executable, "-c", "import os; print('from', os.path.basename(os.getcwd()))")
    found = resolve_secrets(
        {
            "A": SecretSource(env="SOURCE"),
            "B": SecretSource(file="key.txt"),
            "C": SecretSource(command=command),
        },
        tmp_path,
    )
    # A variable is taken as it is; files and commands end their text with one newline.
    assert found == {"A": "from variable\n", "B": "from file\n", "C": f"from {tmp_path.name}"}


def test_every_missing_secret_is_named_with_its_source_and_no_value_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    monkeypatch.setenv("FINE", VALUE)
    (tmp_path / "bytes").write_bytes(VALUE.encode() + b"\xff")
    print_and_fail = f"print({VALUE!r}); raise SystemExit(3)"
    with pytest.raises(PreflightRefused) as caught:
        resolve_secrets(
            {
                "A": SecretSource(env="NOT_THERE"),
                "B": SecretSource(file="gone.txt"),
                "C": SecretSource(command=(sys.executable, "-c", print_and_fail)),
                "D": SecretSource(env="FINE"),
                "E": SecretSource(file="bytes"),
                "F": SecretSource(),
            },
            tmp_path,
        )
    error = caught.value
    assert error.exit_code == 4
    assert error.what == "no value for 5 of 6 secrets"
    assert error.why == (
        "A (variable NOT_THERE): not set;"
        " B (file gone.txt): No such file or directory;"
        f" C (command {sys.executable}): exit code 3, its output is not shown;"
        " E (file bytes): is not UTF-8 text;"
        " F (no source): needs one of env, file, command"
    )
    assert VALUE not in repr(error) + str(error) + repr(error.__cause__)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"a\0b", "holds a NUL byte, which no environment variable can"),
        (b"x" * 65_536, "is longer than 65535 bytes"),
    ],
)
def test_a_value_that_no_variable_can_hold_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "value").write_bytes(content)
    with pytest.raises(PreflightRefused) as caught:
        resolve_secrets({"A": SecretSource(file="value")}, tmp_path)
    assert caught.value.why == f"A (file value): {reason}"


def test_a_variable_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE", os.fsdecode(b"caf\xe9"))
    with pytest.raises(PreflightRefused, match="is not UTF-8 text"):
        resolve_secrets({"A": SecretSource(env="SOURCE")}, tmp_path)


def test_kept_values_are_for_their_owner_only(tmp_path: Path) -> None:
    store = SecretStore(FolderStorage(tmp_path / "service"))
    store.save("r12", {"A": VALUE, "B": "ünïcode\n"})
    assert store.load("r12") == {"A": VALUE, "B": "ünïcode\n"}
    folder = tmp_path / "service" / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "r12.json").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["r12.json"]


def test_a_folder_that_was_opened_up_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir(mode=0o755)
    SecretStore(FolderStorage(tmp_path)).save("r1", {"A": VALUE})
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def test_what_a_killed_save_left_does_not_stop_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / ".r1.json").write_text("half")
    store = SecretStore(FolderStorage(tmp_path))
    store.save("r1", {"A": VALUE})
    assert store.load("r1") == {"A": VALUE}


def test_a_release_without_secrets_has_none(tmp_path: Path) -> None:
    assert SecretStore(FolderStorage(tmp_path)).load("r1") == {}


@pytest.mark.parametrize(
    "text", ['{"A": "' + VALUE, f'["{VALUE}"]', '{"A": ["' + VALUE + '"]}', "null", ""]
)
def test_a_damaged_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "r1.json").write_text(text)
    with pytest.raises(PreflightRefused) as caught:
        SecretStore(FolderStorage(tmp_path)).load("r1")
    assert caught.value.why == f"{tmp_path}/secrets/r1.json: it is damaged"
    assert caught.value.__cause__ is None


def test_a_rotated_secret_is_noticed(tmp_path: Path) -> None:
    store = SecretStore(FolderStorage(tmp_path))
    store.save("r1", {"A": "old value", "B": "same", "C": "dropped"})
    assert store.changed("r1", {"A": "new value", "B": "same", "D": "added"}) == ("A", "C", "D")
    assert store.changed("r1", {"A": "old value", "B": "same", "C": "dropped"}) == ()


def test_removed_values_are_gone(tmp_path: Path) -> None:
    store = SecretStore(FolderStorage(tmp_path))
    store.save("r1", {"A": VALUE})
    store.remove("r1")
    store.remove("r1")
    assert list((tmp_path / "secrets").iterdir()) == []


def test_everything_that_releases_have_is_known_for_hiding(tmp_path: Path) -> None:
    store = SecretStore(FolderStorage(tmp_path))
    store.save("r1", {"TOKEN": "old-value"})
    store.save("r2", {"TOKEN": "new-value", "KEY": "k"})
    (tmp_path / "secrets" / "r3.json").write_text("{damaged")
    (tmp_path / "secrets" / "r4.json").write_text("[1]")
    assert store.everything() == {
        "r1 TOKEN": "old-value",
        "r2 TOKEN": "new-value",
        "r2 KEY": "k",
    }
    assert SecretStore(FolderStorage(tmp_path / "nowhere")).everything() == {}


def test_one_entry_that_can_not_be_read_hides_no_other(tmp_path: Path) -> None:
    store = SecretStore(FolderStorage(tmp_path))
    store.save("r1", {"TOKEN": "first-value"})
    store.save("r3", {"TOKEN": "third-value"})
    (tmp_path / "secrets" / "r2.json").symlink_to("r2.json")  # a loop: ELOOP for whoever reads it
    assert store.everything() == {"r1 TOKEN": "first-value", "r3 TOKEN": "third-value"}
