"""A service's state as objects of its namespace: ConfigMaps, Secrets and a Lease."""

from __future__ import annotations

import base64
import errno
import json
import time
from pathlib import Path

from opsctl.clock import Clock
from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.storage import Content, HeldLock, Holder, copied
from opsctl.targets.kubernetes import entries, lease
from opsctl.targets.kubernetes.api import Api, Conflict, Missing
from opsctl.targets.kubernetes.entries import Entry
from opsctl.targets.kubernetes.mirror import Mirror
from opsctl.targets.kubernetes.names import PATH, SECRET_PART, STATE_PART, Names

TRIES = 50
"""Appends that may find that somebody else was faster."""

SECRETS = "secrets/"
JOURNAL = "journal/"


class KubeStorage:
    """The state of one service. Making one touches nothing."""

    reserve = False

    def __init__(self, api: Api, names: Names) -> None:
        self.label = names.label
        self._api = api
        self._names = names
        self._mirror = Mirror(api, names.path("configmaps"), names.kept(STATE_PART))
        self._watcher = lease.Watcher()
        self._put_together = -1
        self._by_path: dict[str, Entry] = {}

    def prepare(self) -> None:
        """Make the namespace when it is missing. Raises TargetUnreachable."""
        path = f"/api/v1/namespaces/{self._names.namespace}"
        try:
            self._api.get(path)
        except Missing:
            made = {"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": self._names.namespace}}  # fmt: skip
            try:
                self._api.post("/api/v1/namespaces", made)
            except Conflict:
                return
        except TargetUnreachable:
            # Who may not look at namespaces may still work in one: the first write will tell.
            self._api.get(self._names.path("configmaps"), limit=1)

    def exists(self) -> bool:
        """Whether anything was ever kept here."""
        return bool(self._mirror.all())

    def names(self, folder: str) -> list[str]:
        """Names of a folder's entries, sorted."""
        head = f"{folder}/" if folder else ""
        paths = [*self._entries(), *(self._secret_paths() if head in ("", SECRETS) else ())]
        tails = (path.removeprefix(head) for path in paths if path.startswith(head))
        return sorted({tail.partition("/")[0] for tail in tails})

    def read(self, path: str, offset: int = 0) -> Content | None:
        """An entry from `offset` on."""
        if path.startswith(SECRETS):
            return self._read_secret(path, offset)
        entry = self._entries().get(path)
        if entry is None:
            return None
        data = entry.data
        return Content(entry.identity, data[offset:], len(data))

    def contents(self, folder: str) -> dict[str, bytes]:
        """Entries of a folder by name; all Secrets come with one request."""
        head = f"{folder}/"
        if head == SECRETS:
            found = {entries.path_of(one): _secret_data(one) for one in self._secrets()}
        else:
            found = {path: entry.data for path, entry in self._entries().items()}
        inside = {p.removeprefix(head): data for p, data in found.items() if p.startswith(head)}
        return {name: data for name, data in inside.items() if "/" not in name}

    def append(self, path: str, line: bytes, *, sync: bool) -> None:
        """Append a line; who was first is decided by the API server, which refuses the other."""
        for _ in range(TRIES):
            try:
                self._append(path, line)
                return
            except Conflict:
                self._mirror.refresh()
                entry = self._entries().get(path)
                if entry is not None and line in entry.data:
                    return  # written, and only the answer was lost
        raise OSError(errno.EBUSY, "too many others write it", self.label)

    def write(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """Replace an entry; a large one part by part, the last of which makes it whole."""
        if path.startswith(SECRETS):
            self._write_secret(path, data)
            return
        pieces = entries.slices(data)
        for number, piece in enumerate(pieces):
            self._put(entries.part_of(self._names, path, number, piece))
        entry = self._entries().get(path)
        for part in entry.parts[len(pieces) :] if entry else ():
            self._delete(part["metadata"]["name"])

    def remove(self, path: str) -> None:
        """Forget an entry or a folder."""
        for found, entry in self._entries().items():
            if found == path or found.startswith(f"{path}/"):
                for part in entry.parts:
                    self._delete(part["metadata"]["name"])
        for found in self._secret_paths() if f"{path}/".startswith(SECRETS) else ():
            if found == path or found.startswith(f"{path}/"):
                self._api.delete(self._names.path("secrets", self._secret_name(found)))

    def rename(self, folder: str, name: str) -> None:
        """Move a folder aside: first the copies, then the originals go."""
        for path, entry in self._entries().items():
            if path.startswith(f"{folder}/"):
                self.write(name + path.removeprefix(folder), entry.data)
        self.remove(folder)

    def fetch(self, folder: str) -> Path:
        """Copies of a folder's entries, in a temporary folder that goes with this object."""
        return copied(self.contents(folder), self)

    def destroy(self) -> None:
        """Remove everything that opsctl keeps of the service; the lock goes with it."""
        for kind in ("configmaps", "secrets", "leases"):
            self._api.delete(self._names.path(kind), labelSelector=self._names.kept())

    def hold(self, holder: Holder, *, wait_s: float, clock: Clock) -> HeldLock:
        """Take the Lease. Raises LockHeld when it isn't to be had within `wait_s`."""
        held = lease.take(self._api, self._names, holder, wait_s=wait_s, clock=clock)
        # What the last holder wrote just now must be known before anything is appended.
        self._mirror.refresh()
        return held

    def holder(self) -> Holder | None:
        """Who holds the Lease now."""
        return self._watcher.holder(lease.read(self._api, self._names), time.monotonic())

    def break_lock(self) -> None:
        """Make the Lease void."""
        lease.break_it(self._api, self._names)

    def _entries(self) -> dict[str, Entry]:
        """All entries by path; put together again only when something has changed."""
        objects = self._mirror.all()
        if self._put_together != self._mirror.count:
            self._put_together = self._mirror.count
            self._by_path = entries.by_path(objects)
        return self._by_path

    def _append(self, path: str, line: bytes) -> None:
        """One try. Raises Conflict when somebody else changed the entry meanwhile."""
        entry = self._entries().get(path)
        if entry is None:
            self._pack_before(path)
            self._create(entries.part_of(self._names, path, 0, line))
            return
        last = entry.parts[-1]
        number, old = entries.number_of(last), entries.content(last)
        if not entries.sealed(last) and len(old) + len(line) <= entries.PART_MAX_BYTES:
            gap = b"" if not old or old.endswith(b"\n") else b"\n"
            self._replace(last, entries.holding(old + gap + line))
            return
        if not entries.sealed(last):
            # From here on nobody appends to it, also nobody who has not seen the next one yet.
            last["metadata"]["annotations"][entries.SEALED] = "true"
            self._replace(last, entries.packed(old))
        self._create(entries.part_of(self._names, path, number + 1, line))

    def _pack_before(self, path: str) -> None:
        """A new rollout begins: the journal of the one before takes less room from now on."""
        if not path.startswith(JOURNAL):
            return
        older = sorted(p for p in self._entries() if p.startswith(JOURNAL) and p < path)
        for part in self._entries()[older[-1]].parts if older else ():
            if "data" in part:
                self._replace(part, entries.packed(entries.content(part)))

    def _create(self, made: Json) -> None:
        self._mirror.put(self._api.post(self._names.path("configmaps"), made))

    def _replace(self, known: Json, fields: Json) -> None:
        """Another content for exactly the version that is known."""
        body = {key: value for key, value in known.items() if key not in ("data", "binaryData")}
        path = self._names.path("configmaps", known["metadata"]["name"])
        self._mirror.put(self._api.put(path, {**body, **fields}))

    def _put(self, wanted: Json) -> None:
        """Make an object like `wanted`, whatever it was."""
        name = wanted["metadata"]["name"]
        for _ in range(TRIES):
            try:
                if self._mirror.get(name) is None:
                    self._create(wanted)
                else:
                    path = self._names.path("configmaps", name)
                    self._mirror.put(self._api.put(path, wanted))
                return
            except (Conflict, Missing):
                self._mirror.refresh()
        raise OSError(errno.EBUSY, "too many others write it", self.label)

    def _delete(self, name: str) -> None:
        self._api.delete(self._names.path("configmaps", name))
        self._mirror.drop(name)

    def _secrets(self) -> list[Json]:
        found = self._api.get(
            self._names.path("secrets"), labelSelector=self._names.kept(SECRET_PART)
        )
        return list(found["items"])

    def _secret_paths(self) -> list[str]:
        return [entries.path_of(one) for one in self._secrets()]

    def _secret_name(self, path: str) -> str:
        return self._names.secret(path.removeprefix(SECRETS).removesuffix(".json"))

    def _read_secret(self, path: str, offset: int) -> Content | None:
        try:
            found = self._api.get(self._names.path("secrets", self._secret_name(path)))
        except Missing:
            return None
        data = _secret_data(found)
        return Content(found["metadata"]["uid"], data[offset:], len(data))

    def _write_secret(self, path: str, data: bytes) -> None:
        """One Secret a release, with a key a variable, as pods take them. It never changes: one
        with other values is another Secret in its place."""
        values: dict[str, str] = json.loads(data)
        kept = self._read_secret(path, 0)
        if kept is not None and json.loads(kept.data) == values:
            return
        name = self._secret_name(path)
        if kept is not None:
            self._api.delete(self._names.path("secrets", name))
        body: Json = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "immutable": True,
            "metadata": {
                "name": name,
                "namespace": self._names.namespace,
                "labels": self._names.labels(SECRET_PART),
                "annotations": {PATH: path},
            },
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in values.items()},
        }
        self._api.post(self._names.path("secrets"), body)


def _secret_data(secret: Json) -> bytes:
    """The values of a Secret, as the entry that it stands for holds them."""
    values = {
        name: base64.b64decode(value).decode() for name, value in (secret.get("data") or {}).items()
    }
    return json.dumps(values, sort_keys=True).encode()
