"""The memory limit of a replica, by the watchdog and by a cgroup."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from opsctl.model import Observed, Share
from opsctl.targets.supervisor import memory
from opsctl.targets.supervisor.memory import MemoryLimit
from tests.targets.house import House

MIB = 1024 * 1024
ROOT_GROUP = Path("/sys/fs/cgroup/memory")


def restarted(seen: Observed) -> bool:
    return bool(seen.replicas) and seen.replicas[0].restarts == 1


def test_rss_of_a_replica_and_its_children_is_observed(house: House) -> None:
    house.release("r1")
    before = house.converge(Share("r1", 1, 100)).replicas[0].rss_bytes
    house.control("r1-1", fork_mb=40)
    house.wait(lambda seen: seen.replicas[0].rss_bytes >= before + 40 * MIB)


def test_a_replica_over_its_limit_is_killed_and_the_reason_reported(house: House) -> None:
    house.release("r1", memory_mb=80)
    house.converge(Share("r1", 1, 100))
    house.control("r1-1", grow_mb=30)
    assert house.target.observe().replicas[0].restarts == 0
    house.control("r1-1", grow_mb=60)
    house.wait(restarted)
    text = "\n".join(house.target.events("r1"))
    by_watchdog = re.search(r"killed: (\d+) MiB over its limit of 80 MiB", text)
    by_kernel = "killed by the kernel: at its memory limit of 80 MiB" in text
    assert by_kernel or (by_watchdog and int(by_watchdog[1]) > 80)


def test_without_a_cgroup_the_watchdog_says_how_much_was_used(tmp_path: Path) -> None:
    limit = MemoryLimit("r1-1", 800, tmp_path)
    assert limit.excess(800 * MIB) == ""
    assert limit.excess(811 * MIB + 1) == "killed: 812 MiB over its limit of 800 MiB"
    assert limit.by_watchdog


def test_a_replica_without_a_limit_is_never_over_it(tmp_path: Path) -> None:
    limit = MemoryLimit("r1-1", None, tmp_path)
    limit.limit(os.getpid())
    assert (limit.excess(10**15), limit.by_watchdog, limit.verdict()) == ("", False, "")


@pytest.mark.skipif(not os.access(ROOT_GROUP, os.W_OK), reason="cgroup v1 memory is not writable")
def test_with_a_cgroup_the_kernel_keeps_the_limit(house: House) -> None:
    house.release("r1", memory_mb=80)
    pid = house.converge(Share("r1", 1, 100)).replicas[0].pid
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    group = next(line.split(":", 2)[2] for line in lines if ":memory:" in line)
    assert re.search(r"/opsctl-[0-9a-f]{10}-r1-1$", group)
    folder = ROOT_GROUP / group.lstrip("/")
    assert (folder / "memory.limit_in_bytes").read_text() == f"{80 * MIB}\n"
    house.apply()
    house.wait(lambda seen: not seen.replicas)
    assert not folder.exists()


def test_the_watchdog_acts_where_no_cgroup_can_be_made(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_parents", list)
    limit = MemoryLimit("r1-1", 100, house.layout.service_dir)
    limit.limit(os.getpid())
    assert limit.by_watchdog
