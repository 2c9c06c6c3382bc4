"""Folders and files as content: what they hold, its digest, and a copy that can't be torn.

A manifest maps each path (relative, with `/`) to `[executable, SHA-256]`; folders end in `/` and
have an empty hash. Equal manifests are equal content, whatever the dates and owners.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from opsctl.errors import BuildFailed, PreflightRefused
from opsctl.model import digest

Manifest = dict[str, list[object]]
Interrupt = Callable[[], None]

CHUNK_BYTES = 1 << 20
"""Read at once; small enough that a stop is noticed at once on a slow disk."""

ENTRIES_MAX = 200_000
"""More is a wrong folder, or links that multiply each other."""

SYNCS_AT_ONCE = 32
SYNC_BATCH = 256
"""Files synced between two looks at `interrupt`."""

READ_ONLY, READ_ONLY_EXECUTABLE = 0o444, 0o555


@dataclass(frozen=True)
class ScanRules:
    """What of a folder counts.

    `exclude` holds patterns of names (or of whole relative paths); `leave_out` files and folders
    that never count, resolved; `outside_links` whether links may lead out of the folder.
    """

    exclude: tuple[str, ...] = ()
    leave_out: frozenset[Path] = frozenset()
    outside_links: bool = False


@dataclass(frozen=True)
class Entry:
    """One file or folder. `signature` changes when the file is written or replaced."""

    path: str
    source: Path
    directory: bool
    executable: bool
    size: int
    signature: tuple[int, ...]


def scan(root: Path, rules: ScanRules) -> tuple[Entry, ...]:
    """Everything under `root`, links resolved, in order of path; a file gives itself alone.

    Raises `PreflightRefused` for what can't be part of a release.
    """
    top = root.resolve()
    if top.is_file():
        return (_entry(top.name, top, top.stat()),)
    entries: list[Entry] = []
    for entry in _walk(top, "", _Walk(top, rules, (top,))):
        entries.append(entry)
        if len(entries) > ENTRIES_MAX:
            raise _refused(top, f"it holds more than {ENTRIES_MAX} files", "Name a smaller folder")
    return tuple(sorted(entries, key=lambda entry: entry.path))


def manifest_of(entries: tuple[Entry, ...], interrupt: Interrupt) -> Manifest:
    """The manifest of scanned entries. Raises `PreflightRefused` for an unreadable file."""
    found: Manifest = {}
    for entry in entries:
        found[_key(entry)] = [entry.executable, "" if entry.directory else _hash(entry, interrupt)]
    return found


def copy_entries(root: Path, rules: ScanRules, destination: Path, interrupt: Interrupt) -> Manifest:
    """Copy what `scan` finds to `destination`, read-only and durable; the copy's manifest.

    Raises `BuildFailed` when the source changes meanwhile, or the disk is full.
    """
    before = scan(root, rules)
    found: Manifest = {}
    try:
        destination.mkdir(parents=True, exist_ok=True)
        for entry in before:
            target = destination / entry.path
            if entry.directory:
                target.mkdir(parents=True, exist_ok=True)
                found[_key(entry)] = [entry.executable, ""]
            else:
                found[_key(entry)] = [entry.executable, _copy(entry, target, interrupt)]
        _make_durable([destination, *(destination / e.path for e in before)], interrupt)
    except OSError as error:
        raise _write_failed(destination, error) from error
    changed = {_identity(entry) for entry in before} ^ {_identity(e) for e in scan(root, rules)}
    if changed:
        raise BuildFailed(
            f"{root} changed while it was copied",
            why=f"first difference: {min(changed)[0]}",
            next_step="Wait until whatever writes there is done, then run the same again",
        )
    return found


def freeze(directory: Path) -> Manifest:
    """Make every file under `directory` read-only; the manifest, links as they stand."""
    found: Manifest = {}
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory).as_posix()
        if path.is_symlink():
            found[relative] = [False, f"-> {path.readlink()}"]
        elif path.is_dir():
            found[relative + "/"] = [True, ""]
        elif path.is_file():
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            path.chmod(READ_ONLY_EXECUTABLE if executable else READ_ONLY)
            with path.open("rb") as file:
                found[relative] = [executable, hashlib.file_digest(file, "sha256").hexdigest()]
    return found


def differing(old: Manifest, new: Manifest) -> dict[str, list[str]]:
    """Paths that were `added`, `removed` or `changed` from one manifest to the other."""
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
    }


def manifest_digest(manifest: Manifest) -> str:
    """SHA-256 of a manifest."""
    return digest(manifest)


def total_bytes(entries: tuple[Entry, ...]) -> int:
    """Size of all files."""
    return sum(entry.size for entry in entries if not entry.directory)


@dataclass(frozen=True)
class _Walk:
    """Where a walk is: the folder that it may not leave, and the real folders above it."""

    top: Path
    rules: ScanRules
    above: tuple[Path, ...]


def _walk(directory: Path, prefix: str, walk: _Walk) -> Iterator[Entry]:
    try:
        children = sorted(os.scandir(directory), key=lambda child: child.name)
    except OSError as error:
        raise _refused(directory, error.strerror or str(error), "Make it readable") from error
    for child in children:
        path = prefix + child.name
        if any(fnmatchcase(text, p) for p in walk.rules.exclude for text in (child.name, path)):
            continue
        # The folder is resolved already: only links need the slow way.
        source = _resolved(Path(child.path), walk) if child.is_symlink() else directory / child.name
        if source in walk.rules.leave_out:
            continue
        yield from _visit(path, source, walk)


def _visit(path: str, source: Path, walk: _Walk) -> Iterator[Entry]:
    _require_utf8(source, path)
    status = source.stat()
    if stat.S_ISDIR(status.st_mode):
        if source in walk.above:
            raise _refused(source, f"a link inside leads back to it ({path})", "Exclude the link")
        yield Entry(path, source, True, True, 0, (status.st_ino,))
        yield from _walk(source, path + "/", _Walk(walk.top, walk.rules, (*walk.above, source)))
    elif stat.S_ISREG(status.st_mode):
        yield _entry(path, source, status)
    else:
        raise _refused(source, "it is no file, folder or link", "Add its name to app.exclude")


def _entry(path: str, source: Path, status: os.stat_result) -> Entry:
    executable = bool(status.st_mode & stat.S_IXUSR)
    signature = (status.st_ino, status.st_size, status.st_mtime_ns, int(executable))
    return Entry(path, source, False, executable, status.st_size, signature)


def _resolved(path: Path, walk: _Walk) -> Path:
    try:
        source = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        # pathlib reports a cycle of links as RuntimeError up to Python 3.12.
        raise _refused(path, "the link leads nowhere", "Remove or exclude the link") from error
    if not walk.rules.outside_links and not source.is_relative_to(walk.top):
        raise _refused(
            path,
            f"the link leads out of {walk.top}, to {source}",
            "Put the file itself there, or add the link's name to app.exclude",
        )
    return source


def _require_utf8(source: Path, path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = Path(repr(str(source))[1:-1])
        raise _refused(shown, "its name is not UTF-8", "Rename or exclude it") from None


def _hash(entry: Entry, interrupt: Interrupt) -> str:
    found = hashlib.sha256()
    for chunk in _chunks(entry, interrupt):
        found.update(chunk)
    return found.hexdigest()


def _copy(entry: Entry, target: Path, interrupt: Interrupt) -> str:
    found = hashlib.sha256()
    with target.open("xb") as file:
        for chunk in _chunks(entry, interrupt):
            found.update(chunk)
            file.write(chunk)
    target.chmod(READ_ONLY_EXECUTABLE if entry.executable else READ_ONLY)
    return found.hexdigest()


def _make_durable(paths: list[Path], interrupt: Interrupt) -> None:
    """Have the disk keep files and folders: release.json, written last, promises that."""
    from concurrent.futures import ThreadPoolExecutor

    # A file system commits many waiting syncs at once: 2,000 files in a tenth of the time.
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
        for start in range(0, len(paths), SYNC_BATCH):
            interrupt()
            list(pool.map(_sync, paths[start : start + SYNC_BATCH]))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _chunks(entry: Entry, interrupt: Interrupt) -> Iterator[bytes]:
    try:
        file = entry.source.open("rb")
    except FileNotFoundError as error:
        raise BuildFailed(
            f"{entry.source} went away while it was read",
            next_step="Wait until whatever writes there is done, then run the same again",
        ) from error
    except OSError as error:
        raise _refused(entry.source, error.strerror or "", "Make it readable") from error
    with file:
        while chunk := file.read(CHUNK_BYTES):
            interrupt()
            yield chunk


def _key(entry: Entry) -> str:
    return entry.path + "/" if entry.directory else entry.path


def _identity(entry: Entry) -> tuple[str, tuple[int, ...]]:
    return entry.path, entry.signature


def _refused(path: Path, why: str, next_step: str) -> PreflightRefused:
    return PreflightRefused(
        f"{path} can't be part of a release", why=why, next_step=f"{next_step}, then run it again"
    )


def _write_failed(destination: Path, error: OSError) -> BuildFailed:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return BuildFailed(
        f"cannot write {destination}",
        why="the disk is full" if full else error.strerror or str(error),
        next_step="Free some space (opsctl releases prune), then run the same again"
        if full
        else "Make the state folder writable, then run the same again",
    )
