"""Secret values: where they come from, and the one place where they are kept.

A release keeps the values that it was built with in a file of mode 0600, so that a restart, a
reboot and a rollback still have them. They stand nowhere else: no argv, journal, log or report.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from opsctl.config.settings import SecretSource
from opsctl.errors import PreflightRefused
from opsctl.storage import Storage

COMMAND_TIMEOUT_S = 30.0
"""A password store that needs longer waits for a person, who is not there."""

VALUE_MAX_BYTES = 64 * 1024 - 1
"""More does not fit a command's output that opsctl keeps, and hardly into a variable."""

FOLDER = "secrets"


def resolve_secrets(
    sources: Mapping[str, SecretSource], root: Path, interrupt: Callable[[], None] | None = None
) -> dict[str, str]:
    """The values of `sources` by name; relative files and commands start from `root`.

    One trailing newline of a file or command is not part of the value. Raises `PreflightRefused`
    that names every secret without a value and its source, never a value.
    """
    values: dict[str, str] = {}
    missing: list[str] = []
    for name, source in sorted(sources.items()):
        try:
            values[name] = _checked(resolve_source(source, root, interrupt))
        except _NoValue as reason:
            missing.append(f"{name} ({described(source)}): {reason}")
    if missing:
        raise PreflightRefused(
            f"no value for {len(missing)} of {len(sources)} secrets",
            why="; ".join(missing),
            next_step="Provide them as opsctl.yaml says (app.secrets), then run the same again",
        )
    return values


def resolve_one(name: str, source: SecretSource, root: Path) -> str:
    """The value of one secret. Raises `PreflightRefused` as `resolve_secrets` does."""
    return resolve_secrets({name: source}, root)[name]


def described(source: SecretSource) -> str:
    """The source in words: `variable DB_PASSWORD`, `file tls/key`, `command pass`."""
    if source.env is not None:
        return f"variable {source.env}"
    if source.file is not None:
        return f"file {source.file}"
    return f"command {source.command[0]}" if source.command else "no source"


class _NoValue(Exception):
    """Why a source gives nothing; never holds what it gave."""


def resolve_source(
    source: SecretSource, root: Path, interrupt: Callable[[], None] | None = None
) -> str:
    """The raw value of a source, less one trailing newline."""
    if source.env is not None:
        if source.env not in os.environ:
            raise _NoValue("not set")
        return os.environ[source.env]
    if source.file is not None:
        return _read(root / source.file)
    if source.command:
        return _ask(source.command, root, interrupt)
    raise _NoValue("needs one of env, file, command")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        raise _NoValue(error.strerror or type(error).__name__) from error
    except UnicodeDecodeError:
        # Not chained: the exception shows bytes of the secret.
        raise _NoValue("is not UTF-8 text") from None


def _ask(command: tuple[str, ...], root: Path, interrupt: Callable[[], None] | None) -> str:
    from opsctl.shell import run  # `opsctl status` needs none of it

    done = run(command, timeout_s=COMMAND_TIMEOUT_S, cwd=root, interrupt=interrupt)
    if done.timed_out:
        raise _NoValue(f"took longer than {COMMAND_TIMEOUT_S:g} s")
    if not done.ok:
        # What it printed stays out of the message: it may be half of the secret.
        raise _NoValue(f"exit code {done.exit_code}, its output is not shown")
    return done.stdout.removesuffix("\n")


def _checked(value: str) -> str:
    if not value:
        raise _NoValue("is empty")
    if "\0" in value:
        raise _NoValue("holds a NUL byte, which no environment variable can")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise _NoValue("is not UTF-8 text") from None
    if size > VALUE_MAX_BYTES:
        raise _NoValue(f"is longer than {VALUE_MAX_BYTES} bytes")
    return value


class SecretStore:
    """The values that each release of a service was built with."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def save(self, release: str, values: Mapping[str, str]) -> None:
        """Keep `values` for `release`: the whole entry or nothing, readable by its owner only."""
        self._storage.write(_path(release), json.dumps(dict(values)).encode(), secret=True)

    def load(self, release: str) -> dict[str, str]:
        """The values of `release` by name; empty when it has none.

        Raises `PreflightRefused` when they can't be read.
        """
        try:
            content = self._storage.read(_path(release))
            return _values_of(content.data) if content else {}
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            # Not chained: a decoding error carries the file's content.
            raise PreflightRefused(
                f"the secrets of {release} can't be read",
                why=f"{self._storage.label}/{_path(release)}: {reason}",
                next_step="Repair or delete the file, then deploy again to resolve the secrets",
            ) from None

    def everything(self) -> dict[str, str]:
        """The values of all releases, by release and name; entries that can't be read are left out.

        For hiding them in whatever is shown.
        """
        values: dict[str, str] = {}
        for entry, data in self._entries().items():
            release = entry.removesuffix(".json")
            if release != entry and not entry.startswith("."):
                with contextlib.suppress(ValueError):
                    for name, value in _values_of(data).items():
                        values[f"{release} {name}"] = value
        return values

    def _entries(self) -> dict[str, bytes]:
        """All of them in one question; one by one where one of them can't be read."""
        try:
            return self._storage.contents(FOLDER)
        except OSError:
            found: dict[str, bytes] = {}
            for name in self._storage.names(FOLDER):
                with contextlib.suppress(OSError):
                    content = self._storage.read(f"{FOLDER}/{name}")
                    found[name] = content.data if content else b""
            return found

    def changed(self, release: str, values: Mapping[str, str]) -> tuple[str, ...]:
        """Names whose value differs from what `release` has: a rotated secret needs a deploy."""
        kept = self.load(release)
        return tuple(
            name for name in sorted({*kept, *values}) if kept.get(name) != values.get(name)
        )

    def remove(self, release: str) -> None:
        """Forget the values of `release`."""
        self._storage.remove(_path(release))


def _values_of(data: bytes) -> dict[str, str]:
    """The values of an entry by name. Raises ValueError when it is none that `save` wrote."""
    found = json.loads(data.decode())
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("no object of texts")
    return found


def _path(release: str) -> str:
    return f"{FOLDER}/{release}.json"
