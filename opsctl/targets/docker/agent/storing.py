"""The state's entries, as a command far away reads and writes them: `store` requests.

Bytes travel as base64 inside JSON lines. An OSError travels by its number, so that the command
tells a full disk from others.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from opsctl.errors import OpsctlError
from opsctl.model import Json
from opsctl.storage_folder import FolderStorage
from opsctl.targets.docker.agent.lease_lock import LeaseLock


class Storing:
    """Answers `store` requests on the state in the agent's volume."""

    def __init__(self, storage: FolderStorage, lock: LeaseLock) -> None:
        self._storage = storage
        self._lock = lock

    def answer(self, request: Mapping[str, Any], line: object) -> Json:
        """Do what `verb` says; `errno` when the disk refuses."""
        try:
            return self._entries(request) if "path" in request else self._locking(request, line)
        except OSError as error:
            return {"errno": error.errno or 0, "why": error.strerror or str(error)}

    def _entries(self, request: Mapping[str, Any]) -> Json:
        verb, path, storage = request["verb"], _inside(request["path"]), self._storage
        if verb == "names":
            names = {"names": storage.names(path)}
            return (
                {**names, "contents": _encoded(storage, path)} if "contents" in request else names
            )
        if verb == "read":
            found = storage.read(path, request["offset"])
            if found is None:
                return {"found": False}
            data = base64.b64encode(found.data).decode()
            return {"found": True, "identity": found.identity, "data": data, "size": found.size}
        if verb == "append":
            storage.append(path, base64.b64decode(request["data"]), sync=request["sync"])
        elif verb == "write":
            storage.write(path, base64.b64decode(request["data"]), secret=request["secret"])
        elif verb == "remove":
            storage.remove(path)
        elif verb == "rename":
            storage.rename(path, _inside(request["name"]))
        else:
            raise OpsctlError(f"the agent does not know the verb {verb!r}")
        return {}

    def _locking(self, request: Mapping[str, Any], line: object) -> Json:
        verb, lock = request["verb"], self._lock
        if verb == "take":
            return lock.take(request["holder"], line)
        if verb == "beat":
            return {"valid": lock.beat(request["token"], line)}
        if verb == "check":
            return {"valid": lock.is_valid(request["token"])}
        if verb == "free":
            lock.free(request["token"])
        elif verb == "holder":
            return {"holder": lock.holder}
        elif verb == "void":
            lock.void()
        else:
            raise OpsctlError(f"the agent does not know the verb {verb!r}")
        return {}


def _encoded(storage: FolderStorage, folder: str) -> Json:
    entries = storage.contents(folder).items()
    return {name: base64.b64encode(data).decode() for name, data in entries}


def _inside(path: str) -> str:
    """A path that stays in the state's folder. Raises OpsctlError."""
    if path.startswith("/") or ".." in path.split("/"):
        raise OpsctlError(f"{path!r} is no path of the state")
    return path
