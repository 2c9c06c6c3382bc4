"""The volume of models, as the agent keeps it for commands: `models` requests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsctl.content import ScanRules, manifest_digest, manifest_of, scan
from opsctl.errors import OpsctlError
from opsctl.files import sync_folder
from opsctl.model import Json

INCOMING = ".incoming-"
FOR_ALL = 0o755
"""Replicas run as the users of their images."""


class Models:
    """Models by digest in `root`; those that begin with a dot are not complete."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def answer(self, request: Mapping[str, Any]) -> Json:
        """Do what `verb` says."""
        verb = request["verb"]
        if verb == "list":
            return {"digests": self._digests()}
        if verb == "begin":
            return {"folder": str(self._begin(request["digest"]))}
        if verb == "finish":
            return {"same": self._finish(request)}
        if verb == "prune":
            self._prune(request["keep"])
            return {}
        raise OpsctlError(f"the agent does not know the verb {verb!r}")

    def _digests(self) -> list[str]:
        return sorted(name for name in os.listdir(self._root) if not name.startswith("."))

    def _begin(self, digest: str) -> Path:
        """An empty folder for what will be sent."""
        folder = self._root / f"{INCOMING}{digest}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _finish(self, request: Mapping[str, Any]) -> bool:
        """Put what was sent in its place, if it is what was promised."""
        folder = self._root / f"{INCOMING}{request['digest']}"
        sent = folder / request["name"]
        found = manifest_digest(manifest_of(scan(sent, ScanRules()), lambda: None))
        if found != request["manifest"]:
            shutil.rmtree(folder, ignore_errors=True)
            return False
        sent.rename(folder / request["leaf"])
        folder.chmod(FOR_ALL)
        os.sync()
        target = self._root / request["digest"]
        if not target.exists():
            folder.rename(target)
        sync_folder(self._root)
        return True

    def _prune(self, keep: list[str]) -> None:
        for name in os.listdir(self._root):
            if name not in keep:
                shutil.rmtree(self._root / name, ignore_errors=True)
