"""The memory limit of a replica: a cgroup where we may make one, else a watchdog on RSS."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

MIB = 1024 * 1024
CGROUP_V1 = Path("/sys/fs/cgroup/memory")
CGROUP_V2 = Path("/sys/fs/cgroup")


class MemoryLimit:
    """Limit of one replica. Without `limit_mb` nothing is limited."""

    def __init__(self, name: str, limit_mb: int | None, service_dir: Path) -> None:
        self.limit_mb = limit_mb
        service = hashlib.sha256(str(service_dir).encode()).hexdigest()[:10]
        self._group_name = f"opsctl-{service}-{name}"
        self._group: Path | None = None
        self._kills_before = 0

    @property
    def by_watchdog(self) -> bool:
        """Whether RSS must be watched, as no cgroup does it."""
        return self.limit_mb is not None and self._group is None

    def limit(self, pid: int) -> None:
        """Put a process under the limit (its later children come with it)."""
        if self.limit_mb is None:
            return
        for parent, knob in _parents():
            group = parent / self._group_name
            try:
                group.mkdir(exist_ok=True)
                (group / knob).write_text(str(self.limit_mb * MIB))
                (group / "cgroup.procs").write_text(str(pid))
            except OSError:
                with contextlib.suppress(OSError):
                    group.rmdir()
                continue
            self._group = group
            self._kills_before = self._kills()
            return

    def adopt(self, pid: int) -> None:
        """Find the cgroup again that an earlier supervisor made."""
        if self.limit_mb is None:
            return
        for parent, _ in _parents():
            group = parent / self._group_name
            with contextlib.suppress(OSError):
                if str(pid) in (group / "cgroup.procs").read_text().split():
                    self._group = group
                    self._kills_before = self._kills()

    def verdict(self) -> str:
        """Why the kernel killed it, when it did for memory; else empty."""
        if self._group is None or self._kills() <= self._kills_before:
            return ""
        return f"killed by the kernel: at its memory limit of {self.limit_mb} MiB"

    @property
    def kernel_killed(self) -> bool:
        """Whether the kernel killed a process of the replica (perhaps a child only)."""
        return self._group is not None and self._kills() > self._kills_before

    def excess(self, rss_bytes: int) -> str:
        """A sentence when `rss_bytes` is over the limit; else empty."""
        if self.limit_mb is None or rss_bytes <= self.limit_mb * MIB:
            return ""
        # Rounded up: "800 MiB over its limit of 800 MiB" would puzzle.
        used = -(-rss_bytes // MIB)
        return f"killed: {used} MiB over its limit of {self.limit_mb} MiB"

    def release(self) -> None:
        """Remove the cgroup once its processes have ended."""
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._group.rmdir()

    def _kills(self) -> int:
        """Kernel's count of out-of-memory kills in the group (cgroup-v1 memory.txt, cgroup-v2)."""
        if self._group is None:
            return 0
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError, ValueError):
                for line in (self._group / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0


def _parents() -> list[tuple[Path, str]]:
    """Cgroup folders that a group could be made in, with the name of the limit's file."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append((CGROUP_V1 / path.lstrip("/"), "memory.limit_in_bytes"))
        elif not controllers and (CGROUP_V2 / "cgroup.controllers").exists():
            # Processes and groups can't share a node (cgroup-v2, "no internal processes").
            found.append(((CGROUP_V2 / path.lstrip("/")).parent, "memory.max"))
    return [(parent, knob) for parent, knob in found if parent.is_dir()]
