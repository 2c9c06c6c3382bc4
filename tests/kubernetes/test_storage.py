"""A service's state in a real cluster: what is written is there for everybody, and only once."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from opsctl.clock import SystemClock
from opsctl.errors import LockHeld, Superseded
from opsctl.journal import Journal
from opsctl.secrets import SecretStore
from opsctl.storage import Holder
from opsctl.targets.kubernetes import entries, lease
from opsctl.targets.kubernetes.api import Api
from opsctl.targets.kubernetes.names import Names
from opsctl.targets.kubernetes.storage import KubeStorage
from tests.cluster.kubernetes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.long]

CLOCK = SystemClock()


@pytest.fixture
def storage(api: Api, names: Names) -> KubeStorage:
    return KubeStorage(api, names)


@pytest.fixture
def other(names: Names) -> KubeStorage:
    """The same state, as another machine sees it."""
    from opsctl.config.settings import Kubernetes

    return KubeStorage(Api(Kubernetes()), names)


def read(storage: KubeStorage, path: str) -> bytes | None:
    found = storage.read(path)
    return found.data if found else None


def test_looking_creates_nothing(storage: KubeStorage, cluster: Cluster, names: Names) -> None:
    assert not storage.exists()
    assert storage.names("journal") == []
    assert storage.read("journal/000001.jsonl") is None
    assert storage.holder() is None
    assert cluster.get("configmaps,secrets,leases", "-n", names.namespace, "-l",
                       names.kept())["items"] == []  # fmt: skip


def test_entries_are_written_listed_and_removed(storage: KubeStorage, other: KubeStorage) -> None:
    storage.write("bundles/000001/opsctl.yaml", b"a: 1\n")
    storage.write("bundles/000001/1-body.bin", bytes(range(256)))
    storage.write("releases/last", b"7\n")
    assert other.names("") == ["bundles", "releases"]
    assert other.names("bundles") == ["000001"]
    assert other.names("bundles/000001") == ["1-body.bin", "opsctl.yaml"]
    assert read(other, "bundles/000001/1-body.bin") == bytes(range(256))
    copy = other.fetch("bundles/000001")
    assert (copy / "opsctl.yaml").read_text() == "a: 1\n"
    storage.write("releases/last", b"8\n")
    assert read(storage, "releases/last") == b"8\n"
    storage.remove("bundles")
    assert storage.names("") == ["releases"]


def test_a_reader_that_stays_sees_what_others_write(
    storage: KubeStorage, other: KubeStorage
) -> None:
    assert other.names("inbox") == []
    storage.write("inbox/1.json", b"{}")
    done = threading.Event()
    for _ in range(600):
        if other.names("inbox") == ["1.json"]:
            break
        done.wait(0.05)
    assert other.names("inbox") == ["1.json"]


def test_lines_of_two_writers_stand_one_after_the_other(
    storage: KubeStorage, other: KubeStorage
) -> None:
    def write(writer: KubeStorage, mark: str) -> None:
        for number in range(20):
            writer.append("journal/000001.jsonl", f"{mark}{number}\n".encode(), sync=True)

    threads = [threading.Thread(target=write, args=pair) for pair in ((storage, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    storage._mirror.refresh()
    lines = (read(storage, "journal/000001.jsonl") or b"").decode().splitlines()
    assert [line for line in lines if line[0] == "a"] == [f"a{n}" for n in range(20)]
    assert [line for line in lines if line[0] == "b"] == [f"b{n}" for n in range(20)]
    assert len(lines) == 40


def test_an_entry_beyond_what_an_object_holds_is_whole(
    storage: KubeStorage, other: KubeStorage, cluster: Cluster, names: Names
) -> None:
    lines = [f"{number:06d} {os.urandom(40_000).hex()}\n".encode() for number in range(30)]
    for line in lines[:-1]:
        storage.append("journal/000001.jsonl", line, sync=True)
    other.append("journal/000001.jsonl", lines[-1], sync=True)
    assert read(other, "journal/000001.jsonl") == b"".join(lines)
    storage._mirror.refresh()
    found = storage.read("journal/000001.jsonl", offset=100)
    assert found is not None and found.size == sum(map(len, lines))
    assert found.data == b"".join(lines)[100:]
    parts = cluster.get("configmaps", "-n", names.namespace, "-l", names.kept())["items"]
    assert len(parts) == 4
    assert all(len(json.dumps(part)) < 1 << 20 for part in parts)


def test_a_large_entry_that_shrinks_leaves_no_part_behind(storage: KubeStorage) -> None:
    storage.write("bundles/000001/requests", b"x" * (2 * entries.PART_MAX_BYTES + 5))
    assert len(storage._mirror.all()) == 3
    storage.write("bundles/000001/requests", b"small")
    assert read(storage, "bundles/000001/requests") == b"small"
    assert len(storage._mirror.all()) == 1


def test_the_journal_of_a_closed_rollout_takes_less_room(storage: KubeStorage) -> None:
    line = b'{"the": "same words again and again"}\n' * 200
    storage.append("journal/000001.jsonl", line, sync=True)
    storage.append("journal/000002.jsonl", line, sync=True)
    objects = {entries.path_of(one): one for one in storage._mirror.all()}
    first, second = objects["journal/000001.jsonl"], objects["journal/000002.jsonl"]
    assert len(base64.b64decode(first["binaryData"]["entry"])) * 20 < len(line)
    assert second["data"]["entry"].encode() == line
    assert read(storage, "journal/000001.jsonl") == line
    # An order that is opened again goes on where it was.
    storage.append("journal/000001.jsonl", b"more\n", sync=True)
    assert read(storage, "journal/000001.jsonl") == line + b"more\n"


def test_a_damaged_journal_is_set_aside_whole(storage: KubeStorage) -> None:
    storage.append("journal/000001.jsonl", b"one\n", sync=True)
    storage.append("journal/000002.jsonl", b"two\n", sync=True)
    storage.rename("journal", "journal.broken-1")
    assert storage.names("journal") == []
    assert read(storage, "journal.broken-1/000001.jsonl") == b"one\n"
    assert read(storage, "journal.broken-1/000002.jsonl") == b"two\n"


def test_the_later_of_two_journal_writers_is_superseded(
    storage: KubeStorage, other: KubeStorage
) -> None:
    first, second = Journal(storage, CLOCK), Journal(other, CLOCK)
    first.append("opened", {"op": "deploy"})
    assert second.last().number == 1
    second.append("began", {"step": "x"})
    with pytest.raises(Superseded):
        first.append("began", {"step": "y"})
    other._mirror.refresh()
    assert [record.kind for record in second.read(1).records] == ["opened", "began"]


def test_secrets_lie_in_an_immutable_secret_with_a_key_a_variable(
    storage: KubeStorage, other: KubeStorage, cluster: Cluster, names: Names
) -> None:
    SecretStore(storage).save("r1", {"TOKEN": "p@ss\nwörd", "OTHER": "2"})
    found = cluster.get("secret", "light-r1-secrets", "-n", names.namespace)
    assert found["immutable"] is True
    assert base64.b64decode(found["data"]["TOKEN"]).decode() == "p@ss\nwörd"
    assert SecretStore(other).load("r1") == {"TOKEN": "p@ss\nwörd", "OTHER": "2"}
    SecretStore(other).save("r1", {"TOKEN": "new"})
    assert SecretStore(storage).load("r1") == {"TOKEN": "new"}
    assert SecretStore(storage).everything() == {"r1 TOKEN": "new"}
    SecretStore(storage).remove("r1")
    assert SecretStore(storage).load("r1") == {}
    assert "p@ss" not in json.dumps(cluster.get("configmaps", "-n", names.namespace))


def test_destroy_leaves_nothing(storage: KubeStorage, cluster: Cluster, names: Names) -> None:
    lock = storage.hold(holder(), wait_s=0, clock=CLOCK)
    storage.write("releases/last", b"1\n")
    SecretStore(storage).save("r1", {"A": "1"})
    lock.free()
    storage.destroy()
    left = cluster.get("configmaps,secrets,leases", "-n", names.namespace, "-l", names.kept())
    assert left["items"] == []


def holder(pid: int | None = None) -> Holder:
    return Holder(pid or os.getpid(), "ann", "deploy", 1.0)


def test_a_lock_that_is_held_and_renewed_is_not_given_away(
    storage: KubeStorage, other: KubeStorage
) -> None:
    lock = storage.hold(holder(), wait_s=0, clock=CLOCK)
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.5):
            lock.beat()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LockHeld, match="ann, deploy"):
            other.hold(holder(), wait_s=0, clock=CLOCK)
        seen = other.holder()
        assert seen is not None and (seen.actor, seen.pid) == ("ann", os.getpid())
    finally:
        stop.set()
        thread.join()
    lock.check()
    lock.free()
    assert other.holder() is None
    other.hold(holder(), wait_s=0, clock=CLOCK).free()


def test_a_holder_that_was_killed_on_this_machine_is_passed_at_once(
    storage: KubeStorage, other: KubeStorage
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        storage.hold(holder(process.pid), wait_s=0, clock=CLOCK)
        assert other.holder() is not None
        process.kill()
        process.wait()
    assert other.holder() is None
    other.hold(holder(), wait_s=0, clock=CLOCK)
    assert other.holder() is not None


def test_a_holder_that_stands_still_is_passed_and_finds_out(
    storage: KubeStorage, other: KubeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "STALE_AFTER_S", 2.0)
    frozen = storage.hold(holder(), wait_s=0, clock=CLOCK)
    taken = other.hold(holder(), wait_s=0, clock=CLOCK)
    frozen.beat()
    with pytest.raises(Superseded, match="took the lock over"):
        frozen.check()
    taken.beat()
    taken.check()


def test_a_void_lock_is_noticed_by_its_holder(storage: KubeStorage, other: KubeStorage) -> None:
    held = storage.hold(holder(), wait_s=0, clock=CLOCK)
    other.break_lock()
    held.beat()
    with pytest.raises(Superseded):
        held.check()


def test_the_namespace_is_made_when_it_is_missing(cluster: Cluster, api: Api) -> None:
    fresh = Names("light", f"t-new-{os.getpid()}")
    try:
        KubeStorage(api, fresh).prepare()
        KubeStorage(api, fresh).prepare()
        assert cluster.get("namespace", fresh.namespace)["status"]["phase"] == "Active"
    finally:
        cluster.kubectl("delete", "namespace", fresh.namespace, "--wait=false")


def test_nothing_of_kubernetes_is_imported_to_open_the_place(tmp_path: Path) -> None:
    code = (
        "import sys; import opsctl.targets.places, opsctl.targets.kubernetes.target;"
        "sys.exit(any(m.split('.')[0] == 'kubernetes' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
