"""TensorFlow Serving's REST API as an ASGI application.

Paths and answers follow tensorflow/serving, model_servers/http_rest_api_util.cc and
http_rest_api_handler.cc. One difference, on purpose: while the model loads, a request gets 503
with Retry-After, where TensorFlow Serving does not listen yet.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from ascend_serving import answers
from ascend_serving.errors import (
    Internal,
    InvalidRequest,
    NotFound,
    RequestError,
    TooLarge,
    Unavailable,
)
from ascend_serving.http import (
    CLOSE,
    JSON,
    Answer,
    ClientGone,
    Header,
    Receive,
    Send,
    read_body,
    release_headers,
    send_answer,
)
from ascend_serving.service import Phase, Service

_LOG = logging.getLogger(__name__)
_VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_CALL = re.compile(
    rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<verb>classify|regress|predict)", re.IGNORECASE
)
_LOOK = re.compile(
    rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?P<verb>/metadata)?", re.IGNORECASE
)
_MAX_VERSION = (1 << 63) - 1
_STATES = {Phase.LOADING: "LOADING", Phase.READY: "AVAILABLE", Phase.DRAINING: "AVAILABLE"}


@dataclass(frozen=True)
class _Target:
    """What a path names; `version` None is the latest."""

    model: str
    version: int | None
    verb: str


class RestApi:
    """The application on the REST port."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limit_bytes = int(service.options.max_body_mb * 1e6)
        self._headers = release_headers(service.options.release)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        extra: tuple[Header, ...] = self._headers
        try:
            body = await read_body(receive, self._limit_bytes)
            answer = await self._answer(scope["method"], _path_of(scope), body)
        except ClientGone:
            return
        except TooLarge as error:
            # The rest of the body is unread: the connection can't be used again.
            answer, extra = _refuse(error), (*extra, CLOSE)
        if self._service.phase is Phase.DRAINING and CLOSE not in extra:
            extra = (*extra, CLOSE)
        await send_answer(send, answer, extra)

    async def _answer(self, method: str, path: str, body: bytes) -> Answer:
        try:
            return Answer(200, await self._dispatch(method, path, body))
        except RequestError as error:
            if error.status >= 500 and error.kind == "server":
                _LOG.error("%s %s: %s", method, path, error, exc_info=error.__cause__)
            return _refuse(error)
        except Exception as error:  # noqa: BLE001 — a client gets JSON for any failure
            _LOG.exception("%s %s", method, path)
            return _refuse(Internal(f"{type(error).__name__}: {error}"))

    async def _dispatch(self, method: str, path: str, body: bytes) -> bytes:
        target = _parse(method, path)
        if method == "POST":
            self._service.check_served(target.model, target.version)
            if target.verb != "predict":
                raise InvalidRequest(_wrong_verb(target.verb))
            return await self._service.predict(body)
        if target.verb == "/metadata":
            return self._metadata(target)
        return self._status(target)

    def _status(self, target: _Target) -> bytes:
        service = self._service
        if target.model != service.options.model_name and target.version is None:
            raise NotFound(f"Could not find any versions of model {target.model}")
        if (
            target.model != service.options.model_name
            or (target.version or service.artifact.version) != service.artifact.version
        ):
            raise NotFound(f"Could not find version {target.version} of model {target.model}")
        return answers.encode_status(service.artifact.version, _STATES[service.phase])

    def _metadata(self, target: _Target) -> bytes:
        service = self._service
        service.check_served(target.model, target.version)
        if service.loaded is None:
            raise Unavailable("the model is still loading")
        return answers.encode_metadata(
            service.options.model_name,
            service.artifact.version,
            service.loaded.backend.signatures,
        )


def _path_of(scope: dict[str, Any]) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1")


def _parse(method: str, path: str) -> _Target:
    if not path.lower().startswith("/v1/"):
        raise NotFound(f"Not found: {path}")
    pattern = {"POST": _CALL, "GET": _LOOK}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if match is None:
        raise InvalidRequest(f"Malformed request: {method} {path}")
    if match["label"] is not None:
        raise InvalidRequest(f"Unrecognized servable version label: {unquote(match['label'])}")
    if match["model"] is None:
        raise InvalidRequest("Missing model name in request.")
    version = match["version"]
    if version is not None and int(version) > _MAX_VERSION:
        raise InvalidRequest(f"Failed to convert version: {version} to numeric.")
    return _Target(
        unquote(match["model"]),
        None if version is None else int(version),
        (match["verb"] or "").lower(),
    )


def _wrong_verb(verb: str) -> str:
    return (
        f"Expected signature method_name to be tensorflow/serving/{verb}, and the model's "
        "signatures are for tensorflow/serving/predict; use :predict"
    )


def _refuse(error: RequestError) -> Answer:
    headers: tuple[Header, ...] = (JSON,)
    if isinstance(error, Unavailable):
        headers = (JSON, (b"retry-after", str(error.retry_after_s).encode()))
    return Answer(error.status, answers.encode_error(str(error)), headers)
