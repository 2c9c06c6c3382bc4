"""The cluster's API as JSON: questions, and which error an answer means."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from opsctl.config.settings import Kubernetes
from opsctl.errors import TargetUnreachable
from opsctl.model import Json

PATIENCE_S = 60.0
"""An API server that answered this command before is waited for so long when it goes away: that
of a control plane with one server is back within half a minute after a restart, and later on a
machine that is busy."""

CONNECT_S = 5.0
READ_S = 30.0
PAUSE_S = (0.1, 0.2, 0.5, 1.0)
BUSY = (429, 500, 502, 503, 504)
"""Answers of a server that may say something else in a moment."""

UNKNOWN_USER = 401
CONNECTIONS = 16
JSON_TYPE = "application/json"
MERGE_TYPE = "application/merge-patch+json"
APPLY_TYPE = "application/apply-patch+yaml"
NEXT = "See that kubectl reaches the cluster with the same KUBECONFIG, then run the same again"


class Missing(TargetUnreachable):
    """There is no such object."""


class Conflict(TargetUnreachable):
    """The object was changed by somebody else meanwhile, or is there already."""


class Refused(TargetUnreachable):
    """The cluster answers, and does not do it."""


class Gone(TargetUnreachable):
    """A watch can't go on from where it was: list again."""


