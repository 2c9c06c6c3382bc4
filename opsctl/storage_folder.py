"""State in a folder of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from opsctl import lock
from opsctl.clock import Clock
from opsctl.errors import TargetUnreachable
from opsctl.files import sync_folder, write_atomically
from opsctl.storage import Content, HeldLock, Holder

OWNER_ONLY = 0o700
FILE_MODE = 0o600
ABSENT = (FileNotFoundError, NotADirectoryError)


class FolderStorage:
    """The state of one service in `root`. Making one touches nothing."""

    reserve = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.label = str(root)

    def prepare(self) -> None:
        """Make the folder, for its owner only. Raises TargetUnreachable when it can't be."""
        try:
            self.root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
            probe = self.root / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise TargetUnreachable(
                f"cannot write the state folder {self.root}",
                why=error.strerror or str(error),
                next_step="Mend its rights or free disk space,"
                " or set local.state_dir in opsctl.yaml",
            ) from error

    def exists(self) -> bool:
        """Whether the folder is there. Raises TargetUnreachable when nobody may tell us."""
        try:
            return self.root.exists()
        except OSError as error:
            raise unreadable(self.root, error) from error

    def names(self, folder: str) -> list[str]:
        """Names of a folder's entries, sorted."""
        try:
            return sorted(os.listdir(self.root / folder))
        except ABSENT:
            return []
        except OSError as error:
            raise unreadable(self.root / folder, error) from error

    def read(self, path: str, offset: int = 0) -> Content | None:
        """A file from `offset` on; its inode tells it from one that took its place.

        Raises OSError when it is there and can't be read.
        """
        try:
            with (self.root / path).open("rb") as file:
                found = os.fstat(file.fileno())
                file.seek(offset)
                return Content(str(found.st_ino), file.read(), found.st_size)
        except ABSENT:
            return None

    def contents(self, folder: str) -> dict[str, bytes]:
        """Files of a folder by name."""
        found = {}
        for name in self.names(folder):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                found[name] = (self.root / folder / name).read_bytes()
        return found

    def append(self, path: str, line: bytes, *, sync: bool) -> None:
        """Append in one write, and sync it."""
        file = self.root / path
        self._make_folder(file.parent)
        fresh = not file.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(file, flags, FILE_MODE)
        try:
            _append(descriptor, line)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            sync_folder(file.parent)

    def write(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """Replace a file; all of them are readable by their owner only."""
        file = self.root / path
        self._make_folder(file.parent)
        if secret:
            file.parent.chmod(OWNER_ONLY)
        write_atomically(file, data, durable=True, mode=FILE_MODE)

    def remove(self, path: str) -> None:
        """Unlink a file, or a folder with what is in it."""
        try:
            (self.root / path).unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            _remove_tree(self.root / path)

    def rename(self, folder: str, name: str) -> None:
        """Move a folder aside."""
        with contextlib.suppress(FileNotFoundError):
            (self.root / folder).rename(self.root / name)

    def fetch(self, folder: str) -> Path:
        """The folder itself."""
        return self.root / folder

    def destroy(self) -> None:
        """Remove the folder, and those above it that are then empty (environment, state)."""
        _remove_tree(self.root)
        for parent in (self.root.parent, self.root.parent.parent):
            try:
                parent.rmdir()
            except OSError:
                break

    def hold(self, holder: Holder, *, wait_s: float, clock: Clock) -> HeldLock:
        """Take the file lock."""
        return lock.acquire(self.lock_path, holder, wait_s=wait_s, clock=clock)

    def holder(self) -> Holder | None:
        """Who holds the file lock. Raises TargetUnreachable when nobody may tell us."""
        try:
            self.read(self.lock_path.name)
        except OSError as error:
            raise unreadable(self.lock_path, error) from error
        return lock.current_holder(self.lock_path)

    def break_lock(self) -> None:
        """Put a free lock file in place of one that a frozen holder keeps."""
        lock.break_lock(self.lock_path)

    @property
    def lock_path(self) -> Path:
        return self.root / "lock"

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)


def unreadable(path: Path, error: OSError) -> TargetUnreachable:
    """The error of one who may not read the state, or whose disk fails."""
    return TargetUnreachable(
        f"cannot read {path} of the state folder",
        why=error.strerror or str(error),
        next_step="Run this as the user who deploys the service",
    )


def _remove_tree(folder: Path) -> None:
    import shutil  # brings compression along, which `opsctl status` has no time for

    shutil.rmtree(folder, ignore_errors=True)


def _append(descriptor: int, line: bytes) -> None:
    """Append a line in one write; a torn one before it is closed off first."""
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    data = b"\n" + line if torn else line
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
