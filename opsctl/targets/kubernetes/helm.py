"""Helm as the release engine: one release a service, one revision a change of what should run."""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from opsctl import shell
from opsctl.config.settings import Kubernetes
from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.resources import chart_path
from opsctl.targets.kubernetes.api import Api, Conflict, Missing, Refused
from opsctl.targets.kubernetes.names import BY_OPSCTL, Names

LIMIT_S = 60.0
"""An upgrade that does not wait for pods takes half a second; an API server may be away."""

HISTORY = 50
"""Revisions that stay: a rollout takes about ten, and those of the last few must be there."""

TRIES = 3
PATIENCE_S = 60.0
"""A server that is away or busy is waited for so long, as by all other questions to it."""

PASSING = (
    "connection refused", "connection reset by peer", "EOF", "i/o timeout",
    "TLS handshake timeout", "too many requests", "currently unable to handle the request",
    "etcdserver: ",
)  # fmt: skip
"""What Helm says of a server that may answer in a moment."""

PAUSE_S = 1.0
TIED = Path(__file__).with_name("tied.py")
PENDING = ("pending-install", "pending-upgrade", "pending-rollback")
UNFINISHED = "opsctl: the command that made this revision was killed"


@dataclass(frozen=True)
class Made:
    """A revision of a Helm release."""

    number: int
    description: str

    @property
    def by_opsctl(self) -> bool:
        """Whether an order of opsctl made it, and not somebody with `helm` itself."""
        return self.description == UNFINISHED or self.description.startswith(BY_OPSCTL)


class Helm:
    """The Helm release of one service."""

    def __init__(self, api: Api, names: Names, settings: Kubernetes) -> None:
        self._api = api
        self._names = names
        self._settings = settings
        self.upgrades = 0

    def upgrade(self, values: Json, description: str) -> None:
        """Put values in force, over whatever was left behind; returns before pods are ready.

        Raises TargetUnreachable with Helm's own words.
        """
        argv = [
            "upgrade", self._names.service, str(chart_path()), "--install", "--values", "-",
            "--history-max", str(HISTORY), "--timeout", f"{LIMIT_S:.0f}s",
            "--description", description,
        ]  # fmt: skip
        deadline, attempt = time.monotonic() + PATIENCE_S, 0
        while True:
            self.upgrades += 1
            done = self._run(argv, stdin=json.dumps(values))
            if done.ok:
                return
            mended = self.recover()
            if is_passing(done.stderr) and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
                continue
            attempt += 1
            if attempt == TRIES or (attempt > 1 and not mended):
                raise _failed("put the release in force", done)
            time.sleep(0.2 * attempt)

    def uninstall(self) -> None:
        """Remove all that Helm made of the service, and its history.

        Raises TargetUnreachable with Helm's own words.
        """
        argv = ["uninstall", self._names.service, "--ignore-not-found"]
        for attempt in range(1, TRIES + 1):
            self.recover()
            done = self._run(argv, "")
            if done.ok:
                return
            time.sleep(0.2 * attempt)
        raise _failed("uninstall the release", done)

    def is_whole(self) -> bool:
        """Whether the newest revision came to its end; a killed or failed one may have changed
        only some of its objects."""
        record = self.last_record()
        return record is None or _status(record) == "deployed"

    def recover(self) -> bool:
        """Mark a revision failed whose command was killed, so that the next one goes forward.

        Nothing that runs is changed by it, so no traffic moves. True when there was one.
        """
        record = self.last_record()
        if record is None or _status(record) not in PENDING:
            return False
        release = decoded(record)
        release["info"]["status"] = "failed"
        release["info"]["description"] = UNFINISHED
        record["metadata"]["labels"]["status"] = "failed"
        record["data"]["release"] = encoded(release)
        try:
            self._api.put(self._names.path("secrets", record["metadata"]["name"]), record)
        except (Conflict, Missing):
            return False  # it ended after all
        return True

    def last_record(self) -> Json | None:
        """The Secret of the newest revision, None before the first."""
        chosen = f"owner=helm,name={self._names.service},status!=superseded"
        found = self._api.get(self._names.path("secrets"), labelSelector=chosen)["items"]
        return max(found, key=_revision, default=None)

    def last_made(self) -> Made | None:
        """The newest revision, None before the first."""
        record = self.last_record()
        if record is None:
            return None
        info = decoded(record).get("info") or {}
        return Made(_revision(record), str(info.get("description", "")))

    def _run(self, arguments: list[str], stdin: str) -> shell.Completed:
        context = ["--kube-context", self._settings.context] if self._settings.context else []
        helm = [self._settings.helm, *arguments, "--namespace", self._names.namespace, *context]
        tied = [sys.executable, "-S", "-E", str(TIED), str(os.getpid())]
        # The history must lie where others look for it.
        env = {**os.environ, "HELM_DRIVER": "secret"}
        return shell.run([*tied, *helm], timeout_s=LIMIT_S + 5, env=env, stdin=stdin)


def is_passing(said: str) -> bool:
    """Whether Helm failed by something that may be over in a moment."""
    return any(words in said for words in PASSING)


def decoded(record: Json) -> Json:
    """What a revision's Secret says: Helm packs JSON, and the API encodes it once more."""
    packed = base64.b64decode(base64.b64decode(record["data"]["release"]))
    data = gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed
    release: Json = json.loads(data)
    return release


def encoded(release: Json) -> str:
    """The other way."""
    packed = gzip.compress(json.dumps(release).encode())
    return base64.b64encode(base64.b64encode(packed)).decode()


def _status(record: Json) -> str:
    return str(record["metadata"]["labels"].get("status", ""))


def _revision(record: Json) -> int:
    return int(record["metadata"]["labels"]["version"])


def _failed(what: str, done: shell.Completed) -> TargetUnreachable:
    said = (done.stderr or done.stdout).strip()[-2000:] or done.why
    if done.exit_code == 127 or "cannot start" in said:
        return TargetUnreachable(
            "cannot start helm", why=said,
            next_step="Install Helm 3.16 or newer (or 4), or set kubernetes.helm to its path",
        )  # fmt: skip
    next_step = "See: helm history, opsctl logs and kubectl get events; then run: opsctl resume"
    if "conflict" in said and "field" in said:
        next_step = (
            "Somebody edited a field that the chart owns (kubectl edit, apply or an autoscaler)."
            " Undo that edit, then run: opsctl resume"
        )
    return Refused(f"helm could not {what}", why=said, next_step=next_step)