class Api:
    """One cluster. Making one asks nothing; safe to use from several threads."""

    def __init__(self, settings: Kubernetes) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._client: Any = None
        self._answered = False
        self.calls = 0
        """Questions asked so far, for campaigns that bound them."""

    def get(self, path: str, **query: Any) -> Json:
        """An object, or a list of them. Raises Missing, Refused, TargetUnreachable."""
        return self._ask("GET", path, query)

    def post(self, path: str, body: Json, **query: Any) -> Json:
        """Create an object; dryRun=All only tells the result. Raises Conflict when there is one of
        that name."""
        return self._ask("POST", path, query, body)

    def put(self, path: str, body: Json) -> Json:
        """Replace an object; with a resourceVersion only that version (else Conflict)."""
        return self._ask("PUT", path, {}, body)

    def patch(self, path: str, body: Json, manager: str = "opsctl") -> Json:
        """Merge `body` into an object; `manager` owns the fields from then on."""
        return self._ask("PATCH", path, {"fieldManager": manager}, body, MERGE_TYPE)

    def apply(self, path: str, body: Json, **query: Any) -> Json:
        """Apply an object on the server's side, as Helm does; dryRun=All only tells the result."""
        return self._ask("PATCH", path, {"fieldManager": "helm", **query}, body, APPLY_TYPE)

    def delete(self, path: str, **query: Any) -> None:
        """Delete an object, or all that a selector names; one that is gone already is fine."""
        with contextlib.suppress(Missing):
            self._ask("DELETE", path, query)

    def text(self, path: str, **query: Any) -> str:
        """An answer that is no JSON, as a log is."""
        return self._answer("GET", path, query, None, JSON_TYPE).decode(errors="replace")

    def lines(self, path: str, **query: Any) -> Iterator[bytes]:
        """Lines of an answer that goes on, as they come; ends when the server ends it."""
        response = self._open(path, query)
        rest = b""
        try:
            for chunk in response.stream(65536):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
            if rest:
                yield rest
        except self._errors() as error:
            raise _unreachable(error) from error
        finally:
            response.release_conn()
            response.close()

    def watch(self, path: str, version: str, selector: str, limit_s: int) -> Iterator[Json]:
        """Changes since a version, at most for `limit_s`. Raises Gone when it is too old."""
        query = {
            "watch": "true", "resourceVersion": version, "timeoutSeconds": limit_s,
            "labelSelector": selector, "allowWatchBookmarks": "true",
        }  # fmt: skip
        for line in self.lines(path, **query):
            change = json.loads(line)
            if change["type"] == "ERROR":
                raise Gone("the watch is too old", why=change["object"].get("message", ""))
            yield change

    def socket(self, path: str, query: list[tuple[str, str]], protocol: str) -> Any:
        """A websocket to a subresource, as portforward. Raises TargetUnreachable."""
        ws_client: Any = importlib.import_module("kubernetes.stream.ws_client")

        url, headers = self._websocket(path, query)
        try:
            return ws_client.create_websocket(
                self._api().configuration, url, {**headers, "sec-websocket-protocol": protocol}
            )
        except Exception as error:
            raise _unreachable(error) from error

    def command(self, path: str, query: list[tuple[str, str]]) -> Any:
        """A command's streams (the client's WSClient). Raises TargetUnreachable."""
        ws_client: Any = importlib.import_module("kubernetes.stream.ws_client")

        url, headers = self._websocket(path, query)
        try:
            return ws_client.WSClient(self._api().configuration, url, headers, capture_all=False)
        except Exception as error:
            raise _unreachable(error) from error

    def _websocket(self, path: str, query: list[tuple[str, str]]) -> tuple[str, dict[str, str]]:
        api = self._api()
        self.calls += 1
        host = api.configuration.host.replace("http", "ws", 1)
        return f"{host}{path}?{urlencode(query)}", self._headers(api)

    @property
    def address(self) -> str:
        """The API server's URL."""
        return str(self._api().configuration.host)

    def _ask(
        self, method: str, path: str, query: Mapping[str, Any], body: Json | None = None,
        kind: str = JSON_TYPE,
    ) -> Json:  # fmt: skip
        data: Json = json.loads(self._answer(method, path, query, body, kind))
        return data

    def _answer(
        self, method: str, path: str, query: Mapping[str, Any], body: Json | None, kind: str
    ) -> bytes:
        """The body of a good answer; a server that is away or busy is waited for."""
        given = json.dumps(body).encode() if body is not None else None
        deadline = time.monotonic() + (PATIENCE_S if self._answered else 0.0)
        renewed = False
        for attempt in range(1_000_000):
            last = time.monotonic() >= deadline
            try:
                status, data = self._once(method, path, query, given, kind)
            except TargetUnreachable:
                if last:
                    raise
            else:
                self._answered = True
                if status < 400:
                    return data
                if status == UNKNOWN_USER and not renewed:
                    renewed = self._log_in_again()
                    continue
                if status not in BUSY or last:
                    raise _error_of(status, data, f"{method} {path}")
            time.sleep(PAUSE_S[min(attempt, len(PAUSE_S) - 1)])
        raise AssertionError("unreachable")

    def _once(
        self, method: str, path: str, query: Mapping[str, Any], given: bytes | None, kind: str
    ) -> tuple[int, bytes]:
        from urllib3 import Timeout

        api = self._api()
        self.calls += 1
        try:
            response = api.rest_client.pool_manager.request(
                method, _url(api, path, query), body=given, retries=False,
                headers={**self._headers(api), "Content-Type": kind},
                timeout=Timeout(connect=CONNECT_S, read=READ_S),
            )  # fmt: skip
            return response.status, response.data
        except self._errors() as error:
            raise _unreachable(error) from error

    def _open(self, path: str, query: Mapping[str, Any]) -> Any:
        from urllib3 import Timeout

        api = self._api()
        self.calls += 1
        limit_s = float(query.get("timeoutSeconds", 0)) + CONNECT_S
        try:
            response = api.rest_client.pool_manager.request(
                "GET", _url(api, path, query), headers=self._headers(api), retries=False,
                preload_content=False, timeout=Timeout(connect=CONNECT_S, read=limit_s),
            )  # fmt: skip
        except self._errors() as error:
            raise _unreachable(error) from error
        if response.status >= 400:
            raise _error_of(response.status, response.data, f"GET {path}")
        return response

    def _headers(self, api: Any) -> dict[str, str]:
        token = api.configuration.get_api_key_with_prefix("BearerToken", "authorization")
        headers = {"Accept": JSON_TYPE, "User-Agent": "opsctl"}
        return {**headers, "authorization": token} if token else headers

    def _errors(self) -> tuple[type[Exception], ...]:
        from urllib3.exceptions import HTTPError

        return (HTTPError, OSError)

    def _log_in_again(self) -> bool:
        """Read the kubeconfig anew at the next question: a token may end before it says so."""
        _connect.cache_clear()
        with self._lock:
            self._client = None
        return True

    def _api(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _connect(os.environ.get("KUBECONFIG"), self._settings.context)
        return self._client


@functools.cache
def _connect(kubeconfig: str | None, context: str | None) -> Any:
    """A client by KUBECONFIG (or ~/.kube/config), else by the pod's own account; one for all that
    go the same way, with their connections."""
    client: Any = importlib.import_module("kubernetes.client")
    config: Any = importlib.import_module("kubernetes.config")

    default = os.path.expanduser(kubeconfig or "~/.kube/config")
    found = any(os.path.exists(os.path.expanduser(p)) for p in default.split(os.pathsep) if p)
    try:
        configuration = client.Configuration()
        if found or context:
            with _overheard() as said:
                config.load_kube_config(
                    config_file=default, context=context, client_configuration=configuration
                )
            _check_credentials(configuration, said)
        else:
            config.load_incluster_config(client_configuration=configuration)
    except TargetUnreachable:
        raise
    except Exception as error:
        raise TargetUnreachable(
            "cannot tell how to reach the cluster",
            why=str(error).strip() or type(error).__name__,
            next_step="Set KUBECONFIG to a kubeconfig, and kubernetes.context to one of its"
            " contexts",
        ) from error
    configuration.connection_pool_maxsize = CONNECTIONS
    return client.ApiClient(configuration)


@contextlib.contextmanager
def _overheard() -> Iterator[list[str]]:
    """What the client logs, which is all that it does when a plugin gives no credentials."""
    said: list[str] = []
    root = logging.getLogger()
    listening = logging.Handler()
    listening.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    root.addHandler(listening)
    try:
        yield said
    finally:
        root.removeHandler(listening)


def _check_credentials(configuration: Any, said: list[str]) -> None:
    """Without credentials every answer would be that a user without a name may do nothing."""
    if configuration.api_key or configuration.cert_file or configuration.username:
        return
    if configuration.host.startswith("http://"):
        return  # a proxy on this machine may have them
    raise TargetUnreachable(
        "the kubeconfig gives no credentials for the cluster",
        why="; ".join(said) or "its user has neither a token nor a certificate nor a plugin",
        next_step="See that kubectl get namespaces works with the same KUBECONFIG and context",
    )


def _url(api: Any, path: str, query: Mapping[str, Any]) -> str:
    given = [(name, value) for name, value in query.items() if value not in ("", None)]
    return f"{api.configuration.host}{path}" + (f"?{urlencode(given)}" if given else "")


def _unreachable(error: Exception) -> TargetUnreachable:
    return TargetUnreachable(
        "the cluster's API does not answer", why=str(error) or type(error).__name__, next_step=NEXT
    )


def _error_of(status: int, data: bytes, asked: str) -> TargetUnreachable:
    """The error of an answer, with the server's own words."""
    try:
        said = str(json.loads(data).get("message") or "")
    except (ValueError, AttributeError):
        said = data[:300].decode(errors="replace").strip()
    if status == 404:
        return Missing(f"{asked}: there is none", why=said)
    if status == 409:
        return Conflict(f"{asked}: somebody else was faster", why=said)
    if status == 410:
        return Gone(f"{asked}: too old", why=said)
    if status in (401, 403):
        return Refused(
            "the cluster does not allow it", why=said or f"{asked}: status {status}",
            next_step="Give this user the rights that opsctl render role prints",
        )  # fmt: skip
    return Refused(f"the cluster refused {asked}", why=said or f"status {status}", next_step=NEXT)
