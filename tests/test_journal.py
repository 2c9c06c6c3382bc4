"""The journal: what counts, what is void, and what is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsctl.clock import SystemClock
from opsctl.errors import JournalBroken, OpsctlError, Superseded
from opsctl.journal import Journal
from opsctl.records import parse_segment
from opsctl.storage_folder import FolderStorage

OPENED: dict[str, object] = {
    "op": "deploy",
    "candidate": "r1",
    "base": None,
    "before": {"shares": []},
    "plan": [],
}


def journal(folder: Path) -> Journal:
    folder.mkdir(exist_ok=True)
    return Journal(FolderStorage(folder.parent), SystemClock())


def kinds(writer: Journal) -> list[str]:
    return [record.kind for record in writer.last().records]


def test_records_come_back_in_order_with_their_data(tmp_path: Path) -> None:
    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)
    writer.append("began", {"step": {"id": "x"}})
    records = journal(tmp_path / "journal").last().records
    assert [(r.seq, r.kind, r.data) for r in records] == [
        (1, "opened", OPENED),
        (2, "began", {"step": {"id": "x"}}),
    ]


def test_the_hash_is_sha256_of_the_canonical_record(tmp_path: Path) -> None:
    record = journal(tmp_path / "journal").append("opened", OPENED)
    body = {k: v for k, v in record.to_dict().items() if k != "hash"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert record.hash == hashlib.sha256(text.encode()).hexdigest()


def test_data_that_json_spells_otherwise_is_no_lost_race(tmp_path: Path) -> None:
    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)
    writer.append("passed", {"sizes": {16: (1.5, 2), 4: float("inf")}})
    assert writer.last().records[1].data == {"sizes": {"16": [1.5, 2], "4": float("inf")}}


def test_each_rollout_has_a_file_and_the_chain_spans_them(tmp_path: Path) -> None:
    writer = journal(tmp_path / "journal")
    for _ in range(3):
        writer.append("opened", OPENED)
        last = writer.append("closed", {})
    assert writer.numbers() == [1, 2, 3]
    writer.verify()
    assert last.seq == 6


def test_a_writer_that_was_overtaken_is_refused_and_leaves_nothing_that_counts(
    tmp_path: Path,
) -> None:
    old, new = journal(tmp_path / "journal"), journal(tmp_path / "journal")
    old.append("opened", OPENED)
    new.append("began", {"by": "new"})
    with pytest.raises(Superseded):
        old.append("began", {"by": "old"})
    assert [r.data for r in new.last().records][1:] == [{"by": "new"}]


def test_a_late_line_with_a_stale_prev_is_void_for_every_reader(tmp_path: Path) -> None:
    writer = journal(tmp_path / "journal")
    first = writer.append("opened", OPENED)
    path = tmp_path / "journal" / "000001.jsonl"
    late = _line(2, first.hash, epoch=1, kind="passed")
    writer.append("closed", {})
    with path.open("ab") as file:
        file.write(late)
    assert kinds(writer) == ["opened", "closed"]
    assert writer.last().void == 1


def test_a_frozen_opener_that_wakes_after_another_rollout_began_changes_nothing(
    tmp_path: Path,
) -> None:
    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)
    closed = writer.append("closed", {})
    other = journal(tmp_path / "journal")
    other.append("opened", {**OPENED, "candidate": "r2"})
    with (tmp_path / "journal" / "000002.jsonl").open("ab") as file:
        file.write(_line(3, closed.hash, epoch=1, kind="opened"))
    assert [r.data["candidate"] for r in other.last().records] == ["r2"]


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_torn_last_line_does_not_count_and_the_next_append_heals_it(
    tmp_path: Path, cut: int
) -> None:
    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)
    writer.append("began", {})
    path = tmp_path / "journal" / "000001.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    again = journal(tmp_path / "journal")
    assert again.last().torn is (cut > 1)
    again.append("closed", {})
    expected = ["opened", "closed"] if cut > 1 else ["opened", "began", "closed"]
    assert kinds(again) == expected


def test_every_flipped_bit_before_the_last_line_is_noticed(tmp_path: Path) -> None:
    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)
    writer.append("began", {})
    writer.append("passed", {})
    content = bytearray((tmp_path / "journal" / "000001.jsonl").read_bytes())
    last_line = content[:-1].rindex(b"\n") + 1
    for position in range(0, last_line - 1, 7):
        broken = bytearray(content)
        broken[position] ^= 0x10
        with pytest.raises(JournalBroken):
            parse_segment(1, bytes(broken))


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_rubbish_never_raises_anything_but_journal_broken(rubbish: bytes) -> None:
    try:
        segment = parse_segment(1, rubbish)
    except JournalBroken:
        return
    assert segment.records == ()


def test_a_newer_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    writer = journal(tmp_path / "journal")
    writer.append("opened", {**OPENED, "format": 1})
    content = _line(1, "0" * 64, epoch=1, kind="opened", data={**OPENED, "format": 2})
    with pytest.raises(JournalBroken, match=r"format 2.*formats up to 1.*newer"):
        parse_segment(1, content)


def test_a_full_disk_uses_the_reserve_so_that_the_rollout_can_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)
    writer.reserve_space()
    real = os.write

    def full_until_the_reserve_is_gone(descriptor: int, data: bytes) -> int:
        if (tmp_path / "journal" / ".reserve").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full_until_the_reserve_is_gone)
    writer.append("failed", {})
    assert writer.low_space
    assert kinds(writer) == ["opened", "failed"]


def test_a_disk_that_stays_full_gives_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    writer = journal(tmp_path / "journal")
    writer.append("opened", OPENED)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OpsctlError, match=r"cannot write the journal .*No space left.*resume"):
        writer.append("began", {})


def _line(
    seq: int, prev: str, *, epoch: int, kind: str, data: dict[str, object] | None = None
) -> bytes:
    body = {"seq": seq, "epoch": epoch, "time": 1.0, "kind": kind, "data": data or {}, "prev": prev}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    body["hash"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(body).encode() + b"\n"
