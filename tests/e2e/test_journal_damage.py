"""A journal that is damaged: the next command recovers, and what serves goes on serving."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, quick


def torn(journal: Path) -> None:
    """A last line that was never finished."""
    newest = max(journal.glob("*.jsonl"))
    newest.write_bytes(newest.read_bytes() + b'{"seq":99,"epoch":9,"ti')


def cut_in_the_last_record(journal: Path) -> None:
    """The last record lost its end."""
    newest = max(journal.glob("*.jsonl"))
    newest.write_bytes(newest.read_bytes()[:-40])


def cut_in_half(journal: Path) -> None:
    """Many records are gone: the target is ahead of its journal."""
    newest = max(journal.glob("*.jsonl"))
    content = newest.read_bytes()
    newest.write_bytes(content[: len(content) // 2])


def flip_a_bit(journal: Path) -> None:
    """One bit in the middle of the newest rollout."""
    newest = max(journal.glob("*.jsonl"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(bytes(content))


def flip_a_bit_of_the_first_record(journal: Path) -> None:
    """One bit of the record that opened the newest rollout."""
    newest = max(journal.glob("*.jsonl"))
    content = bytearray(newest.read_bytes())
    content[content.index(b'"candidate"') + 14] ^= 1
    newest.write_bytes(bytes(content))


def empty(journal: Path) -> None:
    """The newest file has no content, as after a crash of the machine."""
    max(journal.glob("*.jsonl")).write_bytes(b"")


def lose_the_newest_file(journal: Path) -> None:
    """The newest rollout is gone altogether."""
    max(journal.glob("*.jsonl")).unlink()


def lose_all(journal: Path) -> None:
    """The whole folder is gone."""
    shutil.rmtree(journal)


LONG = pytest.mark.long
DAMAGES = [
    torn,
    pytest.param(cut_in_the_last_record, marks=LONG),
    pytest.param(cut_in_half, marks=LONG),
    flip_a_bit,
    pytest.param(flip_a_bit_of_the_first_record, marks=LONG),
    pytest.param(empty, marks=LONG),
    pytest.param(lose_the_newest_file, marks=LONG),
    lose_all,
]


@pytest.fixture(scope="module")
def two_deployed(standing: Site) -> Site:
    """A service with two rollouts in its journal."""
    assert standing.deploy().exit_code == 0
    return standing


@pytest.mark.parametrize("damage", DAMAGES)
def test_after_damage_to_the_journal_resume_recovers_and_the_same_release_serves(
    two_deployed: Site, damage: Callable[[Path], None]
) -> None:
    site = two_deployed
    serving = site.serving
    assert serving is not None
    before = site.pids(serving)
    damage(site.state / "journal")
    assert site.serving == serving
    with site.users() as users:
        result = site.run("resume")
    assert result.exit_code == 0, result.stderr
    assert users.releases == {serving}
    assert site.serving == serving
    assert site.pids(serving) == before
    assert site.good("audit").data["outcome"] == "ok"
    # A rollout of its own follows, so that the next damage finds a journal of two again.
    following = site.deploy()
    assert following.exit_code == 0, following.stderr
    assert site.answers(5) == {str(following.data["release"]): 5}


@pytest.mark.long
def test_a_deploy_recovers_from_a_damaged_journal_by_itself(make_site: MakeSite) -> None:
    site = make_site(quick())
    site.good("deploy")
    flip_a_bit(site.state / "journal")
    with site.users() as users:
        result = site.deploy()
    assert (result.exit_code, site.serving) == (0, result.data["release"])
    assert "the journal is rebuilt from what runs" in result.stderr
    assert users.releases == {"r1", str(result.data["release"])}
    # Nothing is deleted: what is left of the old journal is set aside.
    assert len(list(site.state.glob("journal.broken-*"))) == 1


def test_a_damaged_journal_of_an_open_rollout_gives_no_traffic_to_the_candidate(
    make_site: MakeSite,
) -> None:
    stages = {"stages": [{"weight": 20, "hold_s": 60}]}
    site = make_site(quick(strategy=stages))
    site.good("deploy")
    with site.users() as users:
        deploy = site.begin_deploy()
        site.wait_for_record("began", "shift-20")
        deploy.kill()
        flip_a_bit(site.state / "journal")
        result = site.run("resume")
        assert result.exit_code == 0, result.stderr
        assert site.serving == "r1"
        assert site.answers(20) == {"r1": 20}
    assert users.releases <= {"r1", "r2"}
    assert site.pids("r2") == {}
