"""Logs stay within their size, whatever is written and however full the disk is."""

from __future__ import annotations

import asyncio
import itertools
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opsctl.model import Share
from opsctl.targets.supervisor import rotation
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.log_watch import FLOOD_LOOKS, FLOOD_MIB_S, Growth, LogWatch
from opsctl.targets.supervisor.rotation import MIB, LogLimit, rotate, shorten
from tests.targets.house import House

Make = Callable[..., House]


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """As on a full disk, a write beyond `size` bytes of a file fails (setrlimit(2))."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def watch(folder: Path, told: list[str], flooded: list[str], max_mb: int = 1) -> LogWatch:
    """The watch of a service with one replica, r1-1."""
    layout = Layout(folder)
    layout.logs.mkdir()
    return LogWatch(
        layout,
        limit=lambda: LogLimit(max_mb, keep=2),
        replicas=lambda: ["r1-1"],
        flooded=lambda name, why: flooded.append(f"{name} {why}"),
        tell=lambda _, text: told.append(text),
    )


def test_rotation_keeps_the_number_asked_for_and_every_line(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    for number in range(5):
        log.write_text(f"part {number}\n")
        rotate(log, LogLimit(20, keep=2))
    assert log.read_text() == ""
    assert (tmp_path / "r1-1.log.1").read_text() == "part 4\n"
    assert (tmp_path / "r1-1.log.2").read_text() == "part 3\n"
    assert len(list(tmp_path.iterdir())) == 3


def test_logs_that_are_kept_no_more_are_removed(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    for number in range(6):
        log.write_text(f"part {number}\n")
        rotate(log, LogLimit(20, keep=5))
    log.write_text("part 6\n")
    rotate(log, LogLimit(20, keep=2))
    assert names(tmp_path) == ["r1-1.log", "r1-1.log.1", "r1-1.log.2"]


def test_of_a_log_that_is_too_big_the_last_whole_lines_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    lines = [b"%07d\n" % number for number in range(5 * MIB // 8)]
    log.write_bytes(b"".join(lines))
    # The cut falls into a line, of which nothing is kept.
    with log.open("ab") as output:
        output.write(b"end\n")
    rotate(log, LogLimit(1, keep=2))
    kept = (tmp_path / "r1-1.log.1").read_bytes().splitlines(keepends=True)
    count = MIB // 8 - 1
    missing = 8 * (len(lines) - count)
    assert kept[0] == b"[opsctl: %d bytes before this are not kept]\n" % missing
    assert kept[1:] == [*lines[-count:], b"end\n"]
    assert log.read_bytes() == b""


def test_rotation_ends_though_the_log_is_written_faster_than_it_is_copied(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    log.write_bytes(b"x" * MIB)
    stop = threading.Event()

    def write() -> None:
        with log.open("ab", buffering=0) as output:
            while not stop.is_set():
                output.write(b"y" * 4 * MIB)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(20):
            rotate(log, LogLimit(1, keep=2))
            # The log's end, what came while it was copied, and two notes.
            assert (tmp_path / "r1-1.log.1").stat().st_size < 2 * MIB + 200
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_a_rotation_that_fails_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    (tmp_path / "r1-1.log.1").write_text("good")
    (tmp_path / "r1-1.log.2").write_text("better")
    log.write_bytes(b"x" * MIB)
    with no_file_over(MIB // 2), pytest.raises(OSError, match="File too large"):
        rotate(log, LogLimit(1, keep=2))
    assert names(tmp_path) == ["r1-1.log", "r1-1.log.1", "r1-1.log.2"]
    assert (tmp_path / "r1-1.log.1").read_text() == "good"
    assert (tmp_path / "r1-1.log.2").read_text() == "better"
    assert log.stat().st_size == MIB


def test_a_rotation_that_is_given_up_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    log.write_bytes(b"x" * 3 * MIB)
    asked = itertools.count()
    with pytest.raises(InterruptedError):
        rotate(log, LogLimit(3, keep=2), lambda: next(asked) == 2)
    assert names(tmp_path) == ["r1-1.log"]
    assert log.stat().st_size == 3 * MIB


def test_a_log_is_shortened_to_its_end_in_its_place(tmp_path: Path) -> None:
    log = tmp_path / "r1-1.log"
    (tmp_path / "r1-1.log.1").write_text("good")
    log.write_bytes(b"a" * 7 * MIB + b"b" * (MIB // 2))
    shorten(log, LogLimit(1, keep=2))
    note = b"[opsctl: %d bytes before this are not kept]\n" % (7 * MIB)
    assert log.read_bytes() == note + b"b" * (MIB // 2)
    assert (tmp_path / "r1-1.log.1").read_text() == "good"


def test_only_logs_that_reached_their_size_are_rotated(tmp_path: Path) -> None:
    looking = watch(tmp_path, [], [])
    looking.layout.release_dir("r9").mkdir(parents=True)
    for name, size in (("haproxy.log", MIB), ("r1-1.log", MIB), ("r9-1.log", MIB - 1)):
        (tmp_path / "logs" / name).write_bytes(b"x" * size)
    asyncio.run(looking.look())
    assert names(tmp_path / "logs") == [
        "haproxy.log", "haproxy.log.1", "r1-1.log", "r1-1.log.1", "r9-1.log"
    ]  # fmt: skip


def test_on_a_full_disk_a_log_grows_to_twice_its_size_and_old_ones_stay(tmp_path: Path) -> None:
    told: list[str] = []
    looking = watch(tmp_path, told, [], max_mb=2)
    log = tmp_path / "logs" / "r1-1.log"
    log.with_name("r1-1.log.1").write_text("good")
    log.write_bytes(b"x" * 3 * MIB)
    with no_file_over(3 * MIB // 2):
        asyncio.run(looking.look())
        assert log.stat().st_size == 3 * MIB
    log.write_bytes(b"x" * 4 * MIB)
    with no_file_over(3 * MIB // 2):
        asyncio.run(looking.look())
        assert MIB < log.stat().st_size < MIB + 100
    assert log.with_name("r1-1.log.1").read_text() == "good"
    assert told == ["r1-1.log can't be rotated: File too large"]
    log.write_bytes(b"x" * 4 * MIB)
    asyncio.run(looking.look())
    assert log.stat().st_size == 0
    assert log.with_name("r1-1.log.2").read_text() == "good"


def test_what_a_killed_rotation_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".r1-1.log.part").write_text("half")
    (tmp_path / "r1-1.log").write_text("whole")
    rotation.clear_parts(tmp_path)
    assert names(tmp_path) == ["r1-1.log"]


def grown(rates_mib_s: list[float], limit: LogLimit) -> str:
    """The verdict on a log that grew at these rates, looked at four times a second."""
    growth = Growth(0, 0.0)
    size = 0
    verdict = ""
    for number, rate in enumerate(rates_mib_s, 1):
        size += int(rate * MIB / 4)
        growth.look(size, number / 4)
        verdict = verdict or growth.flood(limit)
    return verdict


@pytest.mark.parametrize(
    ("rates", "max_mb", "verdict"),
    [
        ([800.0] * 8, 20, "killed: it flooded its log, 1600 MiB within 2.0 s"),
        ([0.0, *[800.0] * 8], 20, "killed: it flooded its log, 1600 MiB within 2.0 s"),
        ([800.0] * 7, 20, ""),
        # A dump at the start is no flood, nor is a stream that people could read with a tool.
        ([4000.0, *[1.0] * 50], 20, ""),
        ([FLOOD_MIB_S - 1.0] * 400, 20, ""),
        ([*[800.0] * 7, 0.0] * 5, 20, ""),
        # Nobody calls it a flood before it has replaced what the person wants to keep.
        ([40.0] * 8, 20, ""),
        ([40.0] * 10, 20, "killed: it flooded its log, 100 MiB within 2.5 s"),
    ],
)
def test_a_flood_is_fast_long_and_big(rates: list[float], max_mb: int, verdict: str) -> None:
    assert grown(rates, LogLimit(max_mb, keep=5)) == verdict


def test_a_flood_is_seen_across_rotations(tmp_path: Path) -> None:
    told: list[str] = []
    flooded: list[str] = []
    looking = watch(tmp_path, told, flooded)
    now = [100.0]
    looking.clock = lambda: now[0]
    log = tmp_path / "logs" / "r1-1.log"

    async def flood(looks: int) -> None:
        for _ in range(looks):
            log.write_bytes(b"x" * 9 * MIB)
            await looking.look()
            assert log.stat().st_size == 0
            now[0] += 0.25

    # The first look only finds the log; it has grown 36 MiB a second at each later one.
    asyncio.run(flood(FLOOD_LOOKS))
    assert flooded == []
    asyncio.run(flood(1))
    assert flooded == ["r1-1 killed: it flooded its log, 72 MiB within 2.0 s"]
    asyncio.run(flood(FLOOD_LOOKS - 1))
    assert len(flooded) == 1
    assert log.with_name("r1-1.log.1").stat().st_size < MIB + 100
    assert told == []


@pytest.mark.long
def test_a_replica_that_floods_its_log_is_ended_and_costs_the_others_nothing(
    make_house: Make,
) -> None:
    house = make_house(log_max_mb=1, log_files=2)
    house.release("r1")
    house.release("r2", command=["/bin/sh", "-c", "echo hello; exec yes"])
    house.converge(Share("r1", 1, 100))
    house.apply(Share("r1", 1, 100), Share("r2", 1, 0))
    seen = house.wait(lambda seen: seen.of("r2") and seen.of("r2")[0].restarts > 0)
    assert seen.of("r2")[0].reason.startswith("killed: it flooded its log, ")
    assert seen.of("r1")[0].restarts == 0
    assert house.ask()[:2] == (200, "r1")
    house.converge(Share("r1", 1, 100))
    kept = [path.stat().st_size for path in house.layout.logs.glob("r2-1.log.*")]
    assert len(kept) == 2
    assert all(size < 2 * MIB + 200 for size in kept)


def test_a_folder_that_was_taken_away_is_made_again_for_those_who_run(tmp_path: Path) -> None:
    watching = watch(tmp_path, [], [])
    watching.layout.logs.rmdir()
    asyncio.run(watching.look())
    assert names(tmp_path) == ["logs"]
    watching.layout.logs.rmdir()
    watching.replicas = list
    watching._all_at = float("-inf")
    asyncio.run(watching.look())
    assert names(tmp_path) == []


def test_logs_of_releases_that_were_removed_go_with_them(tmp_path: Path) -> None:
    watching = watch(tmp_path, [], [])
    logs = watching.layout.logs
    kept = ["r1-1.log", "r1-1.log.2", "r3-b1.log", "haproxy.log", "supervisor.log", "r2.log"]
    for name in [*kept, "r2-1.log", "r2-1.log.1", "r2-b2.log", "r22-1.log"]:
        (logs / name).write_text("said\n")
    watching.layout.release_dir("r3").mkdir(parents=True)  # r1 runs, though its files are lost
    asyncio.run(watching.look())
    assert sorted(path.name for path in logs.iterdir()) == sorted(kept)
