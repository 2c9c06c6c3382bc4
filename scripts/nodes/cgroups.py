"""The cgroups (version 1 or 2) that hold a node's pods."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
REMOVE_TIMEOUT_S = 10.0


def mount_missing() -> None:
    """Mount the hierarchies where nobody has, as in a bare chroot. Call it in a mount namespace of
    one's own. Raises OSError."""
    if any(ROOT.iterdir()):
        return
    mount("tmpfs", ROOT, "")
    for controllers in hierarchies():
        folder = ROOT / controllers
        folder.mkdir()
        mount("cgroup", folder, controllers)


def hierarchies() -> Iterator[str]:
    """The controllers of each hierarchy of version 1 in use, joined by commas."""
    found: dict[str, list[str]] = {}
    for line in Path("/proc/cgroups").read_text().splitlines()[1:]:
        name, hierarchy, _, enabled = line.split()
        if hierarchy != "0" and enabled == "1":
            found.setdefault(hierarchy, []).append(name)
    return (",".join(names) for names in found.values())


def mount(kind: str, folder: Path, options: str) -> None:
    """mount(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.mount(kind.encode(), os.fsencode(folder), kind.encode(), 0, options.encode())
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))


def folders(name: str) -> list[Path]:
    """Where a cgroup of that name is or would be: one folder a hierarchy."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT / name]
    return [path / name for path in sorted(ROOT.iterdir()) if not path.is_symlink()]


def make(name: str) -> None:
    """Make the cgroup in each hierarchy."""
    for folder in folders(name):
        folder.mkdir(exist_ok=True)


def remove(name: str) -> list[Path]:
    """Remove it with all below; the processes must have been ended. Returns what could not be."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    left = [folder for folder in folders(name) if folder.exists()]
    while left:
        left = [folder for folder in left if not removed(folder)]
        if left and time.monotonic() > deadline:
            break
        time.sleep(0.05 if left else 0)
    return left


def removed(folder: Path) -> bool:
    """Whether it is gone now. A process that is just ending still holds its cgroup."""
    deepest_first = sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)
    for path in [*deepest_first, folder]:
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


if __name__ == "__main__":
    import sys

    mount_missing()
    stuck = [str(path) for name in sys.argv[1:] for path in remove(name)]
    sys.exit(f"could not remove {', '.join(stuck)}" if stuck else 0)
