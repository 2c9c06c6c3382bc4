"""Webhooks: JSON POSTs about a rollout, which never hold it up longer than their limits."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from opsctl.config.settings import Notification
from opsctl.errors import OpsctlError
from opsctl.model import Json
from opsctl.secrets import resolve_one

if TYPE_CHECKING:
    import requests

Event = Literal["started", "finished", "failed", "waiting"]

SIGNATURE_HEADER = "X-Opsctl-Signature"
"""`sha256=` and the HMAC-SHA256 of the body, in hex."""

DELIVERY_HEADER = "X-Opsctl-Delivery"
"""The same for all tries of one delivery, so that a receiver can drop repeats."""

EVENT_HEADER = "X-Opsctl-Event"

FIRST_PAUSE_S = 0.5
"""Before the second try; it doubles with each further one."""

LONGEST_PAUSE_S = 8.0

IMPORT_MAX_S = 30.0
"""Longest import of the HTTP client, on a disk that is cold and busy."""

AGAIN = (408, 425, 429)
"""Statuses below 500 that ask for another try (RFC 9110, RFC 8470, RFC 6585)."""


@dataclass(frozen=True)
class Delivery:
    """How one webhook went. `to` names its host only: paths of chat hooks are credentials."""

    to: str
    event: str
    tries: int = 0
    status: int = 0
    warning: str = ""

    @property
    def ok(self) -> bool:
        return not self.warning

    def to_dict(self) -> Json:
        return {**self.__dict__, "ok": self.ok}


def notify(
    notifications: Iterable[Notification], event: Event, payload: Mapping[str, Any], root: Path
) -> tuple[Delivery, ...]:
    """Send `payload` with the event's name and time to all webhooks that want it, at once.

    Returns when all are done or out of time: tries × time limit plus the pauses between them.
    Nothing is raised: a failure is a warning in its delivery. The payload has no secrets in it.
    """
    return begin(notifications, event, payload, root).results()


def begin(
    notifications: Iterable[Notification], event: Event, payload: Mapping[str, Any], root: Path
) -> Sending:
    """As `notify`, but returns at once: for a moment at which nobody can wait."""
    calls = [_Call(one, event, payload, root) for one in notifications if event in one.events]
    for call in calls:
        call.start()
    return Sending(tuple(calls))


@dataclass(frozen=True)
class Sending:
    """Webhooks that are under way."""

    calls: tuple[_Call, ...]

    def results(self) -> tuple[Delivery, ...]:
        """How each went; waits for those that still have time."""
        return tuple(call.result() for call in self.calls)


NOTHING_SENT = Sending(())


def longest_s(notification: Notification) -> float:
    """Seconds after which a webhook is given up, whatever its server does."""
    pauses = [_pause_s(number) for number in range(1, notification.tries)]
    return notification.tries * notification.timeout_s + sum(pauses)


def signature(key: str, body: bytes) -> str:
    """The value of `X-Opsctl-Signature` (HMAC, RFC 2104, with SHA-256)."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


class _Call:
    """One webhook, tried in a thread of its own."""

    def __init__(
        self, notification: Notification, event: Event, payload: Mapping[str, Any], root: Path
    ) -> None:
        self._notification = notification
        self._root = root
        self._id = str(uuid.uuid4())
        self._body = json.dumps(
            {**payload, "event": event, "time": time.time(), "delivery": self._id},
            ensure_ascii=False,
        ).encode()
        self._delivery = Delivery(_host(notification.url), event)
        self._limit_s = longest_s(notification)
        self._given_up = threading.Event()
        self._imported = threading.Event()
        self._began = 0.0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def result(self) -> Delivery:
        self._imported.wait(IMPORT_MAX_S)
        self._thread.join(max(0.0, self._began + self._limit_s - time.monotonic()))
        self._given_up.set()
        if self._thread.is_alive():
            said = f"webhook to {self._delivery.to} was given up after {self._limit_s:g} s"
            return replace(self._delivery, warning=said)
        return self._delivery

    def _run(self) -> None:
        try:
            self._send()
        except Exception as error:  # noqa: BLE001  (whatever a URL or library does, it is told)
            said = f"webhook to {self._delivery.to} failed: {type(error).__name__}"
            self._delivery = replace(self._delivery, warning=said)
        finally:
            self._imported.set()

    def _send(self) -> None:
        import requests

        # Only now, as the second that the import takes is not the server's.
        self._began = time.monotonic()
        self._imported.set()
        with requests.Session() as session:
            self._deliver(session)

    def _deliver(self, session: requests.Session) -> None:
        try:
            headers = self._headers()
        except OpsctlError as error:
            said = f"webhook to {self._delivery.to} was not sent: {error}"
            self._delivery = replace(self._delivery, warning=said)
            return
        for number in range(1, self._notification.tries + 1):
            status, problem, again = self._post(session, headers)
            said = f"webhook to {self._delivery.to} failed: {problem}" if problem else ""
            self._delivery = replace(self._delivery, tries=number, status=status, warning=said)
            last = number == self._notification.tries
            if not again or last or self._given_up.wait(_pause_s(number)):
                return

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            EVENT_HEADER: self._delivery.event,
            DELIVERY_HEADER: self._id,
        }
        if self._notification.secret is not None:
            key = resolve_one("notifications.secret", self._notification.secret, self._root)
            headers[SIGNATURE_HEADER] = signature(key, self._body)
        return headers

    def _post(self, session: requests.Session, headers: Mapping[str, str]) -> tuple[int, str, bool]:
        """Status, what went wrong, and whether to try again."""
        import requests

        try:
            # A redirect would turn the POST into a GET, or carry the body to another host.
            with session.post(
                self._notification.url,
                data=self._body,
                headers=dict(headers),
                timeout=self._notification.timeout_s,
                allow_redirects=False,
                stream=True,
            ) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            # Its text holds the whole URL.
            return 0, type(error).__name__, not isinstance(error, ValueError)
        if 200 <= status < 300:
            return status, "", False
        return status, f"status {status}", status >= 500 or status in AGAIN


def _pause_s(number: int) -> float:
    """The pause after try `number`, seconds."""
    return float(min(FIRST_PAUSE_S * 2 ** (number - 1), LONGEST_PAUSE_S))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "nowhere"
    except ValueError:
        return "nowhere"
